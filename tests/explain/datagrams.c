/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of UD and UC that are dropped: no completion tells of it, at either end. */
#include <stddef.h>

#include "rig.h"

enum { QKEY = 0x11, OTHER_QKEY = 0x12, GRH = 40 };

struct datagrams {
	struct rig rig; /* its QPs are not used */
	struct ibv_qp *qp;
	struct ibv_ah *ah;
};

static void modify(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .qkey = QKEY };

	if (ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE))
		rig_fail("ibv_modify_qp");
}

static struct ibv_ah *own_ah(const struct rig_side *side, struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.dgid = side->gid;
	attr.grh.sgid_index = side->gid_index;
	attr.grh.hop_limit = 1;
	return ibv_create_ah(pd, &attr);
}

/* A QP that sends to itself. */
static void begin(struct datagrams *it)
{
	const struct rig_plan plan = rig_plan();
	struct rig_side *side = &it->rig.near;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	*it = (struct datagrams){ 0 };
	rig_side_open(side, &plan);
	init.send_cq = init.recv_cq = side->cq;
	it->qp = ibv_create_qp(side->pd, &init);
	it->ah = own_ah(side, side->pd);
	if (!it->qp || !it->ah)
		rig_fail("a UD QP and its address handle");
	modify(it->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(it->qp, IBV_QPS_RTR, 0);
	modify(it->qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

static enum ibv_wc_status post(struct datagrams *it, enum ibv_wr_opcode opcode, uint32_t qkey)
{
	struct ibv_sge sge = rig_sge(&it->rig.near, 30);
	struct ibv_send_wr *bad, wr = { .wr_id = 5,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = IBV_SEND_SIGNALED };

	wr.wr.ud.ah = it->ah;
	wr.wr.ud.remote_qpn = it->qp->qp_num;
	wr.wr.ud.remote_qkey = qkey;
	if (ibv_post_send(it->qp, &wr, &bad))
		rig_fail("ibv_post_send");
	return rig_wait(&it->rig.near);
}

static void receive(struct datagrams *it, uint32_t length)
{
	struct ibv_sge sge = rig_sge(&it->rig.near, length);
	struct ibv_recv_wr *bad, wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 };

	sge.addr += 4096;
	if (ibv_post_recv(it->qp, &wr, &bad))
		rig_fail("ibv_post_recv");
}

/* A datagram that arrives: those before it have been looked at. */
static void settle(struct datagrams *it)
{
	receive(it, GRH + 30);
	if (post(it, IBV_WR_SEND, QKEY) || rig_wait(&it->rig.near))
		rig_fail("a datagram that fits");
}

static void wrong_qkey(void)
{
	struct datagrams it;

	begin(&it);
	post(&it, IBV_WR_SEND, OTHER_QKEY);
	settle(&it);
}

static void no_room(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct datagrams it;

	begin(&it);
	receive(&it, 30);
	post(&it, IBV_WR_SEND, QKEY);
	post(&it, IBV_WR_SEND, OTHER_QKEY); /* is looked at behind it, and says so */
	if (ibv_modify_qp(it.qp, &attr, IBV_QP_STATE))
		rig_fail("ibv_modify_qp");
}

static void no_receive(void)
{
	struct datagrams it;

	begin(&it);
	post(&it, IBV_WR_SEND, QKEY);
	settle(&it);
}

static void other_pd(void)
{
	struct datagrams it;

	begin(&it);
	it.ah = own_ah(&it.rig.near, ibv_alloc_pd(it.rig.near.context));
	if (post(&it, IBV_WR_SEND, QKEY) != IBV_WC_LOC_QP_OP_ERR)
		rig_fail("another status");
}

static void write_on_ud(void)
{
	struct datagrams it;

	begin(&it);
	if (post(&it, IBV_WR_RDMA_WRITE, QKEY) != IBV_WC_LOC_QP_OP_ERR)
		rig_fail("another status");
}

/* UC: a SEND of 40 bytes, before one that fits. */
static void uc_begin(struct rig *rig)
{
	struct rig_plan plan = rig_plan();

	plan.type = IBV_QPT_UC;
	plan.far_access = 0;
	rig_open(rig, &plan);
}

static void uc_end(struct rig *rig)
{
	struct rig_side *far = &rig->far_side;

	rig_recv(far, 7, (uintptr_t)far->buffer, 100, far->mr->lkey);
	if (rig_post(rig, IBV_WR_SEND, 9, rig_sge(&rig->near, 20)) || rig_wait(&rig->near) ||
	    rig_wait(far))
		rig_fail("a message that fits");
}

static void uc_no_receive(void)
{
	struct rig rig;

	uc_begin(&rig);
	rig_post(&rig, IBV_WR_SEND, 8, rig_sge(&rig.near, 40));
	rig_wait(&rig.near);
	uc_end(&rig);
}

static void uc_right(void)
{
	struct rig rig;

	uc_begin(&rig);
	rig_post(&rig, IBV_WR_RDMA_WRITE, 8, rig_sge(&rig.near, 40));
	rig_wait(&rig.near);
	uc_end(&rig);
}

#define OWN      "QP 0x[0-9a-f]{6}, SEND wr_id 5: "
#define DATAGRAM "QP 0x[0-9a-f]{6}, datagram of QP 0x[0-9a-f]{6} \\(at [^)]+\\): "
#define WHOSE    "QP 0x[0-9a-f]{6}( \\(this QP itself\\))?, which has "
#define UC_FAR \
	"QP 0x[0-9a-f]{6},? (refuses a )?(SEND|WRITE) of QP 0x[0-9a-f]{6} \\(this process\\): "

const struct rig_case rig_datagram_cases[] = {
	{ "a datagram with another Q_Key",
	  wrong_qkey,
	  { OWN "dropped: Q_Key 0x12 is not that of " WHOSE "0x11" },
	  { DATAGRAM "dropped: Q_Key 0x12 is not that of " WHOSE "0x11" } },
	{ "a receive without room for the GRH",
	  no_room,
	  { OWN "dropped: 30 bytes, and 40 of the GRH before them, do not fit into the receive "
		"posted at " WHOSE "room for 30" },
	  { DATAGRAM "dropped: 30 bytes, and 40 of the GRH before them, do not fit into the "
		     "receive posted at " WHOSE "room for 30" } },
	{ "a datagram that finds no receive",
	  no_receive,
	  { OWN "dropped: no receive was posted at QP 0x[0-9a-f]{6} \\(this QP itself\\)" },
	  { DATAGRAM "dropped: no receive was posted at QP 0x[0-9a-f]{6}" } },
	{ "an address handle of another PD",
	  other_pd,
	  { OWN "its address handle belongs to PD [0-9]+, the QP to PD [0-9]+" },
	  { OWN "its address handle belongs to PD [0-9]+, the QP to PD [0-9]+" } },
	{ "a WRITE on a UD QP",
	  write_on_ud,
	  { "RDMA_WRITE wr_id 5: RDMA_WRITE does not exist on a QP of type UD" },
	  { "RDMA_WRITE wr_id 5: RDMA_WRITE does not exist on a QP of type UD" } },
	{ "a SEND of UC that finds no receive",
	  uc_no_receive,
	  { "SEND wr_id 8: dropped: no receive was posted at QP 0x[0-9a-f]{6} \\(this process\\)" },
	  { UC_FAR "dropped: no receive was posted at QP 0x[0-9a-f]{6}" } },
	{ "a WRITE of UC that is not allowed",
	  uc_right,
	  { "RDMA_WRITE wr_id 8: qp_access_flags of QP 0x[0-9a-f]{6} \\(this process\\) lack" },
	  { UC_FAR "qp_access_flags of QP 0x[0-9a-f]{6} lack IBV_ACCESS_REMOTE_WRITE" } },
	{ 0 },
};
