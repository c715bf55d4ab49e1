/* SPDX-License-Identifier: BSD-2-Clause */
#include "game.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool pp_game_open(struct pp_game *game, struct pp_end *end, unsigned count)
{
	*game = (struct pp_game){
		.end = end,
		.count = count,
		.serves = end->options.host,
		.total = end->options.iters,
		.each = end->options.iters,
		.least_ticks = UINT64_MAX,
	};
	game->players = calloc(count, sizeof(*game->players));
	if (!game->players) {
		fprintf(stderr, "Couldn't allocate %u QPs\n", count);
		return false;
	}
	game->send_sge = pp_end_send_sge(end);
	for (unsigned i = 0; i < count; i++)
		game->players[i].wr = (struct ibv_send_wr){
			.wr_id = PP_WR_SEND,
			.sg_list = &game->send_sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
	return true;
}

bool pp_game_close(struct pp_game *game)
{
	bool ok = true;

	for (unsigned i = 0; game->players && i < game->count; i++) {
		struct pp_player *player = &game->players[i];

		if ((player->qp && ibv_destroy_qp(player->qp)) ||
		    (player->receive_qp && ibv_destroy_qp(player->receive_qp))) {
			fprintf(stderr, "Couldn't destroy QP\n");
			ok = false;
		}
		if (player->wr.wr.ud.ah && ibv_destroy_ah(player->wr.wr.ud.ah)) {
			fprintf(stderr, "Couldn't destroy AH\n");
			ok = false;
		}
	}
	if (game->srq && ibv_destroy_srq(game->srq)) {
		fprintf(stderr, "Couldn't destroy SRQ\n");
		ok = false;
	}
	free(game->players);
	return ok;
}

bool pp_game_post_receives(struct pp_game *game)
{
	struct ibv_sge sge = pp_end_receive_sge(game->end);
	struct ibv_recv_wr wr = { .wr_id = PP_WR_RECEIVE, .sg_list = &sge, .num_sge = 1 }, *bad;
	unsigned wanted = game->end->options.rx_depth;

	for (; game->receives < wanted; game->receives++)
		if (game->srq ? ibv_post_srq_recv(game->srq, &wr, &bad)
			      : ibv_post_recv(game->players[0].qp, &wr, &bad))
			break;
	if (game->receives < wanted)
		fprintf(stderr, "Couldn't post receive (%u)\n", game->receives);
	return game->receives == wanted;
}

/* Posts the same request by the ibv_wr_* calls. */
static int post_new(struct pp_player *player)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(player->qp);
	const struct ibv_sge *sge = player->wr.sg_list;

	ibv_wr_start(qp);
	qp->wr_id = player->wr.wr_id;
	qp->wr_flags = player->wr.send_flags;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	return ibv_wr_complete(qp);
}

static bool post_send(struct pp_game *game, struct pp_player *player)
{
	struct ibv_send_wr *bad;
	int err = game->end->options.new_send ? post_new(player)
					      : ibv_post_send(player->qp, &player->wr, &bad);

	if (err) {
		fprintf(stderr, "Couldn't post send: %s\n", strerror(err));
		return false;
	}
	player->posted++;
	game->posted++;
	return true;
}

/* The player sends if it has the ball and no send under way. */
static bool take_turn(struct pp_game *game, struct pp_player *player)
{
	unsigned balls = player->received + (game->serves ? 1 : 0);

	if (player->posted >= balls || player->sent < player->posted ||
	    player->posted >= game->each || game->posted >= game->total)
		return true;
	return post_send(game, player);
}

static void note_time(struct pp_game *game, uint64_t stamp)
{
	if (game->received > 1) {
		uint64_t ticks = stamp - game->last_stamp;

		game->sum_ticks += ticks;
		if (ticks < game->least_ticks)
			game->least_ticks = ticks;
		if (ticks > game->most_ticks)
			game->most_ticks = ticks;
	}
	game->last_stamp = stamp;
}

static struct pp_player *player_of(struct pp_game *game, uint32_t qpn)
{
	for (unsigned i = 0; i < game->count; i++) {
		struct pp_player *player = &game->players[i];

		if (player->qp->qp_num == qpn ||
		    (player->receive_qp && player->receive_qp->qp_num == qpn))
			return player;
	}
	fprintf(stderr, "Couldn't find QPN %06x\n", qpn);
	return NULL;
}

static bool on_receive(struct pp_game *game, struct pp_player *player,
		       const struct pp_completion *completion)
{
	player->received++;
	game->received++;
	if (game->end->cq_ex)
		note_time(game, completion->timestamp);
	/* Keep more receives than players: a message may come on each QP at any time. */
	if (--game->receives <= game->count)
		return pp_game_post_receives(game);
	return true;
}

static bool on_completion(struct pp_game *game, const struct pp_completion *completion)
{
	struct pp_player *player = player_of(game, completion->qpn);

	if (completion->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "Failed status %s (%d) for wr_id %d\n",
			ibv_wc_status_str(completion->status), completion->status,
			(int)completion->wr_id);
		return false;
	}
	if (!player)
		return false;
	if (completion->wr_id == PP_WR_SEND) {
		player->sent++;
		game->sent++;
	} else if (!on_receive(game, player, completion)) {
		return false;
	}
	return take_turn(game, player);
}

static bool is_over(const struct pp_game *game)
{
	return game->sent >= game->total && game->received >= game->total;
}

bool pp_game_run(struct pp_game *game)
{
	struct pp_completion completion;
	int n;

	for (unsigned i = 0; i < game->count; i++)
		if (!take_turn(game, &game->players[i]))
			return false;
	while (!is_over(game)) {
		n = pp_cq_next(game->end, &completion);
		if (n < 0 || (n > 0 && !on_completion(game, &completion)))
			return false;
		if (!n && game->end->options.events && !pp_cq_wait(game->end))
			return false;
	}
	return true;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_result(const struct pp_game *game, double seconds)
{
	const struct pp_options *options = &game->end->options;
	long long bytes = 2ll * options->size * options->iters;

	printf("%lld bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, seconds,
	       (double)bytes * 8 / seconds / 1e6);
	printf("%u iters in %.2f seconds = %.2f usec/iter\n", options->iters, seconds,
	       seconds * 1e6 / options->iters);
	if (!game->end->cq_ex || game->received < 2)
		return;
	printf("Max receive completion clock cycles = %" PRIu64 "\n", game->most_ticks);
	printf("Min receive completion clock cycles = %" PRIu64 "\n", game->least_ticks);
	printf("Average receive completion clock cycles = %f\n",
	       (double)game->sum_ticks / (game->received - 1));
}

bool pp_game_play(struct pp_game *game)
{
	const struct pp_options *options = &game->end->options;
	double start = now_s();

	if (!pp_game_run(game))
		return false;
	print_result(game, now_s() - start);
	return !options->check || pp_pattern_check(game->end);
}
