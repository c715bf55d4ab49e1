/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tries every operation on every transport of the first device, within the process, and prints
 * those that succeed, a transport and an operation a line.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "abi/flush.h"

enum { SIZE = 64, QKEY = 0x1111, PSN = 0x123, PATIENCE_S = 30 };

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} operations[] = {
	{ "SEND", IBV_WR_SEND },
	{ "SEND_WITH_IMM", IBV_WR_SEND_WITH_IMM },
	{ "SEND_WITH_INV", IBV_WR_SEND_WITH_INV },
	{ "RDMA_WRITE", IBV_WR_RDMA_WRITE },
	{ "RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM },
	{ "RDMA_READ", IBV_WR_RDMA_READ },
	{ "ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP },
	{ "ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ "ATOMIC_WRITE", IBV_WR_ATOMIC_WRITE },
	{ "FLUSH", IBV_WR_FLUSH },
	{ "BIND_MW", IBV_WR_BIND_MW },
	{ "LOCAL_INV", IBV_WR_LOCAL_INV },
	{ "TSO", IBV_WR_TSO },
};

static const struct {
	const char *name;
	enum ibv_qp_type sender, receiver;
} transports[] = {
	{ "RC", IBV_QPT_RC, IBV_QPT_RC },
	{ "UC", IBV_QPT_UC, IBV_QPT_UC },
	{ "UD", IBV_QPT_UD, IBV_QPT_UD },
	{ "XRC", IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV },
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq; /* of the XRC domain */
static struct ibv_ah *ah;
static struct ibv_port_attr port;
static union ibv_gid gid;
static int gid_index;
static _Alignas(64) uint8_t memory[2 * SIZE]; /* ours, then the peer's */

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *need(void *object, const char *what)
{
	if (!object)
		die(what);
	return object;
}

/* --- objects --- */

/* The last that is not empty: an IP address, on an Ethernet port. */
static void choose_gid(void)
{
	static const union ibv_gid none;
	union ibv_gid one;

	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(context, 1, i, &one))
			die("ibv_query_gid");
		if (!memcmp(&one, &none, sizeof(one)) || i > 1)
			continue;
		gid = one;
		gid_index = i;
	}
}

static struct ibv_ah_attr path(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.grh = { .dgid = gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64 },
		.dlid = port.lid,
		.port_num = 1,
	};
}

static void open_all(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1
	};
	struct ibv_srq_init_attr_ex shared = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
	};
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_ah_attr to;

	context = need(ibv_open_device(need(list[0], "a device")), "ibv_open_device");
	if (ibv_query_port(context, 1, &port))
		die("ibv_query_port");
	choose_gid();
	pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	cq = need(ibv_create_cq(context, 64, NULL, NULL, 0), "ibv_create_cq");
	mr = need(ibv_reg_mr(pd, memory, sizeof(memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				     IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL),
		  "ibv_reg_mr");
	xrcd = need(ibv_open_xrcd(context, &domain), "ibv_open_xrcd");
	shared.xrcd = xrcd;
	shared.cq = cq;
	shared.pd = pd;
	srq = need(ibv_create_srq_ex(context, &shared), "ibv_create_srq_ex");
	to = path();
	ah = need(ibv_create_ah(pd, &to), "ibv_create_ah");
	ibv_free_device_list(list);
}

static void close_all(void)
{
	if (ibv_destroy_ah(ah) || ibv_destroy_srq(srq) || ibv_close_xrcd(xrcd) ||
	    ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
	    ibv_close_device(context))
		die("closing what was opened");
}

/* Of the operations FLUSH alone needs a QP that is created for it; NULL: there is none. */
static struct ibv_qp *create(enum ibv_qp_type type, bool flushes)
{
	bool receives = type == IBV_QPT_XRC_RECV;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = receives ? NULL : cq,
		.recv_cq = receives ? NULL : cq,
		.cap = { .max_send_wr = receives ? 0 : 8, .max_send_sge = receives ? 0 : 1 },
		.comp_mask = receives ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = receives ? NULL : pd,
		.xrcd = receives ? xrcd : NULL,
	};

	if (type != IBV_QPT_XRC_RECV && type != IBV_QPT_XRC_SEND) {
		init.cap.max_recv_wr = 8;
		init.cap.max_recv_sge = 1;
	}
	if (flushes) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_FLUSH;
		return ibv_create_qp_ex(context, &init);
	}
	return need(ibv_create_qp_ex(context, &init), "ibv_create_qp_ex");
}

/* --- states --- */

/* What each kind of QP is told on its way; the rest of attr is ignored. */
static int mask_of(enum ibv_qp_type type, enum ibv_qp_state state)
{
	bool asks = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	bool datagrams = type == IBV_QPT_UD;
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		return mask | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR)
		return datagrams
			       ? mask
			       : mask | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN |
					 (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
						  : 0);
	return mask | IBV_QP_SQ_PSN |
	       (asks ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC
		     : 0) |
	       (type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0);
}

static void bring_up(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL,
		.ah_attr = path(),
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	if (qp->qp_type == IBV_QPT_UC)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		attr.qp_state = (enum ibv_qp_state)state;
		if (ibv_modify_qp(qp, &attr, mask_of(qp->qp_type, attr.qp_state)))
			die("ibv_modify_qp");
	}
}

/* --- trying --- */

static struct ibv_sge local_side(enum ibv_wr_opcode opcode)
{
	bool eight = opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		     opcode == IBV_WR_ATOMIC_WRITE;

	return (struct ibv_sge){ (uintptr_t)memory, eight ? 8 : SIZE, mr->lkey };
}

/* Waits for the completion of wr_id; others are receives. */
static enum ibv_wc_status status_of(uint64_t wr_id)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;

	while (time(NULL) < until) {
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count < 0)
			die("ibv_poll_cq");
		if (count && wc.wr_id == wr_id)
			return wc.status;
	}
	errno = ETIMEDOUT;
	die("waiting for a completion");
}

/* True: it succeeds. */
static bool post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	static uint64_t last_id;
	struct ibv_send_wr *bad;

	wr->wr_id = ++last_id;
	wr->send_flags = IBV_SEND_SIGNALED;
	return !ibv_post_send(qp, wr, &bad) && status_of(wr->wr_id) == IBV_WC_SUCCESS;
}

static bool flush(struct ibv_qp *qp)
{
	static const uint64_t id = 1ull << 32;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint32_t srqn;

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(ex, mr->rkey, (uintptr_t)memory + SIZE, SIZE, IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
	if (qp->qp_type == IBV_QPT_XRC_SEND && !ibv_get_srq_num(srq, &srqn))
		ibv_wr_set_xrc_srqn(ex, srqn);
	return !ibv_wr_complete(ex) && status_of(id) == IBV_WC_SUCCESS;
}

/* A window of type 2 over the peer's half; its key, or 0. */
static uint32_t bind_window(struct ibv_qp *qp, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = { .mr = mr,
					    .addr = (uintptr_t)memory + SIZE,
					    .length = SIZE,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};

	return post(qp, &wr) ? wr.bind_mw.rkey : 0;
}

static void post_receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (qp->qp_type == IBV_QPT_XRC_RECV ? ibv_post_srq_recv(srq, &wr, &bad)
					    : ibv_post_recv(qp, &wr, &bad))
		die("posting a receive");
}

static void aim(struct ibv_send_wr *wr, const struct ibv_qp *from, const struct ibv_qp *to)
{
	uint64_t addr = (uintptr_t)memory + SIZE;

	if (from->qp_type == IBV_QPT_XRC_SEND && ibv_get_srq_num(srq, &wr->qp_type.xrc.remote_srqn))
		die("ibv_get_srq_num");
	if (from->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = ah;
		wr->wr.ud.remote_qpn = to->qp_num;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = mr->rkey;
	} else {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = mr->rkey;
	}
}

/* What is invalidated must have been bound: by the peer, or by ourselves. */
static bool works(struct ibv_qp *from, struct ibv_qp *to, struct ibv_mw *mw,
		  enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = local_side(opcode);
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 };

	switch ((int)opcode) {
	case IBV_WR_FLUSH:
		return flush(from);
	case IBV_WR_BIND_MW:
		return bind_window(from, mw);
	case IBV_WR_LOCAL_INV:
		wr.num_sge = 0;
		wr.invalidate_rkey = bind_window(from, mw);
		return wr.invalidate_rkey && post(from, &wr);
	case IBV_WR_SEND_WITH_INV:
		/*
		 * An XRC_RECV QP sends nothing, BIND_MW included: there is nothing to take back,
		 * and the receive fails. The sender does not.
		 */
		if (to->qp_type == IBV_QPT_RC)
			wr.invalidate_rkey = bind_window(to, mw);
		break;
	default:
		break;
	}
	aim(&wr, from, to);
	return post(from, &wr);
}

static bool try(unsigned transport, enum ibv_wr_opcode opcode)
{
	struct ibv_qp *from = create(transports[transport].sender, opcode == IBV_WR_FLUSH);
	struct ibv_qp *to = create(transports[transport].receiver, false);
	struct ibv_mw *mw = need(ibv_alloc_mw(pd, IBV_MW_TYPE_2), "ibv_alloc_mw");
	struct ibv_wc wc;
	bool good = false;

	if (from) {
		bring_up(to, from);
		bring_up(from, to);
		post_receive(to);
		good = works(from, to, mw, opcode);
	}
	if ((from && ibv_destroy_qp(from)) || ibv_destroy_qp(to) || ibv_dealloc_mw(mw))
		die("destroying a pair");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
	return good;
}

int main(void)
{
	open_all();
	for (unsigned i = 0; i < sizeof(transports) / sizeof(transports[0]); i++)
		for (unsigned j = 0; j < sizeof(operations) / sizeof(operations[0]); j++)
			if (try(i, operations[j].opcode))
				printf("%s %s\n", transports[i].name, operations[j].name);
	close_all();
	return 0;
}
