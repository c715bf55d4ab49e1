/* SPDX-License-Identifier: BSD-2-Clause */
/* How many objects a device has. Large limits would take long: only small ones are met. */
#include "rig.h"

enum { COUNTED_MAX = 16 };

/* Makes objects up to the limit, then one more; held: the rig has so many of them. */
static void count_up(enum vb_fact limit, uint64_t held, void *(*make)(void), int (*end)(void *))
{
	const uint64_t max = fact(limit);
	void *objects[COUNTED_MAX];
	uint64_t made = 0;

	if (!max || max > COUNTED_MAX)
		return;
	for (; made + held < max; made++)
		assert_non_null(objects[made] = make());
	assert_refused(make(), ENOMEM);
	while (made)
		assert_int_equal(end(objects[--made]), 0);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(rig.context);
}

static int end_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_cq(void)
{
	return ibv_create_cq(rig.context, 1, NULL, NULL, 0);
}

static int end_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = qp_init(rig.type);

	return ibv_create_qp(rig.pd, &init);
}

static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { 1, 1 } };

	return ibv_create_srq(rig.pd, &init);
}

static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *make_mr(void)
{
	static char byte;

	return ibv_reg_mr(rig.pd, &byte, 1, 0);
}

static int end_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(rig.pd, IBV_MW_TYPE_1);
}

static int end_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };

	assert_int_equal(ibv_query_gid(rig.context, 1, 0, &attr.grh.dgid), 0);
	return ibv_create_ah(rig.pd, &attr);
}

static int end_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static void objects_have_their_count(void **state)
{
	count_up(VB_FACT_MAX_PD, 1, make_pd, end_pd);
	count_up(VB_FACT_MAX_CQ, 1, make_cq, end_cq);
	count_up(VB_FACT_MAX_QP, 0, make_qp, end_qp);
	count_up(VB_FACT_MAX_SRQ, 0, make_srq, end_srq);
	count_up(VB_FACT_MAX_MR, 0, make_mr, end_mr);
	count_up(VB_FACT_MAX_MW, 0, make_mw, end_mw);
	count_up(VB_FACT_MAX_AH, 0, make_ah, end_ah);
}

static void groups_have_their_count(void **state)
{
	const uint64_t max = fact(VB_FACT_MAX_MCAST_GRP);
	struct ibv_qp_init_attr init = qp_init(IBV_QPT_UD);
	union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 1 } };
	struct ibv_qp *qp;

	if (!has(VB_FACT_QP_TYPES, 1 << IBV_QPT_UD) || (max && max != 1))
		return;
	qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(qp);
	if (max) {
		assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
		group.raw[15]++;
		assert_int_equal(ibv_attach_mcast(qp, &group, 0), ENOMEM);
		group.raw[15]--;
		assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
	} else {
		assert_int_equal(ibv_attach_mcast(qp, &group, 0),
				 has(VB_FACT_VERBS, VB_VERB_ATTACH_MCAST) ? ENOMEM : EOPNOTSUPP);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void tags_have_their_count(void **state)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { 1, 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = rig.pd,
		.cq = rig.cq,
		.tm_cap = { (uint32_t)fact(VB_FACT_TM_MAX_NUM_TAGS), 1 },
	};
	struct ibv_srq *srq;

	if (!init.tm_cap.max_num_tags || !has(VB_FACT_VERBS, VB_VERB_CREATE_SRQ_EX) ||
	    !fact(VB_FACT_MAX_SRQ)) {
		init.tm_cap.max_num_tags = 1;
		assert_refused(ibv_create_srq_ex(rig.context, &init), EOPNOTSUPP);
		return;
	}
	srq = ibv_create_srq_ex(rig.context, &init);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.tm_cap.max_num_tags++;
	assert_refused(ibv_create_srq_ex(rig.context, &init), EINVAL);
}

static void rates_have_their_limit(void **state)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit =
						       (uint32_t)fact(VB_FACT_QP_RATE_LIMIT_MAX) };
	struct ibv_qp *qp;
	int expected = 0;

	if (rig.type != IBV_QPT_RC)
		return;
	if (!has(VB_FACT_VERBS, VB_VERB_MODIFY_QP_RATE_LIMIT) ||
	    !has(VB_FACT_RATE_LIMIT_QP_TYPES, 1 << IBV_QPT_RC))
		expected = EOPNOTSUPP;
	qp = loop_qp(1);
	assert_int_equal(ibv_modify_qp_rate_limit(qp, &attr), expected);
	attr.rate_limit++;
	assert_int_equal(ibv_modify_qp_rate_limit(qp, &attr), expected ? expected : EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void tables_have_their_size(void **state)
{
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = 11 };

	assert_refused(ibv_create_rwq_ind_table(rig.context, &attr),
		       fact(VB_FACT_MAX_RWQ_INDIRECTION_TABLES) ? EINVAL : EOPNOTSUPP);
}

const struct CMUnitTest count_tests[] = {
	cmocka_unit_test(objects_have_their_count), cmocka_unit_test(groups_have_their_count),
	cmocka_unit_test(tags_have_their_count),    cmocka_unit_test(rates_have_their_limit),
	cmocka_unit_test(tables_have_their_size),
};
const size_t count_test_count = sizeof(count_tests) / sizeof(*count_tests);
