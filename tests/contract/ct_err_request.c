/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that the target QP does not take: REM_INV_REQ_ERR here, ERR and QP_REQ_ERR there. */
#include <unistd.h>

#include "ct.h"

static const uint64_t TARGET = 4 << 20;

/* Two WRs of the kind; the first is refused, silent as it was asked to be or not. */
static void check(struct ct *t, const struct ct_opts *o, enum ibv_wr_opcode opcode, uint64_t offset,
		  uint32_t rkey_error)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr[2];
	struct ct_opts good = ct_defaults(t);
	struct ct_link l, other;

	ct_link_open(t, &l, o);
	ct_link_open(t, &other, &good);
	ct_fill(t->far, TARGET, 4096, 1);
	ct_recv(&l.b, 10, 0, 64);
	for (int i = 0; i < 2; i++) {
		wr[i] = ct_wr(&l, opcode, i + 1, &sge, 1);
		ct_aim(&wr[i], t->far->mr.addr + TARGET + offset, t->far->mr.rkey ^ rkey_error);
	}
	wr[0].send_flags = 0;
	wr[0].next = &wr[1];
	ct_post(&l.a, wr);
	ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
	ct_sent(&l, 2, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_ERR);
	ct_event(t->far, IBV_EVENT_QP_REQ_ERR, l.b.handle);
	ct_got(&l, 10, IBV_WC_WR_FLUSH_ERR);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_ERR);
	ct_no_event(t->far);
	ct_no_event(t->near);
	ct_same(t->far, TARGET, 4096, 1);
	ct_usable(&other);
}

static void qp_right_missing(struct ct *t)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int right;
	} rows[] = {
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
	};

	for (int i = 0; i < CT_COUNT(rows); i++) {
		struct ct_opts o = ct_defaults(t);

		o.access_b &= ~rows[i].right;
		check(t, &o, rows[i].opcode, 0, 0);
	}
}

/* The QP is asked before the key. */
static void qp_right_comes_before_the_key(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	o.access_b = 0;
	check(t, &o, IBV_WR_RDMA_WRITE, 0, 0x100);
}

/* The rights of the initiator's own QP do not matter for what it sends. */
static void own_rights_do_not_matter(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.access_a = 0;
	ct_link_open(t, &l, &o);
	ct_do(&l, IBV_WR_RDMA_WRITE, 1, TARGET, 100);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_do(&l, IBV_WR_RDMA_READ, 2, TARGET, 100);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
}

/* modify_qp may grant or take away rights under way. */
static void rights_follow_modify(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ct_link l;

	o.access_b = 0;
	ct_link_open(t, &l, &o);
	CT_EQ(ct_modify_qp(&l.b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	ct_do(&l, IBV_WR_RDMA_WRITE, 1, TARGET, 100);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	CT_EQ(ct_modify_qp(&l.b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	ct_do(&l, IBV_WR_RDMA_READ, 2, TARGET, 100);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_do(&l, IBV_WR_RDMA_WRITE, 3, TARGET, 100);
	ct_sent(&l, 3, IBV_WC_REM_INV_REQ_ERR);
	ct_event(t->far, IBV_EVENT_QP_REQ_ERR, l.b.handle);
}

static void no_responder_resources(struct ct *t)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < CT_COUNT(opcodes); i++) {
		struct ct_opts o = ct_defaults(t);

		o.max_dest_rd_atomic = 0;
		check(t, &o, opcodes[i], 0, 0);
	}
}

/*
 * READs so long that they are outstanding together; those before the one too many may succeed. By
 * packets long ones are asked for piece by piece, short ones all at once.
 */
static void too_many_reads_at_once(struct ct *t)
{
	enum { COUNT = 8 };
	const uint32_t size = ct_by_packets() ? 8 : 400000;
	struct ct_opts o = ct_defaults(t);
	struct ibv_send_wr wr[COUNT];
	struct ibv_sge sge[COUNT];
	struct ct_link l;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	o.max_rd_atomic = COUNT;
	o.max_dest_rd_atomic = 2;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < COUNT; i++) {
		sge[i] = ct_sge(t->near, i * size, size);
		wr[i] = ct_wr(&l, IBV_WR_RDMA_READ, i, &sge[i], 1);
		wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;
	}
	ct_post(&l.a, wr);
	for (int i = 0; i < COUNT; i++) {
		struct ibv_wc wc = ct_wait(t->near, l.a.scq);

		CT_EQ(wc.wr_id, i);
		if (status == IBV_WC_SUCCESS)
			CT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_INV_REQ_ERR);
		else
			CT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		status = status == IBV_WC_SUCCESS ? wc.status : status;
	}
	CT_EQ(status, IBV_WC_REM_INV_REQ_ERR);
	ct_event(t->far, IBV_EVENT_QP_REQ_ERR, l.b.handle);
	ct_wait_state(&l.b, IBV_QPS_ERR);
}

/* One at a time they are never too many, whatever the initiator was allowed. */
static void reads_one_at_a_time(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.max_dest_rd_atomic = 1;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < 20; i++) {
		ct_do(&l, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, i, TARGET, 8);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
}

/* They are over with their data; when their completions are polled is another thing. */
static void reads_that_nobody_polled_are_over(struct ct *t)
{
	enum { COUNT = 6 };
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.max_dest_rd_atomic = 1;
	ct_link_open(t, &l, &o);
	for (int i = 0; i < COUNT; i++) {
		ct_fill(t->far, TARGET, 64, i + 1);
		ct_do(&l, IBV_WR_RDMA_READ, i, TARGET, 64);
		for (int wait = 0; ct_differs_at(t->near, TARGET, 64, i + 1) != -1; wait++) {
			CT_TRUE(wait < CT_DEADLINE_MS);
			usleep(1000);
		}
	}
	for (int i = 0; i < COUNT; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
}

/* No key is looked at, but the QP has no right. */
static void nothing_with_immediate_needs_the_right(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.access_b = 0;
	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 1, TARGET, 64);
	ct_do(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 2, TARGET, 0);
	ct_sent(&l, 2, IBV_WC_REM_INV_REQ_ERR);
	ct_event(t->far, IBV_EVENT_QP_REQ_ERR, l.b.handle);
}

static void misaligned_atomic(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	for (uint64_t offset = 1; offset < 8; offset += 3) {
		check(t, &o, IBV_WR_ATOMIC_CMP_AND_SWP, offset, 0);
		check(t, &o, IBV_WR_ATOMIC_FETCH_AND_ADD, offset, 0);
	}
}

static void alignment_comes_before_the_key(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	check(t, &o, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0x100);
}

/* The operands may lie anywhere, only the remote word is aligned. */
static void local_side_may_be_misaligned(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 3, 8);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, 1);
	ct_aim(&wr, t->far->mr.addr + TARGET, t->far->mr.rkey);
	wr.wr.atomic.compare_add = 5;
	ct_poke(t->far, TARGET, 100);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, TARGET), 105);
	CT_EQ(ct_peek(t->near, 3), 100);
}

/* UC drops what the QP does not take. */
static void unreliable_write_without_right(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l;

	o.access_b = 0;
	ct_link_open(t, &l, &o);
	ct_fill(t->far, TARGET, 100, 1);
	ct_do(&l, IBV_WR_RDMA_WRITE, 1, TARGET, 100);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_usable(&l);
	ct_same(t->far, TARGET, 100, 1);
	CT_EQ(ct_qp_state(&l.b), IBV_QPS_RTS);
	ct_no_event(t->far);
}

const struct ct_case ct_err_request_cases[] = {
	{ "a right that the target QP lacks is REM_INV_REQ_ERR", qp_right_missing, CT_RC | CT_IB },
	{ "the rights of the QP are checked before the key", qp_right_comes_before_the_key, CT_RC },
	{ "the rights of the own QP do not matter", own_rights_do_not_matter, CT_RC },
	{ "the rights of a QP follow modify_qp", rights_follow_modify, CT_RC },
	{ "READ and atomics with max_dest_rd_atomic 0 are REM_INV_REQ_ERR", no_responder_resources,
	  CT_RC },
	{ "more READs at once than max_dest_rd_atomic are REM_INV_REQ_ERR", too_many_reads_at_once,
	  CT_RC },
	{ "READs one at a time fit any max_dest_rd_atomic", reads_one_at_a_time, CT_RC },
	{ "READs whose completions wait to be polled count no more",
	  reads_that_nobody_polled_are_over, CT_RC },
	{ "WRITE_WITH_IMM of no bytes without the right is REM_INV_REQ_ERR",
	  nothing_with_immediate_needs_the_right, CT_RC },
	{ "a misaligned atomic is REM_INV_REQ_ERR", misaligned_atomic, CT_RC },
	{ "alignment is checked before the key", alignment_comes_before_the_key, CT_RC },
	{ "the local side of an atomic may be misaligned", local_side_may_be_misaligned, CT_RC },
	{ "an unreliable WRITE that the QP does not take is dropped",
	  unreliable_write_without_right, CT_UC },
	{ 0 },
};
