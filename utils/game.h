/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The game: a ball goes to and fro on each connection. One side serves (the client; with XRC the
 * server). A side that has the ball, and whose last send is complete, sends the ball back. The game
 * is over when both sides have sent and received the agreed number of times, over all connections.
 */
#ifndef UTILS_GAME_H
#define UTILS_GAME_H

#include "end.h"

enum { PP_WR_RECEIVE = 1, PP_WR_SEND = 2 };

struct pp_player {
	struct ibv_qp *qp;
	struct ibv_qp *receive_qp; /* XRC: the QP that receives; else NULL */
	struct pp_address local, remote;
	struct ibv_send_wr wr; /* the same for each send; its element is the game's send_sge */
	unsigned posted, sent, received;
};

struct pp_game {
	struct pp_end *end;
	struct pp_player *players;
	unsigned count;
	struct ibv_srq *srq; /* NULL: the only player has a receive queue of its own */
	struct ibv_sge send_sge;
	bool serves;
	unsigned total, each; /* sends of the game: of all players, and at most of each */
	unsigned posted, sent, received; /* of all players */
	unsigned receives;               /* posted and not used yet */
	uint64_t last_stamp, least_ticks, most_ticks, sum_ticks;
};

/* Makes players and their work requests; the program makes QPs. False after a complaint. */
bool pp_game_open(struct pp_game *game, struct pp_end *end, unsigned count);
/* Destroys the QPs, too. */
bool pp_game_close(struct pp_game *game);

/* Fills the receive queue up to the options' depth. */
bool pp_game_post_receives(struct pp_game *game);
/* Plays the game to its end. pp_game_play also prints the result, and checks it with --chk. */
bool pp_game_run(struct pp_game *game);
bool pp_game_play(struct pp_game *game);

/* --- qp.c --- */

/* A QP in INIT. type: RC, UC or UD. */
bool pp_qp_create(struct pp_game *game, struct pp_player *player, enum ibv_qp_type type);
/* RC and UC: to RTR and RTS, with the exchanged addresses. */
bool pp_qp_connect(struct pp_end *end, struct pp_player *player);
/* UD: to RTR and RTS, with an address handle in the work request. */
bool pp_qp_aim(struct pp_end *end, struct pp_player *player);
/* Prints a hint if the GID index is missing, the most frequent mistake. */
void pp_hint_gid(const struct pp_end *end);
struct ibv_ah_attr pp_ah_attr(const struct pp_end *end, const struct pp_address *remote);

/* --- setting.c --- */

/*
 * Meets the other side and exchanges rows of addresses: those of players, then zeros. In between it
 * calls ready for each player. The server does so before it answers: no message comes too early.
 */
bool pp_game_meet(struct pp_game *game, unsigned rows, char before_gid,
		  bool (*ready)(struct pp_end *end, struct pp_player *player));

#endif
