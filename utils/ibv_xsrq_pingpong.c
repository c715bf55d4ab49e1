/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ping-pong over extended reliable connections. The server plays with several clients at a time
 * and receives from all of them in one queue. Here the server sends the first ball.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xrc.h"

static const struct pp_program program = {
	.letters = "pdismcnleog",
	.exchanges = "number of tests per client",
	.counts_clients = true,
	.defaults = { .port = 18515,
		      .ib_port = 1,
		      .size = 4096,
		      .mtu = 1024,
		      .iters = 5,
		      .clients = 1 },
};

static const char farewell[] = "END";

static bool create(struct xrc_side *side)
{
	const struct pp_options *options = &side->end.options;
	unsigned count = side->game.count;

	side->local = calloc(count, sizeof(*side->local));
	side->remote = calloc(count, sizeof(*side->remote));
	if (!side->local || !side->remote || !xrc_srq_create(side))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!xrc_qps_create(side, &side->game.players[i]))
			return false;
	side->game.serves = !options->host;
	side->game.each = options->iters;
	side->game.total = options->iters * count;
	return pp_game_post_receives(&side->game);
}

static bool open_side(struct xrc_side *side, const struct pp_options *options)
{
	struct pp_options more = *options;
	unsigned players = options->host ? 1 : options->clients;

	more.rx_depth = 2 * players + 2;
	return pp_end_open(&side->end, &more, 0) && xrc_domain_open(side) &&
	       pp_end_create_cq(&side->end, more.rx_depth + players) &&
	       pp_game_open(&side->game, &side->end, players) && create(side);
}

static bool close_side(struct xrc_side *side)
{
	bool ok = pp_game_close(&side->game);

	if (side->domain && ibv_close_xrcd(side->domain)) {
		fprintf(stderr, "Couldn't close the XRC Domain\n");
		ok = false;
	}
	free(side->local);
	free(side->remote);
	return pp_end_close(&side->end) && ok;
}

static bool client_meets(struct xrc_side *side, int fd)
{
	side->local[0] = xrc_address_of(side, &side->game.players[0]);
	xrc_address_print("local", &side->local[0]);
	if (!xrc_address_send(fd, &side->local[0]) || !xrc_address_receive(fd, &side->remote[0]))
		return false;
	xrc_address_print("remote", &side->remote[0]);
	return xrc_qps_connect(side, 0);
}

/* The server connects before it answers: the client may send as soon as it has the answer. */
static bool server_meets(struct xrc_side *side, unsigned index, int fd)
{
	side->local[index] = xrc_address_of(side, &side->game.players[index]);
	if (!xrc_address_receive(fd, &side->remote[index]))
		return false;
	xrc_address_print("remote", &side->remote[index]);
	xrc_address_print("local", &side->local[index]);
	return xrc_qps_connect(side, index) && xrc_address_send(fd, &side->local[index]);
}

static bool farewell_read(int fd)
{
	char answer[sizeof(farewell)];

	return pp_meet_read(fd, answer, sizeof(answer)) &&
	       !memcmp(answer, farewell, sizeof(answer));
}

static bool run_client(struct xrc_side *side)
{
	const struct pp_options *options = &side->end.options;
	int fd = pp_meet_connect(options->host, options->port);
	bool ok;

	if (fd < 0)
		return false;
	ok = client_meets(side, fd) && pp_game_run(&side->game) &&
	     pp_meet_write(fd, farewell, sizeof(farewell)) && farewell_read(fd);
	close(fd);
	return ok;
}

static bool meet_clients(struct xrc_side *side, int listener, int *fds)
{
	for (unsigned i = 0; i < side->game.count; i++) {
		fds[i] = pp_meet_accept(listener);
		if (fds[i] < 0 || !server_meets(side, i, fds[i]))
			return false;
	}
	return true;
}

static bool part(const struct xrc_side *side, const int *fds)
{
	bool ok = true;

	for (unsigned i = 0; i < side->game.count; i++)
		ok &= farewell_read(fds[i]) && pp_meet_write(fds[i], farewell, sizeof(farewell));
	return ok;
}

static bool run_server(struct xrc_side *side)
{
	int listener = pp_meet_listen(side->end.options.port);
	int *fds = calloc(side->game.count, sizeof(*fds));
	bool ok = listener >= 0 && fds && meet_clients(side, listener, fds) &&
		  pp_game_run(&side->game) && part(side, fds);

	for (unsigned i = 0; fds && i < side->game.count; i++)
		if (fds[i] > 0)
			close(fds[i]);
	free(fds);
	if (listener >= 0)
		close(listener);
	return ok;
}

int main(int argc, char **argv)
{
	struct xrc_side side = { 0 };
	struct pp_options options;
	bool ok;

	if (!pp_options_parse(&program, argc, argv, &options))
		return EXIT_FAILURE;
	ok = open_side(&side, &options) && (options.host ? run_client : run_server)(&side);
	ok &= close_side(&side);
	if (ok)
		printf("success\n");
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
