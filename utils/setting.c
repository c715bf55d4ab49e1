/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning of a game: the two sides meet and exchange addresses. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "game.h"

static const char farewell[] = "done";

static bool send_addresses(const struct pp_game *game, int fd, unsigned rows)
{
	const struct pp_address nobody = { 0 };

	for (unsigned i = 0; i < rows; i++)
		if (!pp_address_send(fd, i < game->count ? &game->players[i].local : &nobody))
			return false;
	return true;
}

static bool receive_addresses(struct pp_game *game, int fd, unsigned rows)
{
	struct pp_address unused;

	for (unsigned i = 0; i < rows; i++)
		if (!pp_address_receive(fd, i < game->count ? &game->players[i].remote : &unused))
			return false;
	return true;
}

static bool ready_all(struct pp_game *game,
		      bool (*ready)(struct pp_end *end, struct pp_player *player))
{
	for (unsigned i = 0; i < game->count; i++)
		if (!ready(game->end, &game->players[i]))
			return false;
	return true;
}

static bool as_client(struct pp_game *game, int fd, unsigned rows,
		      bool (*ready)(struct pp_end *end, struct pp_player *player))
{
	return send_addresses(game, fd, rows) && receive_addresses(game, fd, rows) &&
	       ready_all(game, ready) && pp_meet_write(fd, farewell, sizeof(farewell));
}

static bool as_server(struct pp_game *game, int fd, unsigned rows,
		      bool (*ready)(struct pp_end *end, struct pp_player *player))
{
	char answer[sizeof(farewell)];

	return receive_addresses(game, fd, rows) && ready_all(game, ready) &&
	       send_addresses(game, fd, rows) && pp_meet_read(fd, answer, sizeof(answer));
}

static int meet(const struct pp_options *options)
{
	int listener, fd;

	if (options->host)
		return pp_meet_connect(options->host, options->port);
	listener = pp_meet_listen(options->port);
	if (listener < 0)
		return -1;
	fd = pp_meet_accept(listener);
	close(listener);
	return fd;
}

bool pp_game_meet(struct pp_game *game, unsigned rows, char before_gid,
		  bool (*ready)(struct pp_end *end, struct pp_player *player))
{
	bool ok;
	int fd;

	for (unsigned i = 0; i < game->count; i++) {
		struct pp_player *player = &game->players[i];

		player->local = pp_end_address(game->end, player->qp);
		pp_address_print("local address:", &player->local, before_gid);
	}
	fd = meet(&game->end->options);
	if (fd < 0)
		return false;
	ok = (game->end->options.host ? as_client : as_server)(game, fd, rows, ready);
	close(fd);
	for (unsigned i = 0; ok && i < game->count; i++)
		pp_address_print("remote address:", &game->players[i].remote, ',');
	return ok;
}
