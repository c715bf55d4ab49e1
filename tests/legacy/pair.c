/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ibv_context *open_device(void)
{
	const char *name = getenv("VERBENA_TEST_DEVICE");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	assert_non_null(list);
	for (int i = 0; list[i] && !context; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	assert_non_null(context);
	ibv_free_device_list(list);
	return context;
}

struct ibv_ah_attr pair_address(const struct pair *pair)
{
	struct ibv_ah_attr attr = { .dlid = pair->port.lid, .port_num = 1 };

	if (pair->gid_index >= 0) {
		attr.is_global = 1;
		attr.grh.hop_limit = 64;
		attr.grh.sgid_index = (uint8_t)pair->gid_index;
		assert_int_equal(ibv_query_gid(pair->context, 1, pair->gid_index, &attr.grh.dgid),
				 0);
	}
	return attr;
}

static void connect_to(struct pair *pair, struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = dest_qpn,
				   .max_dest_rd_atomic = 16,
				   .min_rnr_timer = 12,
				   .ah_attr = pair_address(pair) };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 16 };

	assert_int_equal(
		ibv_modify_qp(qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_modify_qp(qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(ibv_modify_qp(qp, &rts,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static struct ibv_qp *create_qp(struct pair *pair, int sq_sig_all, uint32_t max_send_wr)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = pair->cq,
		.recv_cq = pair->cq,
		.cap = { .max_send_wr = max_send_wr,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = sq_sig_all,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = pair->pd,
		.max_atomic_arg = 8,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(pair->context, &attr);

	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= max_send_wr);
	return qp;
}

void pair_open(struct pair *pair, int sq_sig_all, uint32_t max_send_wr)
{
	memset(pair, 0, sizeof(*pair));
	pair->context = open_device();
	assert_int_equal(ibv_query_port(pair->context, 1, &pair->port), 0);
	pair->gid_index = pair->port.link_layer == IBV_LINK_LAYER_ETHERNET ? 1 : -1;
	pair->pd = ibv_alloc_pd(pair->context);
	assert_non_null(pair->pd);
	pair->cq = ibv_create_cq(pair->context, 256, NULL, NULL, 0);
	assert_non_null(pair->cq);
	pair->mr = ibv_reg_mr(pair->pd, pair->words, sizeof(pair->words),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(pair->mr);
	for (int i = 0; i < 2; i++)
		pair->qp[i] = create_qp(pair, sq_sig_all, max_send_wr);
	connect_to(pair, pair->qp[0], pair->qp[1]->qp_num);
	connect_to(pair, pair->qp[1], pair->qp[0]->qp_num);
}

void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
	assert_int_equal(ibv_dereg_mr(pair->mr), 0);
	assert_int_equal(ibv_destroy_cq(pair->cq), 0);
	assert_int_equal(ibv_dealloc_pd(pair->pd), 0); /* EBUSY if anything was left behind */
	assert_int_equal(ibv_close_device(pair->context), 0);
}

int pair_poll(struct pair *pair, struct ibv_wc *wc)
{
	int count = ibv_poll_cq(pair->cq, 1, wc);

	assert_true(count >= 0);
	return count;
}

struct ibv_wc pair_wait(struct pair *pair)
{
	struct ibv_wc wc;

	while (!pair_poll(pair, &wc))
		;
	return wc;
}
