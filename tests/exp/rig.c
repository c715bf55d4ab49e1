/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEADLINE_S = 20 };

struct call {
	rig_call function;
	uint8_t arguments[RIG_CALL_BYTES];
};

static uint8_t *arenas; /* of both ends; shared */
static struct rig_end far_end;
static int sock = -1;
static pid_t child;

bool rig_two_processes(void)
{
	const char *placement = getenv("VERBENA_TEST_PLACEMENT");

	return placement && !strcmp(placement, "two");
}

bool rig_by_packets(void)
{
	return getenv("VERBENA_PATH");
}

/* --- the far end --- */

static void serve(int fd)
{
	struct call call;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(fd, &call, sizeof(call)) == sizeof(call)) {
		uint64_t result = call.function(&far_end, call.arguments);

		RIG_EQ(write(fd, &result, sizeof(result)), sizeof(result));
	}
	exit(0);
}

void rig_start(void)
{
	int pair[2];

	arenas = mmap(NULL, 2 * RIG_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	RIG_TRUE(arenas != MAP_FAILED);
	if (!rig_two_processes())
		return;
	RIG_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	child = fork();
	RIG_TRUE(child >= 0);
	if (!child) {
		close(pair[0]);
		serve(pair[1]);
	}
	close(pair[1]);
	sock = pair[0];
}

void rig_stop(void)
{
	int status;

	if (!child)
		return;
	close(sock);
	RIG_EQ(waitpid(child, &status, 0), child);
	RIG_EQ(status, 0);
}

uint64_t rig_far(struct rig *rig, rig_call function, const void *arguments, size_t length)
{
	struct call call = { .function = function };
	uint64_t result = 0;

	(void)rig;
	RIG_TRUE(length <= sizeof(call.arguments));
	if (length)
		memcpy(call.arguments, arguments, length);
	if (sock < 0)
		return function(&far_end, call.arguments);
	RIG_EQ(write(sock, &call, sizeof(call)), sizeof(call));
	RIG_EQ(read(sock, &result, sizeof(result)), sizeof(result));
	return result;
}

/* --- an end --- */

static struct ibv_context *open_device(void)
{
	const char *name = getenv("VERBENA_TEST_DEVICE");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	RIG_TRUE(list);
	for (int i = 0; list[i] && !context; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	RIG_TRUE(context);
	ibv_free_device_list(list);
	return context;
}

struct rig_address rig_address(struct rig_end *end, struct ibv_qp *qp)
{
	struct rig_address address = {
		.qpn = qp->qp_num,
		.rkey = end->mr->rkey,
		.lid = end->port.lid,
	};

	if (end->gid_index >= 0)
		RIG_EQ(ibv_query_gid(end->context, 1, end->gid_index, &address.gid), 0);
	return address;
}

void rig_connect(struct rig_end *end, struct ibv_qp *qp, const struct rig_address *to)
{
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qpn,
		.max_dest_rd_atomic = 16,
		.max_rd_atomic = 16,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .dlid = to->lid, .port_num = 1 },
	};

	if (end->gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.sgid_index = (uint8_t)end->gid_index;
		attr.ah_attr.grh.dgid = to->gid;
	}
	RIG_EQ(ibv_exp_modify_qp(qp, &attr,
				 IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
					 IBV_EXP_QP_ACCESS_FLAGS),
	       0);
	attr.qp_state = IBV_QPS_RTR;
	RIG_EQ(ibv_exp_modify_qp(qp, &attr,
				 IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
					 IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
					 IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_MIN_RNR_TIMER),
	       0);
	attr.qp_state = IBV_QPS_RTS;
	RIG_EQ(ibv_exp_modify_qp(qp, &attr,
				 IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
					 IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_SQ_PSN |
					 IBV_EXP_QP_MAX_QP_RD_ATOMIC),
	       0);
}

struct ibv_qp *rig_create_qp(struct rig_end *end, const struct rig_opts *opts)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.cap = { .max_send_wr = RIG_DEPTH,
			 .max_recv_wr = RIG_DEPTH,
			 .max_send_sge = RIG_SGES,
			 .max_recv_sge = RIG_SGES,
			 .max_inline_data = 64 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = opts->sq_sig_all,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG |
			     IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = end->pd,
		.exp_create_flags = opts->create_flags,
		.max_atomic_arg = opts->max_atomic_arg,
		.max_inl_send_klms = opts->max_inl_send_klms,
	};
	struct ibv_qp *qp;

	if (opts->max_inl_send_klms)
		attr.comp_mask |= IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
	qp = ibv_exp_create_qp(end->context, &attr);
	RIG_TRUE(qp);
	return qp;
}

static struct ibv_cq *create_cq(struct rig_end *end, const struct rig_opts *opts)
{
	struct ibv_exp_cq_init_attr attr = { .comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					     .flags = opts->cq_flags };
	struct ibv_cq *cq = ibv_exp_create_cq(end->context, 512, NULL, NULL, 0, &attr);

	RIG_TRUE(cq);
	return cq;
}

static void end_open(struct rig_end *end, const struct rig_opts *opts, uint8_t *arena)
{
	struct ibv_exp_port_attr port = { 0 };
	struct ibv_exp_reg_mr_in in;

	*end = (struct rig_end){ .context = open_device(), .arena = arena };
	RIG_EQ(ibv_exp_query_port(end->context, 1, &port), 0);
	end->port = port.port_attr;
	end->gid_index = port.port_attr.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : -1;
	end->pd = ibv_alloc_pd(end->context);
	RIG_TRUE(end->pd);
	end->send_cq = create_cq(end, opts);
	end->recv_cq = create_cq(end, opts);
	in = (struct ibv_exp_reg_mr_in){
		.pd = end->pd,
		.addr = arena,
		.length = RIG_ARENA,
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
			      IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC,
	};
	end->mr = ibv_exp_reg_mr(&in);
	RIG_TRUE(end->mr);
	end->qp = rig_create_qp(end, opts);
}

static void end_close(struct rig_end *end)
{
	RIG_EQ(ibv_destroy_qp(end->qp), 0);
	RIG_EQ(ibv_dereg_mr(end->mr), 0);
	RIG_EQ(ibv_destroy_cq(end->send_cq), 0);
	RIG_EQ(ibv_destroy_cq(end->recv_cq), 0);
	RIG_EQ(ibv_dealloc_pd(end->pd), 0); /* EBUSY if anything was left behind */
	RIG_EQ(ibv_close_device(end->context), 0);
}

/* --- both --- */

/* The far end leaves its address in its own arena, for the test to read. */
static uint64_t far_open(struct rig_end *end, const void *opts)
{
	struct rig_address address;

	end_open(end, opts, arenas + RIG_ARENA);
	address = rig_address(end, end->qp);
	memcpy(end->arena, &address, sizeof(address));
	return 0;
}

static uint64_t far_connect(struct rig_end *end, const void *near)
{
	rig_connect(end, end->qp, near);
	return 0;
}

static uint64_t far_close(struct rig_end *end, const void *unused)
{
	(void)unused;
	end_close(end);
	return 0;
}

void rig_open(struct rig *rig, const struct rig_opts *opts)
{
	static const struct rig_opts none;
	struct rig_address near;
	struct rig_opts far;

	opts = opts ? opts : &none;
	far = *opts;
	far.create_flags = opts->near_only ? 0 : opts->create_flags;
	*rig = (struct rig){ .far_arena = arenas + RIG_ARENA };
	memset(arenas, 0, 2 * RIG_ARENA);
	end_open(&rig->near, opts, arenas);
	rig_far(rig, far_open, &far, sizeof(far));
	memcpy(&rig->far, rig->far_arena, sizeof(rig->far));
	near = rig_address(&rig->near, rig->near.qp);
	rig_connect(&rig->near, rig->near.qp, &rig->far);
	rig_far(rig, far_connect, &near, sizeof(near));
}

void rig_close(struct rig *rig)
{
	end_close(&rig->near);
	rig_far(rig, far_close, NULL, 0);
}

struct ibv_exp_wc rig_wait(struct ibv_cq *cq)
{
	const time_t deadline = time(NULL) + DEADLINE_S;
	struct ibv_exp_wc wc;
	int count;

	while (!(count = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc))))
		RIG_TRUE(time(NULL) < deadline);
	RIG_EQ(count, 1);
	return wc;
}

struct ibv_exp_wc rig_sent(struct rig *rig, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_exp_wc wc = rig_wait(rig->near.send_cq);

	RIG_EQ(wc.wr_id, wr_id);
	RIG_EQ(wc.status, status);
	return wc;
}

void rig_fill(uint8_t *at, size_t length, uint64_t seed)
{
	for (size_t i = 0; i < length; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		at[i] = (uint8_t)(seed >> 56);
	}
}

uint64_t rig_post_recv(struct rig_end *end, const void *receive)
{
	const struct rig_receive *r = receive;
	struct ibv_sge sge = { r->addr, r->length, r->extra ? end->extra->lkey : end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = r->wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (!r->extra)
		sge.addr = (uintptr_t)end->arena + r->addr;
	return (uint64_t)ibv_post_recv(end->qp, &wr, &bad);
}

uint64_t rig_received(struct rig_end *end, const void *unused)
{
	struct ibv_exp_wc wc = rig_wait(end->recv_cq);

	(void)unused;
	RIG_EQ(wc.status, IBV_WC_SUCCESS);
	return wc.byte_len;
}
