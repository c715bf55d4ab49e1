/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected QPs of one process, and what is done with them; for children of a test. */
#ifndef VB_TESTS_FAULTS_DUET_H
#define VB_TESTS_FAULTS_DUET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	DUET_SLOTS = 64,
	DUET_SLOT_BYTES = 64,
	DUET_TIMEOUT = 10, /* 4.2 ms */
	DUET_RETRIES = 1,
	DUET_QKEY = 0x11,
	DUET_DEADLINE_MS = 10000,
};

struct duet {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b; /* messages go from a to b */
	struct ibv_ah *ah;    /* UD */
	enum ibv_qp_type type;
	union ibv_gid gid;
	uint8_t from[DUET_SLOTS][DUET_SLOT_BYTES]; /* slot i is full of i + 1 */
	uint8_t to[DUET_SLOTS][DUET_SLOT_BYTES + 40];
};

/* NULL: it could not be made; errno. */
struct duet *duet_open(enum ibv_qp_type type);
/* From RESET to RTS; 0 or an errno value. */
int duet_renew(struct duet *duet, struct ibv_qp *qp, uint32_t peer_qpn);
/* Slot i from a to b, with wr_id i; 0 or an errno value. */
int duet_post(struct duet *duet, enum ibv_wr_opcode opcode, unsigned slot);
/* Slots first to last in one list. */
int duet_post_list(struct duet *duet, enum ibv_wr_opcode opcode, unsigned first, unsigned last);
int duet_recv(struct duet *duet, unsigned slot);
/* Waits for one completion; false: none came. */
bool duet_wait(struct ibv_cq *cq, struct ibv_wc *wc);
/* Waits for the completion of a work request with this status. */
bool duet_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* Slot i arrived whole, or not at all. */
bool duet_arrived(const struct duet *duet, unsigned slot);
enum ibv_qp_state duet_state(struct ibv_qp *qp);
bool duet_await_state(struct ibv_qp *qp, enum ibv_qp_state state);
double duet_now_ms(void);

#endif
