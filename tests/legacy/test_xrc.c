/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first XRC calls, written as a program of their time would be.
 *
 *   test-legacy-xrc [traffic]
 *
 * With traffic: what needs a device with XRC; skipped (77) without. Otherwise the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <verbena/legacy.h>

#include <cmocka.h>

#include "pair.h"

static struct ibv_xrc_domain *open_domain(struct pair *pair)
{
	struct ibv_xrc_domain *domain = ibv_open_xrc_domain(pair->context, -1, O_CREAT);

	assert_non_null(domain);
	assert_ptr_equal(domain->context, pair->context);
	return domain;
}

static struct ibv_srq *create_srq(struct pair *pair, struct ibv_xrc_domain *domain)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_xrc_srq(pair->pd, domain, pair->cq, &attr);
	uint32_t number;

	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	assert_int_equal(srq->xrc_srq_num, number);
	return srq;
}

static struct ibv_qp *create_sender(struct pair *pair, struct ibv_xrc_domain *domain)
{
	struct ibv_qp_init_attr attr = { 0 };
	struct ibv_qp *qp;

	attr.send_cq = pair->cq;
	attr.recv_cq = pair->cq;
	attr.qp_type = IBV_QPT_XRC;
	attr.cap.max_send_wr = 4;
	attr.cap.max_send_sge = 1;
	attr.xrc_domain = domain;
	qp = ibv_create_qp(pair->pd, &attr);
	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= 4);
	return qp;
}

static uint32_t create_receiver(struct ibv_xrc_domain *domain)
{
	struct ibv_qp_init_attr attr = { 0 };
	uint32_t qpn = 0;

	attr.xrc_domain = domain;
	assert_int_equal(ibv_create_xrc_rcv_qp(&attr, &qpn), 0);
	assert_int_not_equal(qpn, 0);
	return qpn;
}

static const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
static const int rtr_mask =
	IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

static struct ibv_qp_attr rtr_attr(struct pair *pair, uint32_t dest_qpn)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = dest_qpn,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = pair_address(pair) };
}

static void connect_both(struct pair *pair, struct ibv_xrc_domain *domain, struct ibv_qp *sender,
			 uint32_t receiver)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	struct ibv_qp_attr rtr = rtr_attr(pair, sender->qp_num);

	assert_int_equal(ibv_modify_xrc_rcv_qp(domain, receiver, &init, init_mask), 0);
	assert_int_equal(
		ibv_modify_xrc_rcv_qp(domain, receiver, &rtr,
				      rtr_mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		0);
	rtr = rtr_attr(pair, receiver);
	assert_int_equal(ibv_modify_qp(sender, &init, init_mask), 0);
	assert_int_equal(ibv_modify_qp(sender, &rtr, rtr_mask), 0);
	assert_int_equal(ibv_modify_qp(sender, &rts,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void send_to(struct pair *pair, struct ibv_qp *sender, struct ibv_srq *srq)
{
	struct ibv_sge from = { (uintptr_t)pair->words, 8, pair->mr->lkey };
	struct ibv_sge to = { (uintptr_t)&pair->words[8], 8, pair->mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr wr = { .wr_id = 2,
				  .sg_list = &from,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	unsigned seen = 0;

	pair->words[0] = 4711;
	assert_int_equal(ibv_post_srq_recv(srq, &receive, &bad_receive), 0);
	wr.xrc_remote_srq_num = srq->xrc_srq_num;
	assert_int_equal(ibv_post_send(sender, &wr, &bad), 0);
	while (seen != 3) {
		struct ibv_wc wc = pair_wait(pair);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		seen |= (unsigned)wc.wr_id;
	}
	assert_int_equal(pair->words[8], 4711);
}

static void a_message_reaches_the_srq_that_it_names(void **state)
{
	struct pair pair;
	struct ibv_xrc_domain *domain;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq;
	struct ibv_qp *sender;
	uint32_t receiver;

	pair_open(&pair, 0, 4);
	domain = open_domain(&pair);
	srq = create_srq(&pair, domain);
	sender = create_sender(&pair, domain);
	receiver = create_receiver(domain);
	connect_both(&pair, domain, sender, receiver);
	assert_int_equal(ibv_query_xrc_rcv_qp(domain, receiver, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_ptr_equal(init.xrc_domain, domain);
	send_to(&pair, sender, srq);
	assert_int_equal(ibv_reg_xrc_rcv_qp(domain, receiver), 0); /* again: nothing new */
	assert_int_equal(ibv_close_xrc_domain(domain), EBUSY);
	assert_int_equal(ibv_destroy_qp(sender), 0);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(domain, receiver), 0);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(domain, receiver), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrc_domain(domain), 0);
	pair_close(&pair);
}

static void a_number_that_names_no_qp_is_refused(void **state)
{
	struct pair pair;
	struct ibv_xrc_domain *domain;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	pair_open(&pair, 0, 4);
	domain = open_domain(&pair);
	assert_int_not_equal(ibv_modify_xrc_rcv_qp(domain, 0xabcdef, &attr, IBV_QP_STATE), 0);
	assert_int_not_equal(ibv_reg_xrc_rcv_qp(domain, 0xabcdef), 0);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(domain, 0xabcdef), EINVAL);
	assert_int_equal(ibv_close_xrc_domain(domain), 0);
	pair_close(&pair);
}

/* The member is there, and what is not XRC works as ever. */
static void an_ordinary_qp_through_the_old_struct(void **state)
{
	struct pair pair;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.xrc_domain = NULL,
		.cap = { .max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr qp_attr;
	struct ibv_qp *qp;

	pair_open(&pair, 0, 4);
	attr.send_cq = attr.recv_cq = pair.cq;
	qp = ibv_create_qp(pair.pd, &attr);
	assert_non_null(qp);
	assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_CAP, &queried), 0);
	assert_int_equal(queried.cap.max_recv_wr, attr.cap.max_recv_wr);
	assert_ptr_equal(queried.send_cq, pair.cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	pair_close(&pair);
}

static bool has_xrc(struct pair *pair)
{
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(pair->context, &attr), 0);
	return attr.device_cap_flags & IBV_DEVICE_XRC;
}

static void a_device_without_xrc_says_so(void **state)
{
	struct pair pair;
	struct ibv_xrc_domain *domain;

	pair_open(&pair, 0, 4);
	domain = ibv_open_xrc_domain(pair.context, -1, O_CREAT);
	if (has_xrc(&pair)) {
		assert_non_null(domain);
		assert_int_equal(ibv_close_xrc_domain(domain), 0);
	} else {
		assert_null(domain);
		assert_int_equal(errno, EOPNOTSUPP);
	}
	pair_close(&pair);
}

static int run_traffic(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_reaches_the_srq_that_it_names),
		cmocka_unit_test(a_number_that_names_no_qp_is_refused),
	};
	struct pair pair;
	bool xrc;

	pair_open(&pair, 0, 4);
	xrc = has_xrc(&pair);
	pair_close(&pair);
	if (!xrc) {
		printf("SKIP: this device has no XRC\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_without_xrc_says_so),
		cmocka_unit_test(an_ordinary_qp_through_the_old_struct),
	};

	return argc > 1 ? run_traffic() : cmocka_run_group_tests(tests, NULL, NULL);
}
