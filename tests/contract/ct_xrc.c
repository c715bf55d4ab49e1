/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: domains, SRQs that messages name by number, and what is refused. */
#include "../asleep.h"
#include "ct.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- objects --------------------------------------------------------------------------------- */

static struct ibv_xrcd *open_domain(struct ct *t, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(ct_context(t->near), &attr);
}

static struct ibv_srq *create_srq(struct ct *t, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = ct_object(t->near, t->near->pd),
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(ct_context(t->near), &attr);
}

static struct ibv_qp *create_receiver(struct ct *t, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(ct_context(t->near), &attr);
}

static struct ibv_qp *open_qp(struct ct *t, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = t,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(ct_context(t->near), &attr);
}

static void domains_are_checked(struct ct *t)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	char path[] = "/tmp/verbena-ct-xrcd-XXXXXX";
	int fd = mkstemp(path);
	struct ibv_xrcd *first, *second;

	CT_TRUE(fd >= 0);
	unlink(path);
	CT_NULL(ibv_open_xrcd(ct_context(t->near), &attr), EINVAL);
	CT_NULL(open_domain(t, 1 << 20, O_CREAT), EBADF);
	CT_NULL(open_domain(t, fd, 0), EAGAIN); /* nobody has it */
	first = open_domain(t, fd, O_CREAT | O_EXCL);
	CT_TRUE(first != NULL);
	CT_TRUE(first->context == ct_context(t->near));
	CT_NULL(open_domain(t, fd, O_CREAT | O_EXCL), EINVAL);
	second = open_domain(t, fd, 0);
	CT_TRUE(second != NULL);
	CT_EQ(ibv_close_xrcd(first), 0);
	CT_NULL(open_domain(t, fd, O_CREAT | O_EXCL), EINVAL); /* the second still has it */
	CT_EQ(ibv_close_xrcd(second), 0);
	CT_NULL(open_domain(t, fd, 0), EAGAIN);
	close(fd);
}

static void a_domain_in_use_is_busy(struct ct *t)
{
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 16, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = open_domain(t, -1, O_CREAT);
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	CT_TRUE(cq != NULL && xrcd != NULL);
	srq = create_srq(t, xrcd, cq);
	CT_TRUE(srq != NULL);
	CT_ERROR(ibv_close_xrcd(xrcd), EBUSY);
	CT_ERROR(ibv_destroy_cq(cq), EBUSY);
	CT_EQ(ibv_destroy_srq(srq), 0);
	CT_EQ(ibv_destroy_cq(cq), 0);
	qp = create_receiver(t, xrcd);
	CT_TRUE(qp != NULL);
	CT_ERROR(ibv_close_xrcd(xrcd), EBUSY);
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
}

static void srqs_have_numbers(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->rcq);
	struct ibv_xrcd *xrcd = open_domain(t, -1, O_CREAT);
	struct ibv_srq *srq[3];
	struct ibv_srq_attr attr = { .max_wr = 100 };
	uint32_t number[3];

	CT_TRUE(xrcd != NULL);
	CT_NULL(create_srq(t, NULL, cq), EINVAL);
	CT_NULL(create_srq(t, xrcd, NULL), EINVAL);
	for (int i = 0; i < CT_COUNT(srq); i++) {
		srq[i] = create_srq(t, xrcd, cq);
		CT_TRUE(srq[i] != NULL);
		CT_EQ(ibv_get_srq_num(srq[i], &number[i]), 0);
		CT_TRUE(number[i] && number[i] <= 0xffffff);
	}
	CT_TRUE(number[0] != number[1] && number[1] != number[2] && number[0] != number[2]);
	CT_EQ(ibv_modify_srq(srq[0], &attr, IBV_SRQ_MAX_WR), 0);
	CT_EQ(ibv_query_srq(srq[0], &attr), 0);
	CT_TRUE(attr.max_wr >= 100 && attr.max_sge >= 1);
	for (int i = 0; i < CT_COUNT(srq); i++)
		CT_EQ(ibv_destroy_srq(srq[i]), 0);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
}

static void qps_do_one_thing_only(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->rcq);
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_xrcd *xrcd = open_domain(t, -1, O_CREAT);
	struct ibv_srq *srq = create_srq(t, xrcd, cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1 }
	};
	struct ibv_qp *sender = ibv_create_qp(pd, &init), *receiver = create_receiver(t, xrcd);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_qp_attr attr;

	CT_TRUE(sender != NULL && receiver != NULL && srq != NULL);
	CT_EQ(init.cap.max_recv_wr, 0);
	CT_EQ(sender->qp_type, IBV_QPT_XRC_SEND);
	CT_EQ(ibv_post_recv(sender, &recv, &bad_recv), EINVAL);
	CT_EQ(ibv_post_recv(receiver, &recv, &bad_recv), EINVAL);
	CT_EQ(ibv_post_send(receiver, &send, &bad_send), EINVAL);
	CT_EQ(ibv_query_qp(receiver, &attr, IBV_QP_STATE, &init), 0);
	CT_TRUE(!init.send_cq && !init.recv_cq && init.qp_type == IBV_QPT_XRC_RECV);
	init = (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC
	};
	CT_NULL(ibv_create_qp(pd, &init), EINVAL); /* an XRC SRQ is for XRC alone */
	init.srq = NULL;
	init.qp_type = IBV_QPT_XRC_RECV;
	CT_NULL(ibv_create_qp(pd, &init), EINVAL); /* it needs a domain */
	CT_EQ(ibv_destroy_qp(sender), 0);
	CT_EQ(ibv_destroy_qp(receiver), 0);
	CT_EQ(ibv_destroy_srq(srq), 0);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
}

static void take_event(struct ct *t, enum ibv_event_type type, struct ibv_qp **qp)
{
	struct ibv_async_event event;

	CT_EQ(ibv_get_async_event(ct_context(t->near), &event), 0);
	CT_EQ(event.event_type, type);
	*qp = event.element.qp;
	ibv_ack_async_event(&event);
}

/* Whoever has it gets its events, and it is there until the last of them lets go. */
static void a_qp_is_opened_several_times(struct ct *t)
{
	struct ibv_xrcd *xrcd = open_domain(t, -1, O_CREAT), *other = open_domain(t, -1, O_CREAT);
	struct ibv_qp *qp = create_receiver(t, xrcd), *second, *seen[2];
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;
	uint32_t qpn;

	CT_TRUE(qp != NULL);
	qpn = qp->qp_num;
	CT_NULL(open_qp(t, other, qpn), EINVAL);
	CT_NULL(open_qp(t, xrcd, qpn ^ 0x800), EINVAL);
	second = open_qp(t, xrcd, qpn);
	CT_TRUE(second != NULL && second != qp);
	CT_EQ(second->qp_num, qpn);
	CT_TRUE(second->qp_context == t);
	CT_EQ(ibv_modify_qp(second, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      0);
	CT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CT_EQ(attr.qp_state, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_ERR;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	take_event(t, IBV_EVENT_QP_LAST_WQE_REACHED, &seen[0]);
	take_event(t, IBV_EVENT_QP_LAST_WQE_REACHED, &seen[1]);
	CT_TRUE((seen[0] == qp && seen[1] == second) || (seen[0] == second && seen[1] == qp));
	CT_EQ(ibv_destroy_qp(qp), 0);
	CT_ERROR(ibv_close_xrcd(xrcd), EBUSY);
	CT_EQ(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0);
	CT_EQ(attr.qp_state, IBV_QPS_ERR);
	CT_EQ(ibv_destroy_qp(second), 0);
	CT_NULL(open_qp(t, xrcd, qpn), EINVAL);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
	CT_EQ(ibv_close_xrcd(other), 0);
}

struct destroyer {
	struct ibv_qp *qp;
	_Atomic pid_t thread_id;
};

static void *destroy_other(void *arg)
{
	struct destroyer *destroyer = arg;

	destroyer->thread_id = gettid();
	return (void *)(intptr_t)ibv_destroy_qp(destroyer->qp);
}

/* The second handle waits for the ack of its event while the creator lets go: which of them is the
 * last one is decided when it is through. */
static void handles_end_at_the_same_time(struct ct *t)
{
	struct ibv_xrcd *xrcd = open_domain(t, -1, O_CREAT);
	struct ibv_qp *qp = create_receiver(t, xrcd);
	struct destroyer second = { 0 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_async_event event[2];
	pthread_t thread;
	void *result;
	uint32_t qpn;

	CT_TRUE(qp != NULL);
	qpn = qp->qp_num;
	second.qp = open_qp(t, xrcd, qpn);
	CT_TRUE(second.qp != NULL);
	CT_EQ(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      0);
	attr.qp_state = IBV_QPS_ERR;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	for (int i = 0; i < 2; i++) {
		CT_EQ(ibv_get_async_event(ct_context(t->near), &event[i]), 0);
		if (event[i].element.qp == qp)
			ibv_ack_async_event(&event[i]);
		else
			event[0] = event[i];
	}
	CT_EQ(pthread_create(&thread, NULL, destroy_other, &second), 0);
	thread_await_sleep(&second.thread_id);
	CT_EQ(ibv_destroy_qp(qp), 0);
	ibv_ack_async_event(&event[0]);
	CT_EQ(pthread_join(thread, &result), 0);
	CT_EQ((intptr_t)result, 0);
	CT_NULL(open_qp(t, xrcd, qpn), EINVAL);
	CT_EQ(ibv_close_xrcd(xrcd), 0);
}

/* ---- fork ------------------------------------------------------------------------------------ */

struct family {
	struct ct *t;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *second;
	int fd; /* of the domain */
};

/* What is inherited answers EINVAL, and only the child's copy of it can be destroyed. */
static int let_go_in_child(const struct family *f)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;

	if (ibv_modify_qp(f->second, &attr, IBV_QP_STATE) != EINVAL ||
	    ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init) != EINVAL)
		return 1;
	if (create_receiver(f->t, f->xrcd) || errno != EINVAL ||
	    open_qp(f->t, f->xrcd, f->qp->qp_num) || errno != EINVAL)
		return 2;
	if (ibv_destroy_qp(f->qp) || ibv_destroy_qp(f->second) || ibv_destroy_srq(f->srq))
		return 3;
	return ibv_close_xrcd(f->xrcd) ? 4 : 0;
}

/*
 * The domain is there, its parent has it; the QP of the parent can be opened as another process's.
 */
static int begin_anew_in_child(const struct family *f, uint32_t qpn)
{
	struct ibv_xrcd *xrcd = open_domain(f->t, f->fd, 0);
	struct ibv_qp *own = xrcd ? create_receiver(f->t, xrcd) : NULL;
	struct ibv_qp *parents = own ? open_qp(f->t, xrcd, qpn) : NULL;

	if (!parents)
		return !xrcd ? 5 : !own ? 6 : 7;
	if (parents->state != IBV_QPS_RESET)
		return 8;
	return ibv_destroy_qp(parents) || ibv_destroy_qp(own) || ibv_close_xrcd(xrcd) ? 9 : 0;
}

static int in_child(const struct family *f)
{
	uint32_t qpn = f->qp->qp_num;
	int err = let_go_in_child(f);

	return err ? err : begin_anew_in_child(f, qpn);
}

static void a_child_has_nothing_of_its_parent(struct ct *t)
{
	char path[] = "/tmp/verbena-ct-xrcd-XXXXXX";
	struct family f = { .t = t, .fd = mkstemp(path) };
	int status = -1;
	pid_t pid;

	CT_TRUE(f.fd >= 0);
	unlink(path);
	f.xrcd = open_domain(t, f.fd, O_CREAT);
	CT_TRUE(f.xrcd != NULL);
	f.srq = create_srq(t, f.xrcd, ct_object(t->near, t->near->rcq));
	f.qp = create_receiver(t, f.xrcd);
	CT_TRUE(f.srq && f.qp);
	f.second = open_qp(t, f.xrcd, f.qp->qp_num);
	CT_TRUE(f.second != NULL);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		alarm(CT_DEADLINE_MS / 1000);
		_exit(in_child(&f));
	}
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	CT_ERROR(ibv_close_xrcd(f.xrcd), EBUSY);
	CT_EQ(ibv_destroy_qp(f.qp), 0);
	CT_EQ(ibv_destroy_qp(f.second), 0);
	CT_EQ(ibv_destroy_srq(f.srq), 0);
	CT_EQ(ibv_close_xrcd(f.xrcd), 0);
	CT_NULL(open_domain(t, f.fd, 0), EAGAIN);
	close(f.fd);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct ct_opts xrc(const struct ct *t)
{
	struct ct_opts o = ct_defaults(t);

	o.type = IBV_QPT_XRC_SEND;
	return o;
}

static void post(struct ct_end *e, int srq, uint64_t wr_id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = ct_sge(e, offset, length);
	struct ibv_recv_wr recv = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CT_EQ(ct_post_srq_recv(e, srq, &recv, &bad), 0);
}

static void send_to(struct ct_link *l, uint32_t srqn, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, length);
	struct ibv_send_wr wr = ct_wr(l, IBV_WR_SEND, wr_id, &sge, 1);

	wr.qp_type.xrc.remote_srqn = srqn;
	ct_post(&l->a, &wr);
}

/* One connection, many queues: each message goes where it says, and completes there. */
static void each_message_names_its_srq(struct ct *t)
{
	enum { SRQS = 3, ROUNDS = 12 };
	struct ct_opts o = xrc(t);
	struct ct_link l;
	int xrcd, srq[SRQS], cq[SRQS];
	uint32_t srqn[SRQS];
	struct ct_qp qp;

	ct_link_create(t, &l, &o);
	xrcd = ct_open_xrcd(t->far, NULL, O_CREAT);
	CT_TRUE(ct_create_xrc_recv(t->far, xrcd, &qp) > 0);
	qp.access = l.b.access;
	l.b = qp; /* of a domain that we know, in the place of the link's own */
	for (int i = 0; i < SRQS; i++) {
		cq[i] = ct_create_cq(t->far, 64, 0);
		srq[i] = ct_create_xrc_srq(t->far, xrcd, t->far->pd, cq[i], 16, 1, &srqn[i]);
		CT_TRUE(srq[i] > 0);
	}
	ct_link_connect(&l);
	for (int i = 0; i < ROUNDS; i++) {
		int n = i * 7 % SRQS;
		uint32_t length = i % 2 ? 3000 + i : 8 + i;
		struct ibv_wc wc;

		post(t->far, srq[n], i, 65536 + i * 4096, 4096);
		ct_fill(t->near, 0, length, i);
		send_to(&l, srqn[n], i, length);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		wc = ct_expect(t->far, cq[n], i, IBV_WC_SUCCESS);
		CT_EQ(wc.qp_num, l.b.qpn);
		CT_EQ(wc.src_qp, l.a.qpn);
		CT_EQ(wc.byte_len, length);
		ct_same(t->far, 65536 + i * 4096, length, i);
		for (int k = 0; k < SRQS; k++)
			ct_none(t->far, cq[k]);
	}
}

/* The QP that brought the message fails, and says why; what it was about does not. */
static void refused(struct ct *t, struct ct_link *l, enum ibv_wc_status status)
{
	enum ibv_event_type type;
	bool last = false, request = false;
	int handle;

	ct_sent(l, 1, status);
	ct_wait_state(&l->a, IBV_QPS_ERR);
	ct_wait_state(&l->b, IBV_QPS_ERR);
	while (!last || !request) { /* in either order */
		CT_TRUE(ct_get_async_event(t->far, CT_DEADLINE_MS, &type, &handle));
		CT_EQ(handle, l->b.handle);
		last |= type == IBV_EVENT_QP_LAST_WQE_REACHED;
		request |= type != IBV_EVENT_QP_LAST_WQE_REACHED && type != IBV_EVENT_COMM_EST;
	}
}

static void an_unknown_srq_is_refused(struct ct *t)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ct_opts o = xrc(t);

	for (int i = 0; i < CT_COUNT(ops); i++) {
		struct ibv_sge sge = ct_sge(t->near, 0, 8);
		struct ibv_send_wr wr;
		struct ct_link l;

		ct_link_open(t, &l, &o);
		wr = ct_wr(&l, ops[i], 1, &sge, 1);
		wr.qp_type.xrc.remote_srqn = l.b.srqn ^ 0x7ff;
		ct_post(&l.a, &wr);
		refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
	}
}

static void an_srq_of_another_domain_is_refused(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l, other;

	ct_link_open(t, &l, &o);
	ct_link_open(t, &other, &o);
	ct_recv(&other.b, 7, 65536, 64);
	send_to(&l, other.b.srqn, 1, 8);
	refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
	ct_none(t->far, other.b.rcq);
	ct_send(&other, 2, 0, 8); /* it is still there, for its own */
	ct_sent(&other, 2, IBV_WC_SUCCESS);
	ct_got(&other, 7, IBV_WC_SUCCESS);
}

static void a_destroyed_srq_is_refused(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 5, 65536, 64);
	ct_send(&l, 4, 0, 8);
	ct_sent(&l, 4, IBV_WC_SUCCESS);
	ct_got(&l, 5, IBV_WC_SUCCESS);
	CT_EQ(ct_destroy(t->far, l.b.srq), 0);
	ct_send(&l, 1, 0, 8);
	refused(t, &l, IBV_WC_REM_INV_REQ_ERR);
}

/* Keys are those of the SRQ's PD: the QP has none. */
static void keys_belong_to_the_pd_of_the_srq(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_mr mr;
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ibv_send_wr wr;
	struct ct_link l;
	int pd = ct_alloc_pd(t->far);

	CT_TRUE(ct_reg_mr(t->far, pd, 0, 4096, CT_ACCESS_ALL, &mr) > 0);
	ct_link_open(t, &l, &o);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, mr.addr, mr.rkey);
	ct_post(&l.a, &wr);
	refused(t, &l, IBV_WC_REM_ACCESS_ERR);
}

static void a_receive_that_is_too_short(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 3, 65536, 16);
	ct_recv(&l.b, 4, 65536, 16);
	ct_send(&l, 1, 0, 5000);
	ct_sent(&l, 1, IBV_WC_REM_INV_REQ_ERR);
	ct_got(&l, 3, IBV_WC_LOC_LEN_ERR);
	ct_wait_state(&l.b, IBV_QPS_ERR);
	ct_none(t->far, l.b.rcq); /* the other receive is for other QPs */
}

static void no_receive_is_rnr(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;

	o.rnr_retry = 1;
	ct_link_open(t, &l, &o);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CT_TRUE(ct_qp_state(&l.b) == IBV_QPS_RTS);
}

static void xrc_and_rc_do_not_mix(struct ct *t)
{
	struct ct_opts o = xrc(t), rc = ct_defaults(t);
	struct ct_link l, plain;

	o.retry_cnt = 0;
	o.timeout = 10;
	rc.type = IBV_QPT_RC;
	ct_link_create(t, &l, &o);
	ct_link_create(t, &plain, &rc);
	plain.b.srqn = l.b.srqn;
	l.b = plain.b;
	ct_link_connect(&l);
	ct_send(&l, 1, 0, 8);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
}

static void an_srq_limit_fires(struct ct *t)
{
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ct_opts o = xrc(t);
	struct ct_link l;

	ct_link_open(t, &l, &o);
	for (int i = 0; i < 3; i++)
		ct_recv(&l.b, i, 65536 + i * 64, 64);
	CT_EQ(ct_modify_srq(t->far, l.b.srq, &attr, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 2; i++) {
		ct_send(&l, i, 0, 8);
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
	}
	ct_event(t->far, IBV_EVENT_SRQ_LIMIT_REACHED, l.b.srq);
}

/* A CQ with a channel wakes for an XRC SRQ as for any queue. */
static void an_armed_cq_wakes(struct ct *t)
{
	struct ct_opts o = xrc(t);
	struct ct_link l;
	int channel = ct_create_channel(t->far);

	o.rcq_b = ct_create_cq(t->far, 64, channel);
	ct_link_open(t, &l, &o);
	ct_recv(&l.b, 3, 65536, 64);
	CT_EQ(ct_req_notify_cq(t->far, o.rcq_b, false), 0);
	ct_send(&l, 1, 0, 8);
	CT_EQ(ct_get_cq_event(t->far, channel, CT_DEADLINE_MS), o.rcq_b);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
}

const struct ct_case ct_xrc_cases[] = {
	{ "an XRC domain of a file is made once and ends with the last who has it",
	  domains_are_checked, CT_SOLO },
	{ "an XRC domain in use is EBUSY, and the CQ of its SRQ", a_domain_in_use_is_busy,
	  CT_SOLO },
	{ "XRC SRQs have numbers of their own", srqs_have_numbers, CT_SOLO },
	{ "an XRC QP sends or receives, and has no receives of its own", qps_do_one_thing_only,
	  CT_SOLO },
	{ "an XRC_RECV QP is opened several times, and lives as long as any handle",
	  a_qp_is_opened_several_times, CT_SOLO },
	{ "two handles of an XRC_RECV QP end at the same time", handles_end_at_the_same_time,
	  CT_SOLO },
	{ "a forked child has none of its parent's XRC objects, and may begin anew",
	  a_child_has_nothing_of_its_parent, CT_SOLO },
	{ "each XRC message reaches the SRQ that it names", each_message_names_its_srq,
	  CT_RC | CT_IB },
	{ "an unknown XRC SRQ is REM_INV_REQ_ERR", an_unknown_srq_is_refused, CT_RC },
	{ "an SRQ of another XRC domain is REM_INV_REQ_ERR", an_srq_of_another_domain_is_refused,
	  CT_RC },
	{ "a destroyed XRC SRQ is REM_INV_REQ_ERR", a_destroyed_srq_is_refused, CT_RC },
	{ "keys of XRC belong to the PD of the SRQ", keys_belong_to_the_pd_of_the_srq, CT_RC },
	{ "an XRC message longer than its receive: REM_INV_REQ_ERR here, LOC_LEN_ERR there",
	  a_receive_that_is_too_short, CT_RC },
	{ "no receive in an XRC SRQ: RNR_RETRY_EXC_ERR", no_receive_is_rnr, CT_RC },
	{ "an XRC QP and an RC QP do not talk", xrc_and_rc_do_not_mix, CT_RC },
	{ "the limit of an XRC SRQ fires", an_srq_limit_fires, CT_RC },
	{ "an armed CQ wakes for an XRC SRQ", an_armed_cq_wakes, CT_RC },
	{ 0 },
};
