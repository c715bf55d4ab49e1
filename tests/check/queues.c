/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues, events, and threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

static void use_cq(struct rig *rig, int cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(rig->context, cqe, NULL, channel, 0), *old = rig->cq;
	const struct wish wish = WISH;

	MUST(cq);
	rig_renew(rig, cq, &wish);
	rig->cq = cq;
	MUST(!ibv_destroy_cq(old));
}

/* --- cq-overrun --- */

static void wrong_cq_overrun(struct rig *rig)
{
	use_cq(rig, 4, NULL);
	for (uint64_t i = 0; i < 6; i++)
		post_recv(rig, i, rig->in + 64 * i, 64); /* <- */
}

static void right_cq_overrun(struct rig *rig)
{
	use_cq(rig, 6, NULL);
	for (uint64_t i = 0; i < 6; i++)
		post_recv(rig, i, rig->in + 64 * i, 64);
}

/* --- unsignaled --- */

static void wrong_unsignaled(struct rig *rig)
{
	for (uint64_t i = 0; i < DEPTH; i++)
		post_recv(rig, i, rig->in + 64 * i, 64);
	while (!post_send(rig, 100, 64, 0)) /* <- */
		;
}

static void right_unsignaled(struct rig *rig)
{
	for (uint64_t i = 0; i < DEPTH; i++)
		post_recv(rig, i, rig->in + 64 * i, 64);
	for (uint64_t i = 1; i < DEPTH; i++)
		MUST(!post_send(rig, i, 64, 0));
	MUST(!post_send(rig, DEPTH, 64, IBV_SEND_SIGNALED));
	MUST(post_send(rig, 100, 64, 0) == ENOMEM);
	rig_wait_for(rig->cq, DEPTH + 1);
}

/* --- unpolled --- */

static void wrong_unpolled(struct rig *rig)
{
	MUST(!ibv_destroy_qp(rig->a) && !ibv_destroy_qp(rig->b) && !ibv_destroy_cq(rig->cq));
	rig->cq = ibv_create_cq(rig->context, 64, NULL, NULL, 0); /* <- */
	rig->a = rig_qp(rig, rig->cq, &WISH);
	rig->b = rig_qp(rig, rig->cq, &WISH);
	rig_connect(rig, rig->a, rig->b, &WISH);
	rig_connect(rig, rig->b, rig->a, &WISH);
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
}

static void right_unpolled(struct rig *rig)
{
	use_cq(rig, 64, NULL);
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

/* --- unacked --- */

static void one_event(struct rig *rig, struct ibv_comp_channel *channel)
{
	use_cq(rig, 64, channel);
	ibv_req_notify_cq(rig->cq, 0);
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
}

static void finish(struct rig *rig, struct ibv_comp_channel *channel)
{
	rig_wait_for(rig->cq, 2);
	MUST(!ibv_destroy_qp(rig->a) && !ibv_destroy_qp(rig->b));
	MUST(!ibv_destroy_cq(rig->cq));
	rig->a = rig->b = NULL;
	rig->cq = NULL;
	MUST(!ibv_destroy_comp_channel(channel));
}

static void wrong_unacked(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct ibv_cq *cq;
	void *context;

	one_event(rig, channel);
	ibv_get_cq_event(channel, &cq, &context); /* <- */
	finish(rig, channel);
}

static void right_unacked(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct ibv_cq *cq;
	void *context;

	one_event(rig, channel);
	ibv_get_cq_event(channel, &cq, &context);
	ibv_ack_cq_events(cq, 1);
	finish(rig, channel);
}

/* --- rnr --- */

static void wrong_rnr(struct rig *rig)
{
	post_send(rig, 2, 64, IBV_SEND_SIGNALED); /* <- */
	usleep(20000);
	post_recv(rig, 1, rig->in, 64);
	rig_wait_for(rig->cq, 2);
}

static void right_rnr(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

/* --- threads --- */

static struct ibv_cq_ex *one_thread_cq(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rig->context, &attr);

	MUST(cq);
	return cq;
}

static void *poll_for_a_moment(void *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 500000; i++)
		ibv_poll_cq(cq, 1, &wc); /* <- */
	return NULL;
}

static void wrong_threads(struct rig *rig)
{
	struct ibv_cq_ex *cq = one_thread_cq(rig);
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, poll_for_a_moment, cq));
	poll_for_a_moment(cq);
	pthread_join(thread, NULL);
	MUST(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

/* Any thread may use it, one after the other. An ordinary CQ is for all threads at once. */
static void right_threads(struct rig *rig)
{
	struct ibv_cq_ex *cq = one_thread_cq(rig);
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, poll_for_a_moment, rig->cq));
	poll_for_a_moment(rig->cq);
	pthread_join(thread, NULL);
	MUST(!pthread_create(&thread, NULL, poll_for_a_moment, cq));
	pthread_join(thread, NULL);
	poll_for_a_moment(cq);
	MUST(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static atomic_bool waiting;

static void *wait_for_event(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	atomic_store(&waiting, true);
	ibv_get_cq_event(channel, &cq, &context);
	return NULL;
}

/* A thread that waits for an event, soon. */
static pthread_t begin_waiting(struct ibv_comp_channel *channel)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, wait_for_event, channel));
	while (!atomic_load(&waiting))
		;
	usleep(100000);
	return thread;
}

static void end_waiting(pthread_t thread)
{
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void wrong_threads_destroy(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	pthread_t thread = begin_waiting(channel);

	ibv_destroy_comp_channel(channel); /* <- */
	end_waiting(thread);
}

static void right_threads_destroy(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	pthread_t thread = begin_waiting(channel);

	end_waiting(thread);
	ibv_destroy_comp_channel(channel);
}

const struct pair queue_pairs[] = {
	{ PAIR("cq-overrun", cq_overrun) },
	{ PAIR("unsignaled", unsignaled) },
	{ PAIR("unpolled", unpolled) },
	{ PAIR("unacked", unacked) },
	{ PAIR("rnr", rnr) },
	{ PAIR("threads", threads) },
	{ PAIR("threads/destroy", threads_destroy) },
	{ 0 },
};
