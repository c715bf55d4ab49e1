/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small programs with one mistake each, and the sentences that their users read.
 *
 *      main.c ── fork ── a program: near side ── verbs ──┐
 *         │                  │                           │ memory, or packets within the host
 *         │                  └─ far side: this process, or a child
 *         └─ reads standard error of both, looks for the sentences
 */
#ifndef EXPLAIN_RIG_H
#define EXPLAIN_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	RIG_BYTES = 1 << 16,
	RIG_CQE = 64,
	RIG_WAIT_MS = 20000, /* of every wait: reached only when something is broken */
	RIG_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
};

/* The parts of a connection that its two ends have to agree on. A test spoils one. */
struct rig_plan {
	enum ibv_qp_type type;
	uint32_t sq_psn, rq_psn; /* of the near QP; the far QP has them the other way round */
	uint32_t dest_xor;       /* the near QP is connected to another number */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	int far_access; /* qp_access_flags of the far QP */
	int cqe;
	uint32_t max_send_wr;
	enum ibv_qp_state far_state; /* RTS, or the state in which the far QP stays */
};

struct rig_side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* all of buffer, all rights */
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t gid_index;
	char *buffer;
};

/* The far side as the near side knows it. */
struct rig_far {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct rig {
	struct rig_side near;
	struct rig_side far_side; /* in this process; else it is in a child */
	struct rig_far far;
	pid_t child; /* 0: none */
	int socket;  /* to the child */
};

struct rig_plan rig_plan(void);
/* Two connected QPs of this process. */
void rig_open(struct rig *rig, const struct rig_plan *plan);
/* The same with the far side in a child, which calls serve and ends. */
void rig_open_two(struct rig *rig, const struct rig_plan *plan, void (*serve)(struct rig *rig));
void rig_side_open(struct rig_side *side, const struct rig_plan *plan);
void rig_connect(struct rig_side *side, const struct rig_plan *plan, const struct rig_far *to,
		 bool near);
/* One byte to the other process, and one from there. */
void rig_tell(const struct rig *rig);
void rig_await(const struct rig *rig);

void rig_recv(struct rig_side *side, uint64_t wr_id, uint64_t addr, uint32_t length, uint32_t lkey);
/* Posts one signalled work request from the near side to the far side. */
int rig_post(struct rig *rig, enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge sge);
struct ibv_sge rig_sge(const struct rig_side *side, uint32_t length);
/* Polls until a completion comes, and answers its status. */
enum ibv_wc_status rig_wait(struct rig_side *side);
/* Polls in vain for so long. */
void rig_poll_ms(struct rig_side *side, int ms);
_Noreturn void rig_fail(const char *what);

/* A mistake, and regular expressions that some lines of standard error must match. */
struct rig_case {
	const char *name;
	void (*run)(void);
	const char *memory[4]; /* over memory; none: the case is not run there */
	const char *packets[4];
	const char *never; /* no line matches */
};

extern const struct rig_case rig_key_cases[], rig_call_cases[], rig_hang_cases[], rig_pair_cases[],
	rig_connect_cases[], rig_datagram_cases[], rig_window_cases[];

#endif
