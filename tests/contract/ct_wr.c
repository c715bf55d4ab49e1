/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests in one line, and what is expected to come back. */
#include <unistd.h>

#include "ct.h"

struct ibv_sge ct_sge(const struct ct_end *e, uint64_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = e->mr.addr + offset,
				 .length = length,
				 .lkey = e->mr.lkey };
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

void ct_aim(struct ibv_send_wr *wr, uint64_t remote_addr, uint32_t rkey)
{
	if (is_atomic(wr->opcode)) {
		wr->wr.atomic.remote_addr = remote_addr;
		wr->wr.atomic.rkey = rkey;
	} else {
		wr->wr.rdma.remote_addr = remote_addr;
		wr->wr.rdma.rkey = rkey;
	}
}

struct ibv_send_wr ct_wr(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id,
			 struct ibv_sge *sge, int num_sge)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = num_sge,
				  .send_flags = IBV_SEND_SIGNALED };

	if (l->a.type == IBV_QPT_UD) {
		wr.wr.ud.ah = (struct ibv_ah *)(uintptr_t)l->ah_a;
		wr.wr.ud.remote_qpn = l->b.qpn;
		wr.wr.ud.remote_qkey = CT_QKEY;
	} else {
		ct_aim(&wr, l->b.end->mr.addr, l->b.end->mr.rkey);
	}
	if (l->a.type == IBV_QPT_XRC_SEND)
		wr.qp_type.xrc.remote_srqn = l->b.srqn;
	return wr;
}

void ct_post_at(const struct ct_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret = ct_post_send(qp, wr, &bad);

	if (ret)
		ct_fail("post_send: %s", strerror(ret));
}

void ct_recv_at(const struct ct_qp *qp, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = ct_sge(qp->end, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;
	int ret = qp->srq ? ct_post_srq_recv(qp->end, qp->srq, &wr, &bad)
			  : ct_post_recv(qp, &wr, &bad);

	if (ret)
		ct_fail("post_recv: %s", strerror(ret));
}

void ct_send_at(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id, uint64_t offset,
		uint32_t length)
{
	struct ibv_sge sge = ct_sge(l->a.end, offset, length);
	struct ibv_send_wr wr = ct_wr(l, opcode, wr_id, &sge, 1);

	if (l->a.type != IBV_QPT_UD)
		ct_aim(&wr, l->b.end->mr.addr + offset, l->b.end->mr.rkey);
	ct_post_at(&l->a, &wr);
}

struct ibv_wc ct_wait_at(struct ct_end *e, int cq)
{
	struct ibv_wc wc;
	int got = ct_poll_cq(e, cq, 1, CT_DEADLINE_MS, &wc);

	if (got != 1)
		ct_fail("no completion at the %s end (poll_cq says %d)", e->name, got);
	return wc;
}

struct ibv_wc ct_expect_at(struct ct_end *e, int cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = ct_wait_at(e, cq);

	if (wc.wr_id != wr_id || wc.status != status)
		ct_fail("completion at the %s end: wr_id %llu %s, expected wr_id %llu %s", e->name,
			(unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			(unsigned long long)wr_id, ibv_wc_status_str(status));
	return wc;
}

void ct_none_at(struct ct_end *e, int cq)
{
	struct ibv_wc wc;
	int got = ct_poll_cq(e, cq, 1, 0, &wc);

	if (got)
		ct_fail("unexpected completion at the %s end: wr_id %llu %s (poll_cq says %d)",
			e->name, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), got);
}

void ct_event_at(struct ct_end *e, enum ibv_event_type type, int handle)
{
	enum ibv_event_type got;
	int of;

	if (!ct_get_async_event(e, CT_DEADLINE_MS, &got, &of))
		ct_fail("no async event at the %s end, expected: %s", e->name,
			ibv_event_type_str(type));
	if (got != type)
		ct_fail("async event at the %s end: %s, expected: %s", e->name,
			ibv_event_type_str(got), ibv_event_type_str(type));
	if (of != handle)
		ct_fail("async event (%s) is about object %d, expected %d", ibv_event_type_str(got),
			of, handle);
}

void ct_no_event_at(struct ct_end *e)
{
	enum ibv_event_type got;
	int of;

	if (ct_get_async_event(e, 0, &got, &of))
		ct_fail("unexpected async event at the %s end: %s", e->name,
			ibv_event_type_str(got));
}

void ct_same_at(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed)
{
	long long at = ct_differs_at(e, offset, length, seed);

	/* A WRITE of UC is complete when its packets have left: they may be on their way. */
	for (unsigned tries = 0; at >= 0 && ct_by_packets() && tries < CT_DEADLINE_MS; tries++) {
		usleep(1000);
		at = ct_differs_at(e, offset, length, seed);
	}
	if (at >= 0)
		ct_fail("memory at the %s end differs at byte %lld of %llu", e->name, at,
			(unsigned long long)length);
}

void ct_usable_at(const struct ct_link *l)
{
	const uint64_t offset = CT_ARENA_BYTES - 4096;

	ct_fill(l->a.end, offset, 100, 99);
	ct_recv_at(&l->b, 0xfeed, offset + 1024, 1024);
	ct_send_at(l, IBV_WR_SEND, 0xbee, offset, 100);
	ct_expect_at(l->a.end, l->a.scq, 0xbee, IBV_WC_SUCCESS);
	ct_expect_at(l->b.end, l->b.rcq, 0xfeed, IBV_WC_SUCCESS);
	ct_same_at(l->b.end, offset + 1024 + ct_headroom(l), 100, 99);
}
