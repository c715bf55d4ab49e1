/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic between two processes: up to LANES_MAX QPs with their sending side, one receive queue,
 * one CQ, and memory for one-sided operations. Both processes open a flow of the same shape,
 * exchange a hello over a socket, connect, and pump.
 */
#ifndef CHAOS_FLOW_H
#define CHAOS_FLOW_H

#include "rig.h"
#include "rx.h"
#include "tx.h"

enum { LANES_MAX = 3 };

struct flow_shape {
	enum mix mix;
	bool ud;
	bool events; /* sleep on the completion channel instead of polling */
	unsigned lanes, depth;
	uint32_t size_max;
	uint32_t tag_out, tag_in; /* lane i adds i */
	uint64_t send_limit;      /* WRs per lane; 0: this side only receives */
	uint64_t seed;
	struct tally *tally;
	void *region_at; /* map the region exactly here; NULL: anywhere */
};

struct lane {
	struct tx tx;
	uint32_t psn;
	uint32_t next_in; /* seq of the next message that may arrive */
	bool last_wqe;    /* its QP_LAST_WQE_REACHED arrived */
};

struct flow {
	struct rig *rig;
	struct flow_shape shape;
	struct ibv_comp_channel *channel; /* with shape.events */
	struct ibv_cq *cq;
	struct rx own_rx, *rx; /* own, or a shared one that outlives the flow */
	struct lane lane[LANES_MAX];
	struct ibv_mr *ring_mr, *region_mr;
	uint8_t *ring, *region;
	size_t ring_size;
	struct region_map map;
	uint64_t messages_in, flushed_in, late_in;
	bool repost;       /* give every receive back at once */
	bool may_fail;     /* the peer may die: sends may fail, receives may be flushed */
	bool failed;       /* one did, or the owner moved the QPs to ERR */
	uint32_t tag_late; /* UD: messages of this dead sender may still come up; 0: none */
};

struct hello {
	uint32_t round, step; /* who finds another round or step here throws it away */
	union ibv_gid gid;
	uint32_t lanes;
	uint32_t qpn[LANES_MAX], psn[LANES_MAX];
	uint64_t region_addr;
	uint32_t rkey;
};

/* shared: an open rx with an SRQ, or NULL for a receive queue of its own. */
void flow_open(struct flow *flow, struct rig *rig, const struct flow_shape *shape,
	       struct rx *shared);
void flow_describe(const struct flow *flow, struct hello *hello);
void flow_connect(struct flow *flow, const struct hello *peer);
void flow_close(struct flow *flow);
/* The same QP for another peer (UD): its tags, its limit, a new seed. */
void flow_retune(struct flow *flow, const struct flow_shape *shape);

/* Posts what has room and polls; true if anything happened. */
bool flow_pump(struct flow *flow);
/* Polls only. */
bool flow_poll(struct flow *flow);
/* Nothing happened: with events, sleep until a completion or until other_fd is readable. */
void flow_idle(struct flow *flow, int other_fd, int timeout_ms);

bool flow_sent_all(const struct flow *flow);
/* Moves every QP to ERR. */
void flow_error(struct flow *flow);

void flow_region_check(const struct flow *flow);

#endif
