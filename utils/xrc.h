/* SPDX-License-Identifier: BSD-2-Clause */
/* The extra parts of ibv_xsrq_pingpong: QPs that only send or only receive, SRQ numbers. */
#ifndef UTILS_XRC_H
#define UTILS_XRC_H

#include "game.h"

struct xrc_address {
	unsigned lid, receive_qpn, send_qpn, psn, srqn;
	union ibv_gid gid;
};

struct xrc_side {
	struct pp_end end;
	struct pp_game game;
	struct ibv_xrcd *domain;
	unsigned srqn;
	struct xrc_address *local, *remote; /* one of each per player */
};

/* --- xrc_address.c --- */

/* lid:receive_qpn:send_qpn:psn:srqn:gid in hexadecimal, with a NUL at the end. */
bool xrc_address_send(int fd, const struct xrc_address *address);
bool xrc_address_receive(int fd, struct xrc_address *address);
void xrc_address_print(const char *whose, const struct xrc_address *address);
struct xrc_address xrc_address_of(const struct xrc_side *side, const struct pp_player *player);

/* --- xrc_qp.c --- false after a complaint --- */

bool xrc_domain_open(struct xrc_side *side);
bool xrc_srq_create(struct xrc_side *side);
bool xrc_qps_create(struct xrc_side *side, struct pp_player *player);
/* Connects each side's sending QP with the receiving QP of the other side. */
bool xrc_qps_connect(struct xrc_side *side, unsigned index);

#endif
