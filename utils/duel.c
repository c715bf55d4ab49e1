/* SPDX-License-Identifier: BSD-2-Clause */
#include "duel.h"

#include <stdio.h>
#include <stdlib.h>

#include "game.h"

static bool fits(const struct pp_end *end)
{
	unsigned mtu = 128u << end->port.active_mtu;

	if (end->options.size <= mtu)
		return true;
	fprintf(stderr, "Requested size larger than port MTU (%u)\n", mtu);
	return false;
}

static bool duel(struct pp_game *game, enum ibv_qp_type type)
{
	bool datagrams = type == IBV_QPT_UD;
	bool (*ready)(struct pp_end *, struct pp_player *) = datagrams ? pp_qp_aim : pp_qp_connect;
	struct pp_end *end = game->end;

	return (!datagrams || fits(end)) && pp_end_create_cq(end, end->options.rx_depth + 1) &&
	       pp_game_open(game, end, 1) && pp_qp_create(game, &game->players[0], type) &&
	       (!end->options.check || pp_pattern_write(end)) && pp_game_post_receives(game) &&
	       pp_game_meet(game, 1, datagrams ? ':' : ',', ready) && pp_game_play(game);
}

int pp_duel(const struct pp_program *program, enum ibv_qp_type type, int argc, char **argv)
{
	struct pp_options options;
	struct pp_end end;
	struct pp_game game = { .end = &end };
	bool ok;

	if (!pp_options_parse(program, argc, argv, &options))
		return EXIT_FAILURE;
	ok = pp_end_open(&end, &options, type == IBV_QPT_UD ? PP_GRH_SIZE : 0) && duel(&game, type);
	ok &= pp_game_close(&game);
	ok &= pp_end_close(&end);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
