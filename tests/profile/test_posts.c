/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests and transitions of RC QPs under a profile. A device without them has none. */
#include "rig.h"

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge *sges, int count)
{
	struct ibv_send_wr *bad,
		wr = { .opcode = opcode, .sg_list = sges, .num_sge = count, .wr.rdma.rkey = 1 };

	return ibv_post_send(qp, &wr, &bad);
}

/* Of an operation that the device has nothing more is said: most of these fail when executed. */
static void operations_are_those_of_the_device(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t op;
	} rows[] = {
		{ IBV_WR_SEND, IBV_QP_EX_WITH_SEND },
		{ IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM },
		{ IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV },
		{ IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM },
		{ IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD },
		{ IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV },
	};

	if (rig.type != IBV_QPT_RC)
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_qp *qp = loop_qp(1);

		assert_int_equal(post(qp, rows[i].opcode, NULL, 0),
				 has(VB_FACT_SEND_OPS, rows[i].op) ? 0 : EINVAL);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void builders_are_those_of_the_device(void **state)
{
	const struct vb_fact_word *word = vb_fact_rows[VB_FACT_SEND_OPS].words;

	if (rig.type != IBV_QPT_RC)
		return;
	if (!has(VB_FACT_VERBS, VB_VERB_CREATE_QP_EX))
		return;
	for (; word->word; word++) {
		struct ibv_qp_init_attr_ex init = {
			.send_cq = rig.cq,
			.recv_cq = rig.cq,
			.qp_type = IBV_QPT_RC,
			.cap = { 1, 1, 1, 1, 0 },
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = rig.pd,
			.send_ops_flags = word->value,
		};
		struct ibv_qp *qp;

		if (word->value == IBV_QP_EX_WITH_TSO)
			continue;
		errno = 0;
		qp = ibv_create_qp_ex(rig.context, &init);
		assert_int_equal(qp != NULL, has(VB_FACT_SEND_OPS, word->value));
		if (qp)
			assert_int_equal(ibv_destroy_qp(qp), 0);
		else
			assert_int_equal(errno, EOPNOTSUPP);
	}
}

static void a_read_has_max_sge_rd_elements(void **state)
{
	const int max = (int)fact(VB_FACT_MAX_SGE_RD);
	struct ibv_sge sges[64] = { 0 };
	struct ibv_qp *qp;

	if (rig.type != IBV_QPT_RC)
		return;
	if (!has(VB_FACT_SEND_OPS, IBV_QP_EX_WITH_RDMA_READ))
		return;
	qp = loop_qp((uint32_t)fact(VB_FACT_MAX_SGE));
	assert_int_equal(post(qp, IBV_WR_RDMA_READ, sges, max), 0);
	assert_int_equal(post(qp, IBV_WR_RDMA_READ, sges, max + 1), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_message_has_max_msg_sz_bytes(void **state)
{
	const uint64_t max = fact(VB_FACT_MAX_MSG_SZ);
	struct ibv_sge sges[2] = { { .length = (uint32_t)max }, { .length = 1 } };
	struct ibv_qp *qp;

	if (rig.type != IBV_QPT_RC)
		return;
	/* The device's own limit fails when the request is executed: ct_err_local.c. */
	if (!has(VB_FACT_SEND_OPS, IBV_QP_EX_WITH_RDMA_WRITE) ||
	    max == vb_fact_rows[VB_FACT_MAX_MSG_SZ].own)
		return;
	qp = loop_qp(2);
	assert_int_equal(post(qp, IBV_WR_RDMA_WRITE, sges, 1), 0);
	assert_int_equal(post(qp, IBV_WR_RDMA_WRITE, sges, 2), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- transitions --- */

static int to_rtr(uint64_t depth, unsigned mtu)
{
	struct ibv_qp_init_attr init = qp_init(IBV_QPT_RC);
	struct ibv_qp *qp = ibv_create_qp(rig.pd, &init);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.ah_attr = { .port_num = 1, .is_global = 1 },
		.path_mtu = (enum ibv_mtu)mtu,
		.max_dest_rd_atomic = (uint8_t)depth,
	};
	int result;

	assert_non_null(qp);
	attr.dest_qp_num = qp->qp_num;
	assert_int_equal(ibv_query_gid(rig.context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_RTR;
	result = ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return result;
}

static void reads_are_as_deep_as_max_qp_rd_atom(void **state)
{
	const uint64_t max = fact(VB_FACT_MAX_QP_RD_ATOM);

	if (rig.type != IBV_QPT_RC)
		return;
	assert_int_equal(to_rtr(max, IBV_MTU_256), 0);
	assert_int_equal(to_rtr(max + 1, IBV_MTU_256), EINVAL);
}

static void a_path_has_the_mtu_of_the_port_at_most(void **state)
{
	const unsigned max = (unsigned)fact(VB_FACT_MAX_MTU);
	struct ibv_port_attr port;

	if (rig.type != IBV_QPT_RC)
		return;
	assert_int_equal(ibv_query_port(rig.context, 1, &port), 0);
	assert_int_equal(port.max_mtu, max);
	assert_true(port.active_mtu <= port.max_mtu);
	assert_int_equal(to_rtr(0, max), 0);
	assert_int_equal(to_rtr(0, max + 1), EINVAL);
}

const struct CMUnitTest post_tests[] = {
	cmocka_unit_test(operations_are_those_of_the_device),
	cmocka_unit_test(builders_are_those_of_the_device),
	cmocka_unit_test(a_read_has_max_sge_rd_elements),
	cmocka_unit_test(a_message_has_max_msg_sz_bytes),
	cmocka_unit_test(reads_are_as_deep_as_max_qp_rd_atom),
	cmocka_unit_test(a_path_has_the_mtu_of_the_port_at_most),
};
const size_t post_test_count = sizeof(post_tests) / sizeof(*post_tests);
