/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected QPs of one device and memory for both, for programs that use the old names. */
#ifndef TESTS_LEGACY_PAIR_H
#define TESTS_LEGACY_PAIR_H

#include <infiniband/verbs_exp.h>
#include <stdint.h>

enum { PAIR_WORDS = 64 };

struct pair {
	struct ibv_context *context;
	struct ibv_port_attr port;
	int gid_index; /* -1: LIDs are enough */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	uint64_t words[PAIR_WORDS];
};

/* VERBENA_TEST_DEVICE, or the first device. Asserts. */
void pair_open(struct pair *pair, int sq_sig_all, uint32_t max_send_wr);
void pair_close(struct pair *pair);
/* An address of this device's own port. */
struct ibv_ah_attr pair_address(const struct pair *pair);
struct ibv_wc pair_wait(struct pair *pair);
/* 1: a completion was there. */
int pair_poll(struct pair *pair, struct ibv_wc *wc);

#endif
