/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that belong together: ibv_wr_start to ibv_wr_complete, ibv_start_poll to ibv_end_poll. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

/* --- QPs --- */

/* The QP a is an extended one, of this PD. */
static struct ibv_qp_ex *extend(struct rig *rig, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex attr = { .send_cq = rig->cq,
					    .recv_cq = rig->cq,
					    .cap = { DEPTH, DEPTH, 1, 1, 0 },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .pd = pd,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND };

	MUST(!ibv_destroy_qp(rig->a));
	rig->a = ibv_create_qp_ex(rig->context, &attr);
	MUST(rig->a && !ibv_destroy_qp(rig->b));
	rig->b = rig_qp(rig, rig->cq, &WISH);
	rig_connect(rig, rig->a, rig->b, &WISH);
	rig_connect(rig, rig->b, rig->a, &WISH);
	return ibv_qp_to_qp_ex(rig->a);
}

static void build_send(struct rig *rig, struct ibv_qp_ex *ex, uint64_t wr_id)
{
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->out, 64);
}

static void use_extended(struct rig *rig, bool wrong)
{
	struct ibv_qp_ex *ex = extend(rig, rig->pd);

	post_recv(rig, 1, rig->in, 64);
	ibv_wr_start(ex);
	build_send(rig, ex, 2);
	MUST(!ibv_wr_complete(ex)); /* <- */
	if (wrong)
		strcpy(rig->out, "next message");
	rig_wait_for(rig->cq, 2);
}

static void wrong_extended(struct rig *rig)
{
	use_extended(rig, true);
}

static void right_extended(struct rig *rig)
{
	use_extended(rig, false);
}

static void wrong_section(struct rig *rig)
{
	struct ibv_qp_ex *ex = extend(rig, rig->pd);

	post_recv(rig, 1, rig->in, 64);
	ibv_wr_start(ex);
	build_send(rig, ex, 2);
	post_send(rig, 3, 64, IBV_SEND_SIGNALED); /* <- */
	MUST(!ibv_wr_complete(ex));
	rig_wait_for(rig->cq, 2);
}

static void right_section(struct rig *rig)
{
	struct ibv_qp_ex *ex = extend(rig, rig->pd);

	post_recv(rig, 1, rig->in, 64);
	post_recv(rig, 2, rig->in + 64, 64);
	ibv_wr_start(ex);
	build_send(rig, ex, 3);
	MUST(!ibv_wr_complete(ex));
	post_send(rig, 4, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 4);
}

static void wrong_section_twice(struct rig *rig)
{
	struct ibv_qp_ex *ex = extend(rig, rig->pd);

	post_recv(rig, 1, rig->in, 64);
	ibv_wr_start(ex);
	build_send(rig, ex, 2);
	MUST(!ibv_wr_complete(ex));
	ibv_wr_abort(ex); /* <- */
	rig_wait_for(rig->cq, 2);
}

static void right_section_twice(struct rig *rig)
{
	struct ibv_qp_ex *ex = extend(rig, rig->pd);

	ibv_wr_start(ex);
	build_send(rig, ex, 2);
	ibv_wr_abort(ex);
}

/* --- two threads and one QP --- */

static atomic_bool begun;
static struct rig *of_threads;

static void *send_slowly(void *ex)
{
	ibv_wr_start(ex); /* <- */
	atomic_store(&begun, true);
	usleep(50000);
	build_send(of_threads, ex, 2);
	MUST(!ibv_wr_complete(ex));
	return NULL;
}

static void send_from_two_threads(struct rig *rig, struct ibv_qp_ex *ex)
{
	pthread_t thread;

	of_threads = rig;
	post_recv(rig, 1, rig->in, 64);
	post_recv(rig, 1, rig->in + 64, 64);
	MUST(!pthread_create(&thread, NULL, send_slowly, ex));
	while (!atomic_load(&begun))
		;
	send_slowly(ex);
	pthread_join(thread, NULL);
	rig_wait_for(rig->cq, 4);
}

/* A thread domain: the library has no lock. */
static void wrong_threads_wr(struct rig *rig)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = { .pd = rig->pd };
	struct ibv_pd *pd;

	attr.td = ibv_alloc_td(rig->context, &td_attr);
	pd = ibv_alloc_parent_domain(rig->context, &attr);
	MUST(attr.td && pd);
	send_from_two_threads(rig, extend(rig, pd));
	MUST(!ibv_destroy_qp(rig->a));
	rig->a = NULL;
	MUST(!ibv_dealloc_pd(pd) && !ibv_dealloc_td(attr.td));
}

/* Without it the second thread waits for the first. */
static void right_threads_wr(struct rig *rig)
{
	send_from_two_threads(rig, extend(rig, rig->pd));
}

/* --- CQs --- */

static struct ibv_cq_ex *extended_cq(struct rig *rig, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = flags };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rig->context, &attr);

	MUST(cq);
	rig_renew(rig, ibv_cq_ex_to_cq(cq), &WISH);
	MUST(!ibv_destroy_cq(rig->cq));
	rig->cq = ibv_cq_ex_to_cq(cq);
	return cq;
}

static void send_one(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
}

static void start(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(cq, &attr))
		;
}

static void wrong_section_poll(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);
	struct ibv_wc wc;

	send_one(rig);
	start(cq);
	ibv_poll_cq(rig->cq, 1, &wc); /* <- */
	ibv_end_poll(cq);
	rig_wait_for(rig->cq, 1);
}

static void right_section_poll(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);

	send_one(rig);
	start(cq);
	ibv_end_poll(cq);
	rig_wait_for(rig->cq, 1);
}

static void wrong_section_open(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);

	send_one(rig);
	start(cq);
	start(cq); /* <- */
	ibv_end_poll(cq);
}

static void right_section_open(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);

	send_one(rig);
	start(cq);
	while (ibv_next_poll(cq))
		;
	ibv_end_poll(cq);
}

static void wrong_section_end(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);
	struct ibv_poll_cq_attr attr = { 0 };

	MUST(ibv_start_poll(cq, &attr) == ENOENT);
	ibv_end_poll(cq); /* <- */
}

static void right_section_end(struct rig *rig)
{
	struct ibv_cq_ex *cq = extended_cq(rig, 0);
	struct ibv_poll_cq_attr attr = { 0 };

	MUST(ibv_start_poll(cq, &attr) == ENOENT);
	send_one(rig);
	start(cq);
	MUST(cq->status == IBV_WC_SUCCESS);
	ibv_end_poll(cq);
	rig_wait_for(rig->cq, 1);
}

/* --- two threads and one CQ --- */

static void *poll_slowly(void *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(cq, &attr)) /* <- */
		;
	atomic_store(&begun, true);
	usleep(50000);
	ibv_end_poll(cq);
	return NULL;
}

static void poll_from_two_threads(struct rig *rig, uint32_t flags)
{
	struct ibv_cq_ex *cq = extended_cq(rig, flags);
	pthread_t thread;

	send_one(rig);
	MUST(!pthread_create(&thread, NULL, poll_slowly, cq));
	while (!atomic_load(&begun))
		;
	poll_slowly(cq);
	pthread_join(thread, NULL);
}

static void wrong_threads_poll(struct rig *rig)
{
	poll_from_two_threads(rig, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
}

/* The second thread waits for the first. */
static void right_threads_poll(struct rig *rig)
{
	poll_from_two_threads(rig, 0);
}

const struct pair section_pairs[] = {
	{ PAIR("send-changed/ibv_wr", extended) },
	{ PAIR("section", section) },
	{ PAIR("section/twice", section_twice) },
	{ PAIR("section/poll", section_poll) },
	{ PAIR("section/open", section_open) },
	{ PAIR("section/end", section_end) },
	{ PAIR("threads/ibv_wr", threads_wr) },
	{ PAIR("threads/start_poll", threads_poll) },
	{ 0 },
};
