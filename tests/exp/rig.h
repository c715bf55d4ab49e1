/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected ends for tests of the experimental verbs. The far end lives in this process or,
 * with VERBENA_TEST_PLACEMENT=two, in another one. Its memory is shared with the test, which looks
 * at it directly. Functions of the test are called there by their address.
 */
#ifndef TESTS_EXP_RIG_H
#define TESTS_EXP_RIG_H

#include <infiniband/verbs_exp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	RIG_ARENA = 1 << 20, /* bytes of memory of each end */
	RIG_DEPTH = 64,      /* work requests of each queue */
	RIG_SGES = 4,
	RIG_CALL_BYTES = 1024, /* of the arguments of a call */
};

/* The first check that fails ends the process. */
#define RIG_TRUE(condition)                                                                       \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)
#define RIG_EQ(got, wanted)                                                                       \
	do {                                                                                      \
		long long rig_got = (long long)(got), rig_wanted = (long long)(wanted);           \
		if (rig_got != rig_wanted) {                                                      \
			fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, \
				#got, rig_got, #wanted, rig_wanted);                              \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

struct rig_opts {
	int sq_sig_all;
	uint32_t max_atomic_arg;
	uint32_t create_flags;
	bool near_only; /* create_flags are for the near end's QP */
	uint32_t max_inl_send_klms;
	uint32_t cq_flags;
};

struct rig_end {
	struct ibv_context *context;
	struct ibv_port_attr port;
	int gid_index; /* -1: LIDs are enough */
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr; /* the whole arena, with every right */
	struct ibv_qp *qp;
	uint8_t *arena;
	struct ibv_mr *extra; /* what a call of the test has made; the test removes it */
};

/* Where the other end is. */
struct rig_address {
	uint32_t qpn, rkey;
	uint16_t lid;
	union ibv_gid gid;
};

struct rig {
	struct rig_end near;
	struct rig_address far;
	uint8_t *far_arena;
};

typedef uint64_t (*rig_call)(struct rig_end *end, const void *arguments);

/* Before the first verbs call of the program. */
void rig_start(void);
/* A program in two processes ends the other one. */
void rig_stop(void);
bool rig_two_processes(void);
/* VERBENA_PATH: the two ends exchange packets. */
bool rig_by_packets(void);

void rig_open(struct rig *rig, const struct rig_opts *opts);
void rig_close(struct rig *rig);
/* Calls a function of the test at the far end. */
uint64_t rig_far(struct rig *rig, rig_call call, const void *arguments, size_t length);

/* A QP of an end, in RESET; the end's own QP is one. */
struct ibv_qp *rig_create_qp(struct rig_end *end, const struct rig_opts *opts);
/* Brings a QP to RTS. */
void rig_connect(struct rig_end *end, struct ibv_qp *qp, const struct rig_address *to);
struct rig_address rig_address(struct rig_end *end, struct ibv_qp *qp);

struct ibv_exp_wc rig_wait(struct ibv_cq *cq);
/* The next completion has this status. */
struct ibv_exp_wc rig_sent(struct rig *rig, uint64_t wr_id, enum ibv_wc_status status);
void rig_fill(uint8_t *at, size_t length, uint64_t seed);
/* Posts a receive, by the number of the region at the end: 0 is mr, 1 is extra. */
struct rig_receive {
	uint64_t wr_id, addr;
	uint32_t length;
	int extra;
};
uint64_t rig_post_recv(struct rig_end *end, const void *receive);
/* Waits for a completion of the end's recv_cq: its byte_len. */
uint64_t rig_received(struct rig_end *end, const void *unused);

#endif
