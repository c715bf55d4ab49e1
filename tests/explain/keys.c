/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that do not open what is asked for: each sentence names the key, the rule and numbers. */
#include <stdlib.h>

#include "rig.h"

enum { SMALL = 64, SMALL_AT = 4096 };

static struct ibv_mr *reg(struct rig_side *side, struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, side->buffer + SMALL_AT, SMALL, access);

	if (!mr)
		rig_fail("ibv_reg_mr");
	return mr;
}

static struct ibv_sge sge_of(const struct ibv_mr *mr, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)mr->addr, length, mr->lkey };
}

static void begin(struct rig *rig)
{
	const struct rig_plan plan = rig_plan();

	rig_open(rig, &plan);
}

static void expect(struct rig_side *side, enum ibv_wc_status status)
{
	if (rig_wait(side) != status)
		rig_fail("another status than expected");
}

/* --- the own memory --- */

static void lkey_never(void)
{
	struct rig rig;
	struct ibv_sge sge;

	begin(&rig);
	sge = rig_sge(&rig.near, 8);
	sge.lkey ^= 0x3c00;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 5, sge);
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

static void lkey_gone(void)
{
	struct rig rig;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	begin(&rig);
	mr = reg(&rig.near, rig.near.pd, RIG_ALL);
	sge = sge_of(mr, 8);
	ibv_dereg_mr(mr);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 5, sge);
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

static void lkey_pd(void)
{
	struct rig rig;

	begin(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 5,
		 sge_of(reg(&rig.near, ibv_alloc_pd(rig.near.context), RIG_ALL), 8));
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

static void lkey_long(void)
{
	struct rig rig;

	begin(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 5, sge_of(reg(&rig.near, rig.near.pd, RIG_ALL), 100));
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

static void read_into_const(void)
{
	struct rig rig;

	begin(&rig);
	rig_post(&rig, IBV_WR_RDMA_READ, 5, sge_of(reg(&rig.near, rig.near.pd, 0), 8));
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

/* --- the target's memory --- */

static void write_to(struct rig *rig, const struct ibv_mr *mr, uint32_t length)
{
	rig->far.addr = (uintptr_t)mr->addr;
	rig->far.rkey = mr->rkey;
	rig_post(rig, IBV_WR_RDMA_WRITE, 6, rig_sge(&rig->near, length));
	expect(&rig->near, IBV_WC_REM_ACCESS_ERR);
}

static void rkey_never(void)
{
	struct rig rig;

	begin(&rig);
	rig.far.rkey ^= 0x3c00;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 6, rig_sge(&rig.near, 8));
	expect(&rig.near, IBV_WC_REM_ACCESS_ERR);
}

/* What comes of a missing htonl. */
static void rkey_order(void)
{
	struct rig rig;

	begin(&rig);
	rig.far.rkey = __builtin_bswap32(rig.far.rkey);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 6, rig_sge(&rig.near, 8));
	expect(&rig.near, IBV_WC_REM_ACCESS_ERR);
}

static void address_order(void)
{
	struct rig rig;

	begin(&rig);
	rig.far.addr = __builtin_bswap64(rig.far.addr);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 6, rig_sge(&rig.near, 8));
	expect(&rig.near, IBV_WC_REM_ACCESS_ERR);
}

/* A variable on the stack, say. */
static void lkey_elsewhere(void)
{
	struct ibv_sge sge;
	struct rig rig;

	begin(&rig);
	sge = rig_sge(&rig.near, 8);
	sge.addr = (uintptr_t)&rig;
	rig_post(&rig, IBV_WR_RDMA_WRITE, 5, sge);
	expect(&rig.near, IBV_WC_LOC_PROT_ERR);
}

static void rkey_gone(void)
{
	struct rig rig;
	struct ibv_mr *mr, copy;

	begin(&rig);
	mr = reg(&rig.far_side, rig.far_side.pd, RIG_ALL);
	copy = *mr;
	ibv_dereg_mr(mr);
	write_to(&rig, &copy, 8);
}

static void rkey_pd(void)
{
	struct rig rig;

	begin(&rig);
	write_to(&rig, reg(&rig.far_side, ibv_alloc_pd(rig.near.context), RIG_ALL), 8);
}

static void rkey_long(void)
{
	struct rig rig;

	begin(&rig);
	write_to(&rig, reg(&rig.far_side, rig.far_side.pd, RIG_ALL), 100);
}

static void rkey_early(void)
{
	struct rig rig;
	struct ibv_mr *mr, copy;

	begin(&rig);
	mr = reg(&rig.far_side, rig.far_side.pd, RIG_ALL);
	copy = *mr;
	copy.addr = (char *)mr->addr - 16;
	write_to(&rig, &copy, 8);
}

static void rkey_right(void)
{
	struct rig rig;

	begin(&rig);
	write_to(&rig,
		 reg(&rig.far_side, rig.far_side.pd,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
		 8);
}

static void qp_right(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.far_access = IBV_ACCESS_REMOTE_WRITE;
	rig_open(&rig, &plan);
	rig_post(&rig, IBV_WR_RDMA_READ, 6, rig_sge(&rig.near, 8));
	expect(&rig.near, IBV_WC_REM_INV_REQ_ERR);
}

/* --- the buffer of a receive: the process that posted it says it as well --- */

static void send_into(struct rig *rig, struct ibv_sge sge, enum ibv_wc_status there)
{
	rig_recv(&rig->far_side, 7, sge.addr, sge.length, sge.lkey);
	rig_post(rig, IBV_WR_SEND, 8, rig_sge(&rig->near, 40));
	rig_wait(&rig->near);
	expect(&rig->far_side, there);
}

static void recv_const(void)
{
	struct rig rig;

	begin(&rig);
	send_into(&rig, sge_of(reg(&rig.far_side, rig.far_side.pd, 0), SMALL), IBV_WC_LOC_PROT_ERR);
}

static void recv_gone(void)
{
	struct rig rig;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	begin(&rig);
	mr = reg(&rig.far_side, rig.far_side.pd, RIG_ALL);
	sge = sge_of(mr, SMALL);
	ibv_dereg_mr(mr);
	send_into(&rig, sge, IBV_WC_LOC_PROT_ERR);
}

static void recv_long(void)
{
	struct rig rig;

	begin(&rig);
	send_into(&rig, sge_of(reg(&rig.far_side, rig.far_side.pd, RIG_ALL), 100),
		  IBV_WC_LOC_PROT_ERR);
}

static void recv_short(void)
{
	struct rig rig;

	begin(&rig);
	send_into(&rig, rig_sge(&rig.far_side, 30), IBV_WC_LOC_LEN_ERR);
}

/* --- a completion queue that is too small --- */

static void cq_small(void)
{
	struct rig_plan plan = rig_plan();
	struct rig rig;

	plan.cqe = 4;
	plan.max_send_wr = 64;
	rig_open(&rig, &plan);
	for (uint64_t i = 0; i < 40; i++)
		if (rig_post(&rig, IBV_WR_RDMA_WRITE, 100 + i, rig_sge(&rig.near, 8)))
			break;
	while (1) { /* until the QP has failed */
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		if (!ibv_query_qp(rig.near.qp, &attr, IBV_QP_STATE, &init) &&
		    attr.qp_state == IBV_QPS_ERR)
			return;
	}
}

#define NEAR "QP 0x[0-9a-f]{6}, "
/* A receive that failed names the sender. */
#define RECEIVE NEAR "receive wr_id 7, for a message of QP 0x[0-9a-f]{6} \\(this process\\): "
#define REFUSED "QP 0x[0-9a-f]{6} has failed: it refused a request of QP 0x[0-9a-f]{6} [^:]+: "
#define BYTES   "\\(64 bytes at 0x[0-9a-f]+\\)"
/* The responder of packets, and the owner of the receive. */
#define FAR "QP 0x[0-9a-f]{6} refuses a [A-Z_]+ of QP 0x[0-9a-f]{6} \\(this process\\): "

const struct rig_case rig_key_cases[] = {
	{ "an lkey that no region has",
	  lkey_never,
	  { NEAR "RDMA_WRITE wr_id 5: no memory region of this process has lkey 0x" },
	  { NEAR "RDMA_WRITE wr_id 5: no memory region of this process has lkey 0x" } },
	{ "an lkey whose region was deregistered",
	  lkey_gone,
	  { NEAR "RDMA_WRITE wr_id 5: the region of lkey 0x[0-9a-f]{8} " BYTES
		 " was deregistered [0-9.]+ s ago" },
	  { "the region of lkey 0x[0-9a-f]{8} " BYTES " was deregistered [0-9.]+ s ago" } },
	{ "an lkey of another PD",
	  lkey_pd,
	  { NEAR
	    "RDMA_WRITE wr_id 5: the region of lkey 0x[0-9a-f]{8} belongs to PD [0-9]+, the QP "
	    "to PD [0-9]+" },
	  { "the region of lkey 0x[0-9a-f]{8} belongs to PD [0-9]+, the QP to PD [0-9]+" } },
	{ "an element that is longer than its region",
	  lkey_long,
	  { "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region of lkey "
	    "0x[0-9a-f]{8} " BYTES },
	  { "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region of lkey" } },
	{ "a READ into a region without local write",
	  read_into_const,
	  { NEAR "RDMA_READ wr_id 5: the region of lkey 0x[0-9a-f]{8} was registered without "
		 "IBV_ACCESS_LOCAL_WRITE \\(it has no access flags\\)" },
	  { "registered without IBV_ACCESS_LOCAL_WRITE" } },
	{ "an rkey that no region has",
	  rkey_never,
	  { NEAR "RDMA_WRITE wr_id 6: no memory region of this process has rkey 0x" },
	  { FAR "no memory region of this process has rkey 0x" } },
	{ "an rkey in the other byte order",
	  rkey_order,
	  { "has rkey 0x[0-9a-f]{8}: in the other byte order it is one \\(htonl, ntohl\\)" },
	  { FAR "no memory region .*: in the other byte order it is one" } },
	{ "a remote address in the other byte order",
	  address_order,
	  { "8 bytes at 0x[0-9a-f]+ lie outside of the region of rkey 0x[0-9a-f]{8} .*: in the "
	    "other byte order the address is inside" },
	  { FAR "8 bytes at 0x[0-9a-f]+ lie outside of the region .*: in the other byte order" } },
	{ "an element far from its region",
	  lkey_elsewhere,
	  { NEAR "RDMA_WRITE wr_id 5: 8 bytes at 0x[0-9a-f]+ lie outside of the region of lkey "
		 "0x[0-9a-f]{8} \\(65536 bytes at 0x[0-9a-f]+\\)" },
	  { "8 bytes at 0x[0-9a-f]+ lie outside of the region of lkey" } },
	{ "an rkey whose region was deregistered",
	  rkey_gone,
	  { "RDMA_WRITE wr_id 6: the region of rkey 0x[0-9a-f]{8} " BYTES
	    " was deregistered [0-9.]+ s ago",
	    REFUSED "the region of rkey 0x[0-9a-f]{8} " BYTES " was deregistered [0-9.]+ s ago" },
	  { FAR "the region of rkey 0x[0-9a-f]{8} " BYTES " was deregistered [0-9.]+ s ago" } },
	{ "an rkey of another PD",
	  rkey_pd,
	  { "the region of rkey 0x[0-9a-f]{8} belongs to PD [0-9]+, QP 0x[0-9a-f]{6} to PD "
	    "[0-9]+" },
	  { FAR "the region of rkey 0x[0-9a-f]{8} belongs to PD [0-9]+, QP 0x" } },
	{ "a WRITE behind the end of the region",
	  rkey_long,
	  { "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region of rkey "
	    "0x[0-9a-f]{8} " BYTES },
	  { FAR "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region of rkey" } },
	{ "a WRITE before the start of the region",
	  rkey_early,
	  { "8 bytes at 0x[0-9a-f]+ begin 16 bytes before the region of rkey 0x" },
	  { FAR "8 bytes at 0x[0-9a-f]+ begin 16 bytes before the region of rkey" } },
	{ "a region without the right",
	  rkey_right,
	  { "wr_id 6: the region of rkey 0x[0-9a-f]{8} was registered without "
	    "IBV_ACCESS_REMOTE_WRITE \\(it has LOCAL_WRITE and REMOTE_READ\\)",
	    REFUSED "the region of rkey 0x[0-9a-f]{8} was registered without "
		    "IBV_ACCESS_REMOTE_WRITE" },
	  { FAR
	    "the region of rkey 0x[0-9a-f]{8} was registered without IBV_ACCESS_REMOTE_WRITE" } },
	{ "a QP without the right",
	  qp_right,
	  { "qp_access_flags of QP 0x[0-9a-f]{6} \\(this process\\) lack IBV_ACCESS_REMOTE_READ "
	    "\\(they "
	    "have REMOTE_WRITE\\)" },
	  { FAR "qp_access_flags of QP 0x[0-9a-f]{6} lack IBV_ACCESS_REMOTE_READ" } },
	{ "a receive into a region without local write",
	  recv_const,
	  { NEAR
	    "SEND wr_id 8: the receive posted at QP 0x[0-9a-f]{6} \\(this process\\) cannot be "
	    "written: the region of lkey 0x[0-9a-f]{8} was registered without "
	    "IBV_ACCESS_LOCAL_WRITE",
	    RECEIVE "the region of lkey 0x[0-9a-f]{8} was registered without "
		    "IBV_ACCESS_LOCAL_WRITE" },
	  { FAR "the receive posted at QP 0x[0-9a-f]{6} cannot be written: the region of lkey",
	    RECEIVE "the region of lkey 0x[0-9a-f]{8} was registered without "
		    "IBV_ACCESS_LOCAL_WRITE" } },
	{ "a receive into a region that was deregistered",
	  recv_gone,
	  { NEAR "SEND wr_id 8: .* was deregistered [0-9.]+ s ago",
	    RECEIVE ".* was deregistered [0-9.]+ s ago" },
	  { RECEIVE ".* was deregistered [0-9.]+ s ago" } },
	{ "a receive that is longer than its region",
	  recv_long,
	  { RECEIVE "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region of lkey" },
	  { RECEIVE "100 bytes at 0x[0-9a-f]+ end 36 bytes behind the region" } },
	{ "a receive that is too short",
	  recv_short,
	  { "SEND wr_id 8: the message has 40 bytes, the receive posted at QP 0x[0-9a-f]{6} "
	    "\\(this "
	    "process\\) has room for 30",
	    RECEIVE "the receive has room for 30 bytes, and 40 came" },
	  { FAR "the message has 40 bytes",
	    RECEIVE "the receive has room for 30 bytes, and more came" } },
	{ "a completion queue that is too small",
	  cq_small,
	  { NEAR "RDMA_WRITE wr_id 10[0-9]: its completion has no room in CQ [0-9]+: cqe 4, " },
	  { NEAR "RDMA_WRITE wr_id 10[0-9]: its completion has no room in CQ [0-9]+: cqe 4, " },
	  .never = "receive wr_id 0" },
	{ 0 },
};
