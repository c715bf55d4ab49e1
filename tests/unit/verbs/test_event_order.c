/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What completed before an event was raised is there for whoever sees the event.
 *
 *	this process: QP a ── the path ── QP b, one CQ with so many QPs that it has ready bits
 *	write, as the library calls it for the descriptor of events, polls the CQ: the program that
 *	sees the event could do so from now on
 */
#include <dlfcn.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "connect.h"

enum { IDLE_QPS = 20, BYTES = 64, FOUND_MAX = 8, PATIENCE_MS = 20000 };

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* of b, where the case wants one */
	struct ibv_mr *mr;
	struct ibv_qp *a, *b, *idle[IDLE_QPS];
	uint8_t bytes[BYTES];
};

/* --- the view at the moment of an event --- */

static struct {
	struct ibv_cq *cq;
	_Atomic int fd; /* -1: no event is waited for */
	struct ibv_wc found[FOUND_MAX];
	_Atomic int count; /* -1: no event yet */
} view = { .fd = -1, .count = -1 };

static void look(void)
{
	atomic_store(&view.count, ibv_poll_cq(view.cq, FOUND_MAX, view.found));
}

/*
 * In the place of libc's syscall, which has as many arguments as the call needs, and six at most.
 */
__attribute__((visibility("default"))) long any_call(long number, long a, long b, long c, long d,
						     long e, long f) __asm__("syscall");

long any_call(long number, long a, long b, long c, long d, long e, long f)
{
	static long (*_Atomic real)(long number, ...);
	int fd = (int)a;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_write && fd >= 0 && atomic_compare_exchange_strong(&view.fd, &fd, -1))
		look();
	return real(number, a, b, c, d, e, f);
}

static void view_next(struct pair *p, int fd)
{
	view.cq = p->cq;
	atomic_store(&view.count, -1);
	atomic_store(&view.fd, fd);
}

/* Until the event was raised. Nobody polls meanwhile: the service thread brings it on. */
static void view_wait(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
	assert_true(atomic_load(&view.count) >= 0);
}

static const struct ibv_wc *viewed(uint64_t wr_id)
{
	for (int i = 0; i < atomic_load(&view.count); i++)
		if (view.found[i].wr_id == wr_id)
			return &view.found[i];
	return NULL;
}

/* --- the pair --- */

static struct ibv_qp *make_qp(struct pair *p, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = p->cq,
					 .recv_cq = p->cq,
					 .srq = srq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { 8, 8, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	return qp;
}

static void open_pair(struct pair *p, bool srq)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };

	memset(p, 0, sizeof(*p));
	assert_true(list && list[0]);
	p->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(p->ctx);
	p->pd = ibv_alloc_pd(p->ctx);
	p->channel = ibv_create_comp_channel(p->ctx);
	assert_true(p->pd && p->channel);
	p->cq = ibv_create_cq(p->ctx, 512, NULL, p->channel, 0);
	p->mr = ibv_reg_mr(p->pd, p->bytes, BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_true(p->cq && p->mr);
	p->srq = srq ? ibv_create_srq(p->pd, &attr) : NULL;
	for (int i = 0; i < IDLE_QPS; i++)
		p->idle[i] = make_qp(p, NULL);
	p->a = make_qp(p, NULL);
	p->b = make_qp(p, p->srq);
	connect_qp(p->a, p->b->qp_num);
	connect_qp(p->b, p->a->qp_num);
}

static void ack_all(struct pair *p)
{
	struct pollfd ready = { .fd = p->channel->fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	while (poll(&ready, 1, 0) == 1 && !ibv_get_cq_event(p->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	ready.fd = p->ctx->async_fd;
	while (poll(&ready, 1, 0) == 1 && !ibv_get_async_event(p->ctx, &event))
		ibv_ack_async_event(&event);
}

static void close_pair(struct pair *p)
{
	ack_all(p);
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	for (int i = 0; i < IDLE_QPS; i++)
		assert_int_equal(ibv_destroy_qp(p->idle[i]), 0);
	if (p->srq)
		assert_int_equal(ibv_destroy_srq(p->srq), 0);
	ack_all(p);
	assert_int_equal(ibv_destroy_cq(p->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(p->channel), 0);
	assert_int_equal(ibv_dereg_mr(p->mr), 0);
	assert_int_equal(ibv_dealloc_pd(p->pd), 0);
	assert_int_equal(ibv_close_device(p->ctx), 0);
}

static void post_recv(struct pair *p, struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)p->bytes, BYTES, p->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	if (qp->srq)
		assert_int_equal(ibv_post_srq_recv(qp->srq, &wr, &bad), 0);
	else
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void post_send(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)p->bytes, 8, p->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = IBV_SEND_SOLICITED };

	assert_int_equal(ibv_post_send(p->a, &wr, &bad), 0);
}

static void modify(struct ibv_qp *qp, enum ibv_qp_state state, bool tell)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = tell };

	assert_int_equal(
		ibv_modify_qp(qp, &attr, IBV_QP_STATE | (tell ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)),
		0);
}

/* --- the events --- */

/* Some messages were under way, and wait for their receives. */
static void sq_drained_comes_after_the_sends(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p, false);
	post_send(&p, 1, IBV_WR_SEND);
	modify(p.a, IBV_QPS_SQD, true);
	view_next(&p, p.ctx->async_fd);
	post_recv(&p, p.b, 2);
	view_wait(p.ctx->async_fd);
	assert_non_null(viewed(1));
	assert_non_null(viewed(2));
	close_pair(&p);
}

static void last_wqe_reached_comes_after_the_receives(void **state)
{
	enum { MESSAGES = 4, SEND = 1, RECV = 2 };
	int sends = 0, receives = 0;
	struct ibv_wc wc;
	struct pair p;

	(void)state;
	open_pair(&p, true);
	for (int i = 0; i < MESSAGES; i++)
		post_recv(&p, p.b, RECV);
	for (int i = 0; i < MESSAGES; i++)
		post_send(&p, SEND, IBV_WR_SEND);
	/* What was acknowledged has completed its receive. */
	while (sends < MESSAGES) {
		if (ibv_poll_cq(p.cq, 1, &wc) != 1)
			continue;
		sends += wc.wr_id == SEND;
		receives += wc.wr_id == RECV;
	}
	view_next(&p, p.ctx->async_fd);
	modify(p.b, IBV_QPS_ERR, false);
	view_wait(p.ctx->async_fd);
	for (int i = 0; i < atomic_load(&view.count); i++)
		receives += view.found[i].wr_id == RECV;
	assert_int_equal(receives, MESSAGES);
	close_pair(&p);
}

/* One message: the event, what can be polled by then, and the rest. */
static void see_message(struct pair *p, bool solicited)
{
	struct ibv_wc wc;
	int seen;

	post_recv(p, p->b, 2);
	assert_int_equal(ibv_req_notify_cq(p->cq, solicited), 0);
	view_next(p, p->channel->fd);
	post_send(p, 1, IBV_WR_SEND);
	view_wait(p->channel->fd);
	seen = atomic_load(&view.count);
	assert_true(seen > 0);
	assert_true(!solicited || viewed(2));
	while (seen < 2)
		seen += ibv_poll_cq(p->cq, 1, &wc);
	ack_all(p);
}

static void a_completion_event_comes_after_its_completion(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p, false);
	for (int i = 0; i < 200; i++)
		see_message(&p, i % 2);
	close_pair(&p);
}

static void an_event_that_was_held_back_comes_after_its_completion(void **state)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = 8, .cq_period = 100 } };
	struct pair p;

	(void)state;
	open_pair(&p, false);
	assert_int_equal(ibv_modify_cq(p.cq, &attr), 0);
	for (int i = 0; i < 200; i++)
		see_message(&p, i % 2);
	close_pair(&p);
}

/* The failed send first, then what it flushes. */
static void a_failure_is_seen_before_what_it_flushes(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p, false);
	post_recv(&p, p.a, 3);
	assert_int_equal(ibv_req_notify_cq(p.cq, 0), 0);
	view_next(&p, p.channel->fd);
	post_send(&p, 1, IBV_WR_RDMA_WRITE); /* b grants no right to write */
	view_wait(p.channel->fd);
	assert_true(atomic_load(&view.count) > 0);
	assert_int_equal(view.found[0].wr_id, 1);
	assert_int_equal(view.found[0].status, IBV_WC_REM_INV_REQ_ERR);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sq_drained_comes_after_the_sends),
		cmocka_unit_test(last_wqe_reached_comes_after_the_receives),
		cmocka_unit_test(a_completion_event_comes_after_its_completion),
		cmocka_unit_test(an_event_that_was_held_back_comes_after_its_completion),
		cmocka_unit_test(a_failure_is_seen_before_what_it_flushes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
