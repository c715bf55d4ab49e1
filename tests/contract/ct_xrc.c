/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: domains, SRQs, QPs and their handles. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../asleep.h"
#include "ct.h"

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
	{ 0 },
};
