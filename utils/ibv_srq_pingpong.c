/* SPDX-License-Identifier: BSD-2-Clause */
/* A ping-pong over many reliable connections that share one receive queue. */
#include <stdio.h>
#include <stdlib.h>

#include "game.h"

enum { ROWS = 256 }; /* addresses that each side sends, however many QPs it has */

static const struct pp_program program = {
	.letters = "pdismqrnlegoc",
	.exchanges = "number of exchanges, all QPs together",
	.defaults = { .port = 18515,
		      .ib_port = 1,
		      .size = 4096,
		      .mtu = 1024,
		      .rx_depth = 500,
		      .iters = 1000,
		      .qp_count = 16 },
};

static bool fits(const struct pp_options *options)
{
	if (options->qp_count > options->rx_depth) {
		fprintf(stderr,
			"rx_depth %u is too small for %u QPs -- "
			"must have at least one receive per QP.\n",
			options->rx_depth, options->qp_count);
		return false;
	}
	if (options->qp_count >= ROWS) {
		fprintf(stderr, "num_qp %u must be less than %d\n", options->qp_count, ROWS);
		return false;
	}
	return true;
}

static bool create_queues(struct pp_game *game, struct pp_end *end)
{
	const struct pp_options *options = &end->options;
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = options->rx_depth, .max_sge = 1 } };

	if (!pp_end_create_cq(end, options->rx_depth + options->qp_count) ||
	    !pp_game_open(game, end, options->qp_count))
		return false;
	game->srq = ibv_create_srq(end->pd, &attr);
	if (!game->srq) {
		perror("Couldn't create SRQ");
		return false;
	}
	for (unsigned i = 0; i < options->qp_count; i++)
		if (!pp_qp_create(game, &game->players[i], IBV_QPT_RC))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct pp_options options;
	struct pp_end end;
	struct pp_game game = { .end = &end };
	bool ok;

	if (!pp_options_parse(&program, argc, argv, &options) || !fits(&options))
		return EXIT_FAILURE;
	ok = pp_end_open(&end, &options, 0) && create_queues(&game, &end) &&
	     (!options.check || pp_pattern_write(&end)) && pp_game_post_receives(&game) &&
	     pp_game_meet(&game, ROWS, ',', pp_qp_connect) && pp_game_play(&game);
	ok &= pp_game_close(&game);
	ok &= pp_end_close(&end);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
