/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching, set up: the near end has the SRQ that matches tags and speaks verbs directly, the
 * far end sends.
 *
 *      near: CQ (extended) <- SRQ with tags <- QPs        far: QPs
 */
#ifndef CT_TM_RIG_H
#define CT_TM_RIG_H

#include <infiniband/tm_types.h>

#include "ct.h"

enum { TM_TAGS = 8, TM_OPS = 32, TM_RECEIVES = 16, TM_QPS = 3, TM_CQE = 256 };

struct tm_opts {
	uint32_t send_wr; /* of the near QPs */
	int qps;
	int cqe;
	bool channel;
	struct ibv_pd *srq_pd; /* NULL: that of the QPs */
};

struct tags {
	struct ct *t;
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[TM_QPS];
	struct ct_link
		l[TM_QPS]; /* from the far end to the near one; b is no object of the agent */
	int qps;
};

/* What a completion says. */
struct tm_wc {
	uint64_t wr_id, tag;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	uint32_t priv, byte_len, qpn;
};

void tm_open(struct ct *t, struct tags *tm, const struct tm_opts *o);
void tm_close(struct tags *tm);
void tm_connect(struct tags *tm, int i, const struct ct_opts *o);

/* Adds a tagged buffer at an offset of the near end's arena; answers the call's result. */
int tm_add(struct tags *tm, uint64_t wr_id, uint64_t tag, uint64_t mask, uint64_t offset,
	   uint32_t length, uint32_t *handle);
int tm_op(struct tags *tm, enum ibv_ops_wr_opcode opcode, uint64_t wr_id, int flags,
	  uint32_t unexpected, uint32_t handle);
void tm_receive(struct tags *tm, uint64_t wr_id, uint64_t offset, uint32_t length);

/* The header at an offset of the far end's arena. */
void tm_header(struct ct_end *e, uint64_t offset, uint8_t opcode, uint32_t app_ctx, uint64_t tag);
void tm_rndv_header(struct ct_end *e, uint64_t offset, uint64_t va, uint32_t rkey, uint32_t length);
/* Sends length bytes, header included, and waits for the completion. */
void tm_send_at(struct tags *tm, int i, uint64_t offset, uint32_t length, uint8_t opcode,
		uint64_t tag);

struct tm_wc tm_wait_at(struct tags *tm);
struct tm_wc tm_expect_at(struct tags *tm, uint64_t wr_id, enum ibv_wc_opcode opcode,
			  unsigned flags, enum ibv_wc_status status);
bool tm_none(struct tags *tm);

#define tm_send(tm, i, offset, length, opcode, tag) \
	(CT_HERE, tm_send_at(tm, i, offset, length, opcode, tag))
#define tm_wait(tm) (CT_HERE, tm_wait_at(tm))
#define tm_expect(tm, wr_id, opcode, flags, status) \
	(CT_HERE, tm_expect_at(tm, wr_id, opcode, flags, status))
/* Added, and told so. */
#define tm_added(tm, wr_id, tag, mask, offset, length, handle)                  \
	do {                                                                    \
		CT_EQ(tm_add(tm, wr_id, tag, mask, offset, length, handle), 0); \
		tm_expect(tm, wr_id, IBV_WC_TM_ADD, 0, IBV_WC_SUCCESS);         \
	} while (0)

#endif
