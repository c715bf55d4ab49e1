/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs for tests: frames, and boxes (a QP with a CQ and posted receives) in the near
 * process. Addresses are made from the process id, because other tests may use the same interface
 * at the same time, and a mark in each frame tells it from whatever else arrives there.
 */
#ifndef CT_RAW_H
#define CT_RAW_H

#include "ct.h"

enum {
	RAW_TYPE = 0x88b5, /* for experiments: no host answers */
	RAW_IPV4 = 0x0800,
	RAW_IPV6 = 0x86dd,
	RAW_LENGTH = 128,
	RAW_ROOM = 2048, /* of each receive */
	RAW_DEPTH = 64,
	RAW_SEND_AT = 1 << 20, /* in the arena; receives from the start */
};

/* What a frame says of itself; zero: it does not. */
struct raw_frame {
	uint8_t dst[6], src[6];
	uint16_t vlan, type;
	uint8_t src_ip[16], dst_ip[16];
	uint8_t proto, tos, ttl;
	uint32_t label;
	uint16_t src_port, dst_port;
	uint16_t length; /* of all; 0: RAW_LENGTH */
	uint32_t mark;   /* in its last four bytes */
};

struct raw_box {
	struct ct *t;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint64_t at; /* of its receives, in the arena */
};

/* An address of this process: 02:76 or 03:76 (multicast), the process, n. */
void raw_mac(uint8_t mac[6], bool multicast, uint8_t n);
/* From address 1 to address n, of the type for experiments. */
struct raw_frame raw_frame(uint8_t n);
uint32_t raw_build(const struct raw_frame *frame, uint8_t *at);

/* ibv_poll_cq for one completion; those that the adversary hides come within milliseconds. */
int raw_poll(struct ibv_cq *cq, struct ibv_wc *wc);

/* Skips the test where this process may not have raw QPs. In RTS, receives posted. */
void raw_open(struct ct *t, struct raw_box *box, int number);
void raw_close(struct raw_box *box);
void raw_to_rts(struct ibv_qp *qp);
/* Sends and waits for the completion: what loops back has arrived then. */
void raw_send(struct raw_box *box, const struct raw_frame *frame, unsigned flags);
struct ibv_wc raw_wait(struct ibv_cq *cq);
/* The completion of the next frame with the mark; 0 of `got`: none is there. Posts again. */
bool raw_got(struct raw_box *box, uint32_t mark, struct ibv_wc *wc, const uint8_t **bytes);
/* How many frames with the mark are there. */
int raw_count(struct raw_box *box, uint32_t mark);
void raw_post(struct ct *t, struct ibv_qp *qp, uint64_t at, uint64_t wr_id);

/* A rule with room for its specifications. */
struct raw_rule {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
	uint32_t used;
};

struct raw_rule raw_rule(void);
void raw_add(struct raw_rule *rule, const void *spec, uint16_t size);
/* A rule for the destination address of a frame. */
struct raw_rule raw_rule_for(const struct raw_frame *frame);
/* What a rule may name of a frame's Ethernet header, nothing masked. */
struct ibv_flow_spec_eth raw_eth(const struct raw_frame *frame);
struct ibv_flow *raw_flow(struct raw_box *box, struct raw_rule *rule);

#endif
