/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One QP on an engine whose network is the test: packets that it sends are read one by one, and
 * packets of its peer are made by hand.
 *
 *   test: rig_post  ->  engine  ->  rig_take      what a peer would get
 *   test: rig_give  ->  engine  ->  rig_poll      what the application would see
 */
#ifndef VB_TESTS_SIM_RIG_H
#define VB_TESTS_SIM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "path/roce/roce.h"

enum {
	RIG_MTU = 1024,
	RIG_SQ_PSN = 100,
	RIG_RQ_PSN = 500,
	RIG_PEER_QPN = 0x123456,
	RIG_REGION = 1 << 16,
	RIG_QKEY = 0x11223344,
	RIG_OUT_MAX = 4096,
	RIG_HELD_MAX = 16,
};

struct rig_packet {
	struct vb_packet packet; /* payload points into bytes */
	uint8_t bytes[VB_PACKET_MAX];
};

struct rig {
	struct vb_roce roce;
	struct vb_way way;        /* of the QP */
	struct vb_icrc_flow back; /* of its peer's packets */
	struct vb_pd *pd;
	struct vb_cq *cq;
	struct vb_srq *srq;
	struct vb_xrcd *xrcd; /* XRC_RECV: the SRQ is of it, too */
	struct vb_qp *qp;
	struct vb_wired *wired;
	struct vb_mr *mr, *mr_deaf; /* all rights; local write only */
	uint8_t *region;
	struct rig_packet *out; /* ring of what was sent and not taken */
	unsigned out_head, out_tail;
	/* the next packets that are given */
	uint8_t traffic_class;
	uint16_t pkey;
	uint64_t burst; /* that they come in; 0: each comes alone */
	bool damaged;
	uint8_t reserved; /* bits that the peer sets in the byte in front of the PSN */
	uint8_t payload[VB_MTU_MAX];
	/* packets of one length that are given together, as they lie in a receive buffer */
	uint8_t held_bytes[RIG_HELD_MAX * VB_PACKET_MAX];
	unsigned held;
	uint32_t held_length;
	/* set before rig_open */
	enum ibv_qp_type type;
	struct ibv_qp_attr attr;
	bool with_srq;
	bool with_tags; /* the SRQ matches tags */
	bool tried;     /* the local path had begun its first work request when the wire took it */
};

/* An RC QP with friendly attributes, which a test may change before it opens the rig. */
void rig_defaults(struct rig *rig, enum ibv_qp_type type);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

/* What the application does. */
void rig_post(struct rig *rig, enum ibv_wr_opcode opcode, uint32_t length, unsigned flags);
void rig_post_wr(struct rig *rig, struct ibv_send_wr *wr);
void rig_post_recv(struct rig *rig, uint32_t length);
void rig_modify(struct rig *rig, enum ibv_qp_state state);
/* A completion that must be there, or none. */
struct ibv_wc rig_poll(struct rig *rig);
void rig_poll_none(struct rig *rig);
void rig_sent(struct rig *rig, enum ibv_wc_status status);
bool rig_event(struct rig *rig, enum ibv_event_type type);

/* The numbers of the last sentence about a work request, and about a request of its peer. */
struct vb_report rig_report(struct rig *rig);
struct vb_report rig_refusal(struct rig *rig);

/* What its peer does. */
void rig_give(struct rig *rig, struct vb_packet packet);
/* The same for a packet that rig_give_held gives, together with those before it. */
void rig_hold(struct rig *rig, struct vb_packet packet);
void rig_give_held(struct rig *rig);
void rig_ack(struct rig *rig, uint32_t psn, uint8_t syndrome);
struct vb_packet rig_request(uint8_t operation, uint32_t psn, uint32_t length);
void rig_give_op(struct rig *rig, uint8_t operation, uint32_t psn, uint32_t length);
void rig_give_read(struct rig *rig, uint32_t psn, uint32_t offset, uint32_t length);
void rig_give_atomic(struct rig *rig, uint32_t psn, uint32_t offset, uint64_t add);
/* Answers: a packet of a READ response, an ATOMIC ACK. */
void rig_give_response(struct rig *rig, uint8_t operation, uint32_t psn, uint32_t length);
void rig_give_original(struct rig *rig, uint32_t psn, uint64_t original);
void rig_received(struct rig *rig, uint32_t length);

/* What the engine sent: a packet that must be there, or none. */
struct vb_packet rig_take(struct rig *rig);
struct vb_packet rig_take_op(struct rig *rig, uint8_t operation);
void rig_take_none(struct rig *rig);
void rig_take_nak(struct rig *rig, uint8_t syndrome, uint32_t psn);

/* Time: turns happen at once, timers when their time has come. */
void rig_turn(struct rig *rig);
void rig_wait_ns(struct rig *rig, uint64_t ns);

#endif
