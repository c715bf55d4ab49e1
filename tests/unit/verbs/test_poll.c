/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A poll that let others run looks once more before it says that there is nothing. What completes
 *in between may be followed by an event, and a program that sees the event must find the
 *completion.
 *
 *	this process: QP a ── shared memory ── QP b, one CQ
 *	sched_yield, as the library calls it, sends a message from a to b
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "connect.h"

enum { POLLS_MANY = 100000, PAYLOAD = 8 };

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;
	uint8_t bytes[PAYLOAD];
};

static struct pair *yielding; /* the next yield of this thread sends */
static pthread_t poller;

static void post_pair(struct pair *p)
{
	struct ibv_sge sge = { (uintptr_t)p->bytes, PAYLOAD, p->mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad,
		send = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (ibv_post_recv(p->b, &recv, &bad_recv) || ibv_post_send(p->a, &send, &bad))
		abort();
}

/* In the place of libc's. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	struct pair *p = yielding;

	if (p && pthread_equal(poller, pthread_self())) {
		yielding = NULL;
		post_pair(p);
	}
	return (int)syscall(SYS_sched_yield);
}

static struct ibv_qp *make_qp(struct pair *p)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p->cq, .recv_cq = p->cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	return qp;
}

static void open_pair(struct pair *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };

	assert_true(list && list[0]);
	p->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(p->ctx);
	p->pd = ibv_alloc_pd(p->ctx);
	p->ex = ibv_create_cq_ex(p->ctx, &attr);
	assert_true(p->pd && p->ex);
	p->cq = ibv_cq_ex_to_cq(p->ex);
	p->mr = ibv_reg_mr(p->pd, p->bytes, PAYLOAD, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(p->mr);
	p->a = make_qp(p);
	p->b = make_qp(p);
	connect_qp(p->a, p->b->qp_num);
	connect_qp(p->b, p->a->qp_num);
}

static void close_pair(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	assert_int_equal(ibv_destroy_cq(p->cq), 0);
	assert_int_equal(ibv_dereg_mr(p->mr), 0);
	assert_int_equal(ibv_dealloc_pd(p->pd), 0);
	assert_int_equal(ibv_close_device(p->ctx), 0);
}

static bool poll_plain(struct pair *p)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(p->cq, 1, &wc);

	assert_true(got >= 0);
	return got == 1 && wc.wr_id == 2;
}

static bool poll_extended(struct pair *p)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(p->ex, &attr))
		return false;
	ibv_end_poll(p->ex);
	return p->ex->wr_id == 2;
}

/* The poll that yields is the one that finds the message. */
static void check_looks_again(bool (*poll)(struct pair *p))
{
	struct pair p = { 0 };
	bool found = false;

	open_pair(&p);
	poller = pthread_self();
	yielding = &p;
	for (int i = 0; i < POLLS_MANY && yielding; i++)
		found = poll(&p);
	assert_null(yielding);
	assert_true(found);
	close_pair(&p);
}

static void a_poll_that_yields_looks_again(void **state)
{
	check_looks_again(poll_plain);
}

static void so_does_the_start_of_a_batch(void **state)
{
	check_looks_again(poll_extended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_poll_that_yields_looks_again),
		cmocka_unit_test(so_does_the_start_of_a_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
