/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs say perror() after any call that failed: errno is set whatever the convention of the
 * return value is. Every call that can fail stands here once (tests/docs/check_errno.py looks).
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/verbs.h"
#include "ct.h"

#undef ibv_query_port /* the name itself, beside the function behind the pointer */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr);
/* Not in the installed headers. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index, int *type);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

enum convention { VALUE, MINUS_ONE, NEGATIVE, POINTER };

static int wrong; /* calls that did not keep to theirs */

static long answer_of(enum convention convention, int error)
{
	switch (convention) {
	case VALUE:
		return error;
	case MINUS_ONE:
		return -1;
	case NEGATIVE:
		return -error;
	case POINTER:
		break;
	}
	return 0;
}

static void judge(const char *call, enum convention convention, long answer, int number, int error)
{
	if (answer == answer_of(convention, error) && number == error)
		return;
	printf("# %s answers %ld with errno %d (%s), not %ld with %d\n", call, answer, number,
	       strerror(number), answer_of(convention, error), error);
	fflush(stdout); /* a check that fails ends the process */
	wrong++;
}

#define FAILS(convention, call, error)                           \
	do {                                                     \
		long answer_;                                    \
		errno = 0;                                       \
		answer_ = (long)(call);                          \
		judge(#call, convention, answer_, errno, error); \
	} while (0)

struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_comp_channel *channel;
};

static uint8_t buffer[64];

static struct ibv_qp_init_attr qp_attr(const struct world *w)
{
	return (struct ibv_qp_init_attr){
		.send_cq = w->cq, .recv_cq = w->cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
}

static void world_make(struct ct *t, struct world *w)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr qp;

	w->ctx = ibv_open_device(ct_context(t->near)->device);
	CT_TRUE(w->ctx != NULL);
	w->pd = ibv_alloc_pd(w->ctx);
	w->channel = ibv_create_comp_channel(w->ctx);
	w->cq = ibv_create_cq(w->ctx, 16, NULL, w->channel, 0);
	CT_TRUE(w->pd && w->channel && w->cq);
	qp = qp_attr(w);
	w->qp = ibv_create_qp(w->pd, &qp);
	w->srq = ibv_create_srq(w->pd, &srq);
	w->mr = ibv_reg_mr(w->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_1);
	CT_TRUE(w->qp && w->srq && w->mr && w->mw);
}

/* --- the exported names --- */

static void devices(struct world *w)
{
	struct ibv_port_attr port;
	struct ibv_async_event event;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	char text[8];
	__be16 pkey;
	int type;

	FAILS(POINTER, ibv_import_device(-1), EBADF);
	FAILS(MINUS_ONE, ibv_close_device(NULL), EINVAL);
	FAILS(VALUE, ibv_query_port(w->ctx, 2, (void *)&port), EINVAL);
	FAILS(MINUS_ONE, ibv_query_gid(w->ctx, 2, 0, &gid), EINVAL);
	FAILS(MINUS_ONE, ibv_query_gid_type(w->ctx, 2, 0, &type), EINVAL);
	FAILS(MINUS_ONE, ibv_query_pkey(w->ctx, 2, 0, &pkey), EINVAL);
	FAILS(MINUS_ONE, ibv_get_pkey_index(w->ctx, 2, 0), EINVAL);
	FAILS(VALUE, _ibv_query_gid_ex(w->ctx, 2, 0, &entry, 0, sizeof(entry)), EINVAL);
	FAILS(VALUE, _ibv_query_gid_ex(w->ctx, 1, 1 << 20, &entry, 0, sizeof(entry)), EINVAL);
	FAILS(NEGATIVE, _ibv_query_gid_table(w->ctx, &entry, 1, 1, sizeof(entry)), EINVAL);
	FAILS(MINUS_ONE, ibv_read_sysfs_file("/nowhere", "file", text, sizeof(text)), ENOENT);
	fcntl(w->ctx->async_fd, F_SETFL, O_NONBLOCK);
	FAILS(MINUS_ONE, ibv_get_async_event(w->ctx, &event), EAGAIN);
}

static void addresses(struct world *w)
{
	struct ibv_ah_attr ah = { .port_num = 2 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_grh grh = { 0 };
	uint8_t mac[6];
	uint16_t vid;

	FAILS(POINTER, ibv_create_ah(w->pd, &ah), EINVAL);
	FAILS(POINTER, ibv_create_ah_from_wc(w->pd, &wc, &grh, 1), EINVAL);
	FAILS(MINUS_ONE, ibv_init_ah_from_wc(w->ctx, 1, &wc, &grh, &ah), EINVAL);
	FAILS(VALUE, ibv_destroy_ah(NULL), ENOENT);
	ah.port_num = 2;
	FAILS(NEGATIVE, ibv_resolve_eth_l2_from_gid(w->ctx, &ah, mac, &vid), EINVAL);
}

static void memory(struct world *w)
{
	const int bad = IBV_ACCESS_REMOTE_WRITE; /* without the local one */

	FAILS(POINTER, ibv_alloc_pd(NULL), EINVAL);
	FAILS(VALUE, ibv_dealloc_pd(w->pd), EBUSY);
	FAILS(POINTER, ibv_import_pd(w->ctx, 1 << 30), ENOENT);
	FAILS(POINTER, ibv_reg_mr(w->pd, buffer, 8, bad), EINVAL);
	FAILS(POINTER, ibv_reg_mr_iova(w->pd, buffer, 8, 0, bad), EINVAL);
	FAILS(POINTER, ibv_reg_mr_iova2(w->pd, buffer, 8, 0, (unsigned)bad), EINVAL);
	FAILS(POINTER, ibv_import_mr(w->pd, 1 << 30), ENOENT);
	FAILS(POINTER, ibv_import_dm(w->ctx, 1 << 30), ENOENT);
	FAILS(VALUE, ibv_dereg_mr(NULL), ENOENT);
	/* This one has values of its own. */
	errno = 0;
	CT_EQ(ibv_rereg_mr(w->mr, 1 << 20, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CT_EQ(errno, EINVAL);
	errno = 0;
	CT_EQ(ibv_rereg_mr(w->mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CT_EQ(errno, EINVAL);
	/* A machine without dma-bufs says so first. */
	errno = 0;
	CT_TRUE(!ibv_reg_dmabuf_mr(w->pd, 0, 8, 0, -1, 0));
	CT_TRUE(errno == EBADF || errno == EOPNOTSUPP);
}

static void queues(struct world *w)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_srq_init_attr none = { 0 };
	struct ibv_srq_attr limit = { .srq_limit = 1 << 20 };
	union ibv_gid gid = { 0 };
	struct ibv_ece ece = { 0 };
	struct ibv_cq *cq;
	void *context;

	FAILS(POINTER, ibv_create_comp_channel(NULL), EINVAL);
	FAILS(VALUE, ibv_destroy_comp_channel(w->channel), EBUSY);
	fcntl(w->channel->fd, F_SETFL, O_NONBLOCK);
	FAILS(MINUS_ONE, ibv_get_cq_event(w->channel, &cq, &context), EAGAIN);
	FAILS(POINTER, ibv_create_cq(w->ctx, 0, NULL, NULL, 0), EINVAL);
	FAILS(VALUE, ibv_resize_cq(w->cq, -1), EINVAL);
	FAILS(VALUE, ibv_destroy_cq(w->cq), EBUSY);
	FAILS(POINTER, ibv_create_srq(w->pd, &none), EINVAL);
	FAILS(VALUE, ibv_modify_srq(w->srq, &limit, IBV_SRQ_LIMIT), EINVAL);
	FAILS(VALUE, ibv_query_srq(NULL, &limit), EINVAL);
	FAILS(VALUE, ibv_destroy_srq(NULL), ENOENT);
	FAILS(POINTER, ibv_create_qp(w->pd, &init), EINVAL);
	FAILS(VALUE, ibv_modify_qp(w->qp, &attr, IBV_QP_STATE), EINVAL);
	FAILS(VALUE, ibv_query_qp(NULL, &attr, IBV_QP_STATE, &init), EINVAL);
	FAILS(VALUE, ibv_destroy_qp(NULL), ENOENT);
	FAILS(VALUE, ibv_attach_mcast(w->qp, &gid, 0), EINVAL);
	FAILS(VALUE, ibv_detach_mcast(w->qp, &gid, 0), EINVAL);
	FAILS(POINTER, ibv_qp_to_qp_ex(w->qp), EINVAL); /* it has no builders */
	FAILS(VALUE, ibv_set_ece(w->qp, &ece), EOPNOTSUPP);
	FAILS(VALUE, ibv_query_ece(w->qp, &ece), EOPNOTSUPP);
}

/* --- behind the pointers of the context --- */

static void basic_pointers(struct world *w)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = w->mr } };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_mw fake_mw = { .context = w->ctx };
	struct ibv_pd fake_pd = { .context = w->ctx };
	struct ibv_wc wc;

	FAILS(VALUE, ibv_post_send(w->qp, &send, &bad_send), EINVAL); /* in RESET */
	CT_TRUE(bad_send == &send);
	FAILS(VALUE, ibv_post_recv(w->qp, &recv, &bad_recv), EINVAL);
	CT_TRUE(bad_recv == &recv);
	CT_EQ(ibv_post_srq_recv(w->srq, &recv, &bad_recv), 0);
	FAILS(VALUE, ibv_post_srq_recv(w->srq, &recv, &bad_recv), ENOMEM); /* one is its room */
	FAILS(VALUE, ibv_bind_mw(w->qp, w->mw, &bind), EINVAL);
	FAILS(POINTER, ibv_alloc_mw(&fake_pd, IBV_MW_TYPE_1), EINVAL);
	FAILS(VALUE, ibv_dealloc_mw(&fake_mw), ENOENT);
	FAILS(NEGATIVE, ibv_poll_cq(w->cq, -1, &wc), EINVAL);
}

static void extended_pointers(struct world *w)
{
	struct verbs_context *verbs = verbs_get_ctx(w->ctx);
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_values_ex values = { .comp_mask = 1 << 20 };
	struct ibv_modify_cq_attr modify = { .attr_mask = 1 << 20 };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr_ex srq = { .comp_mask = 1 << 20 };
	struct ibv_qp_open_attr open = { 0 };
	struct ibv_cq_init_attr_ex cq = { .cqe = 0 };
	struct ibv_ops_wr op = { 0 }, *bad_op;
	struct ibv_xrcd_init_attr xrcd = { 0 };
	struct ibv_xrcd fake_xrcd = { .context = w->ctx };
	struct ibv_srq fake_srq = { .context = w->ctx };
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	uint32_t number;

	FAILS(VALUE, verbs->query_device_ex(w->ctx, &input, &device, sizeof(device)), EINVAL);
	FAILS(VALUE, verbs->query_port(w->ctx, 2, &port, sizeof(port)), EINVAL);
	FAILS(VALUE, ibv_query_rt_values_ex(w->ctx, &values), EINVAL);
	FAILS(POINTER, ibv_create_cq_ex(w->ctx, &cq), EINVAL);
	FAILS(VALUE, ibv_modify_cq(w->cq, &modify), EOPNOTSUPP);
	FAILS(VALUE, ibv_modify_qp_rate_limit(w->qp, &rate), EINVAL);
	FAILS(POINTER, verbs->create_qp_ex(w->ctx, &qp), EINVAL);
	FAILS(POINTER, ibv_open_qp(w->ctx, &open), EINVAL);
	FAILS(POINTER, ibv_create_srq_ex(w->ctx, &srq), EOPNOTSUPP);
	FAILS(VALUE, ibv_get_srq_num(&fake_srq, &number), EINVAL);
	FAILS(VALUE, ibv_post_srq_ops(w->srq, &op, &bad_op), EINVAL);
	FAILS(POINTER, ibv_open_xrcd(w->ctx, &xrcd), EINVAL);
	FAILS(VALUE, ibv_close_xrcd(&fake_xrcd), ENOENT);
}

static void domains_and_memory(struct world *w)
{
	struct ibv_parent_domain_init_attr parent = { .comp_mask = 1 << 20 };
	struct ibv_td_init_attr td = { .comp_mask = 1 };
	struct ibv_td fake_td = { .context = w->ctx };
	struct ibv_pd fake_pd = { .context = w->ctx };
	struct ibv_dm fake_dm = { .context = w->ctx };
	struct ibv_alloc_dm_attr attr = { .length = 0 };
	struct ibv_sge sge = { 0 };
	struct ibv_dm *dm;

	FAILS(POINTER, ibv_alloc_td(w->ctx, &td), EINVAL);
	FAILS(VALUE, ibv_dealloc_td(&fake_td), ENOENT);
	FAILS(POINTER, ibv_alloc_parent_domain(w->ctx, &parent), EINVAL);
	FAILS(POINTER, ibv_alloc_null_mr(&fake_pd), EINVAL);
	FAILS(VALUE, ibv_advise_mr(w->pd, 99, 0, &sge, 1), EOPNOTSUPP);
	FAILS(POINTER, ibv_alloc_dm(w->ctx, &attr), EINVAL);
	FAILS(VALUE, ibv_free_dm(&fake_dm), ENOENT);
	attr.length = 64;
	dm = ibv_alloc_dm(w->ctx, &attr);
	CT_TRUE(dm != NULL);
	FAILS(POINTER, ibv_reg_dm_mr(w->pd, dm, 0, 64, 0), EINVAL);
	FAILS(VALUE, ibv_memcpy_to_dm(dm, 1000, buffer, 8), EINVAL);
	FAILS(VALUE, ibv_memcpy_from_dm(buffer, dm, 1000, 8), EINVAL);
	CT_EQ(ibv_free_dm(dm), 0);
}

static void packets(struct world *w)
{
	struct ibv_counters_init_attr counters = { .comp_mask = 1 };
	struct ibv_counter_attach_attr point = { 0 };
	struct ibv_counters fake_counters = { .context = w->ctx };
	struct ibv_rwq_ind_table_init_attr table = { .comp_mask = 1 };
	struct ibv_rwq_ind_table fake_table = { .context = w->ctx };
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1 };
	struct ibv_wq fake_wq = { .context = w->ctx }, *wq;
	struct ibv_wq_attr modify = { .attr_mask = IBV_WQ_ATTR_STATE };
	struct ibv_flow fake_flow = { .context = w->ctx };
	struct ibv_flow_attr flow = { 0 };
	struct ibv_recv_wr recv = { 0 }, *bad;
	uint64_t value;

	FAILS(POINTER, ibv_create_counters(w->ctx, &counters), EINVAL);
	FAILS(VALUE, ibv_destroy_counters(&fake_counters), ENOENT);
	FAILS(VALUE, ibv_attach_counters_point_flow(&fake_counters, &point, NULL), EINVAL);
	FAILS(VALUE, ibv_read_counters(&fake_counters, &value, 1, 0), EINVAL);
	FAILS(POINTER, ibv_create_rwq_ind_table(w->ctx, &table), EINVAL);
	FAILS(VALUE, ibv_destroy_rwq_ind_table(&fake_table), ENOENT);
	FAILS(POINTER, ibv_create_flow(w->qp, &flow), EINVAL);
	FAILS(VALUE, ibv_destroy_flow(&fake_flow), ENOENT);
	FAILS(POINTER, ibv_create_wq(w->ctx, &init), EINVAL);
	FAILS(VALUE, ibv_modify_wq(&fake_wq, &modify), EINVAL);
	FAILS(VALUE, ibv_destroy_wq(&fake_wq), ENOENT);
	init.pd = w->pd;
	init.cq = w->cq;
	wq = ibv_create_wq(w->ctx, &init);
	CT_TRUE(wq != NULL);
	FAILS(VALUE, ibv_post_wq_recv(wq, &recv, &bad), EINVAL); /* in RESET */
	CT_EQ(ibv_destroy_wq(wq), 0);
}

static void builders_and_iterators(struct world *w)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4 };
	struct ibv_poll_cq_attr poll = { .comp_mask = 1 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(w->ctx, &attr);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = w->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w->ctx, &init);
	struct ibv_qp_ex *ex;

	CT_TRUE(cq && qp);
	FAILS(VALUE, ibv_start_poll(cq, &poll), EINVAL);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	FAILS(VALUE, ibv_wr_complete(ex), EINVAL); /* in RESET */
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 0, 0); /* not an operation of the QP */
	FAILS(VALUE, ibv_wr_complete(ex), EINVAL);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void newer_calls(struct world *w)
{
	struct ibv_dmah_init_attr dmah = { .comp_mask = 8 };
	struct ibv_mr_init_attr mr = { .length = 8 };
	struct ibv_comp_cntr_init_attr cntr = { .flags = 1 };
	struct ibv_qp_attach_comp_cntr_attr attach = { .op_mask = 1 };
	struct ibv_comp_cntr_caps caps;
	struct ibv_buf *buf;
	uint64_t value;

	FAILS(POINTER, ibv_alloc_dmah(w->ctx, &dmah), EINVAL);
	FAILS(VALUE, ibv_dealloc_dmah(NULL), ENOENT);
	FAILS(POINTER, ibv_reg_mr_ex(w->pd, &mr), EINVAL);
	FAILS(VALUE, ibv_query_port_speed(w->ctx, 2, &value), EINVAL);
	FAILS(MINUS_ONE, ibv_dm_export_dmabuf_fd(NULL), EINVAL);
	FAILS(POINTER, ibv_alloc_buf(w->pd, 0, &buf), EINVAL);
	FAILS(POINTER, ibv_reg_buf_mr(w->pd, NULL, buffer, 8, 0), EINVAL);
	FAILS(MINUS_ONE, ibv_export_buf_dmabuf_fd(NULL), EINVAL);
	FAILS(VALUE, _ibv_query_comp_cntr_caps(NULL, &caps, sizeof(caps)), EINVAL);
	FAILS(POINTER, ibv_create_comp_cntr(w->ctx, &cntr), EINVAL);
	FAILS(VALUE, ibv_destroy_comp_cntr(NULL), ENOENT);
	FAILS(VALUE, ibv_qp_attach_comp_cntr(w->qp, NULL, &attach), EINVAL);
	FAILS(VALUE, ibv_set_comp_cntr(NULL, 1), EINVAL);
	FAILS(VALUE, ibv_set_err_comp_cntr(NULL, 1), EINVAL);
	FAILS(VALUE, ibv_inc_comp_cntr(NULL, 1), EINVAL);
	FAILS(VALUE, ibv_inc_err_comp_cntr(NULL, 1), EINVAL);
	FAILS(VALUE, ibv_read_comp_cntr(NULL, &value), EINVAL);
	FAILS(VALUE, ibv_read_err_comp_cntr(NULL, &value), EINVAL);
}

static void errno_is_set(struct ct *t)
{
	struct world w;

	world_make(t, &w);
	devices(&w);
	addresses(&w);
	memory(&w);
	queues(&w);
	basic_pointers(&w);
	extended_pointers(&w);
	domains_and_memory(&w);
	packets(&w);
	builders_and_iterators(&w);
	newer_calls(&w);
	CT_EQ(wrong, 0);
	CT_EQ(ibv_dealloc_mw(w.mw), 0);
	CT_EQ(ibv_dereg_mr(w.mr), 0);
	CT_EQ(ibv_destroy_srq(w.srq), 0);
	CT_EQ(ibv_destroy_qp(w.qp), 0);
	CT_EQ(ibv_destroy_cq(w.cq), 0);
	CT_EQ(ibv_destroy_comp_channel(w.channel), 0);
	CT_EQ(ibv_dealloc_pd(w.pd), 0);
	CT_EQ(ibv_close_device(w.ctx), 0);
}

/* Arming fails for no other reason. */
static void errno_in_a_child(struct ct *t)
{
	struct ibv_recv_wr recv = { 0 }, *bad;
	struct world w;
	int status;
	pid_t pid;

	world_make(t, &w);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		struct ibv_wc wc;

		FAILS(VALUE, ibv_req_notify_cq(w.cq, 0), EINVAL);
		FAILS(VALUE, ibv_post_recv(w.qp, &recv, &bad), EINVAL);
		FAILS(VALUE, ibv_post_srq_recv(w.srq, &recv, &bad), EINVAL);
		FAILS(NEGATIVE, ibv_poll_cq(w.cq, 1, &wc), EINVAL);
		_exit(wrong);
	}
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_EQ(status, 0);
}

const struct ct_case ct_errno_cases[] = {
	{ "whatever call fails sets errno", errno_is_set, CT_SOLO },
	{ "calls with inherited objects set errno", errno_in_a_child, CT_SOLO },
	{ 0 },
};
