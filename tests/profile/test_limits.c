/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device under a profile: it shows each fact, grants what is within it, and refuses one more
 * with the errno of the man page. Run once for each profile, which VERBENA_AS names.
 */
#include <fcntl.h>

#include "rig.h"

/* --- shown --- */

#define SIZE(MEMBER) sizeof(((struct ibv_device_attr_ex *)NULL)->MEMBER)
#define DEVICE(FACT, MEMBER) \
	VB_FACT_##FACT, offsetof(struct ibv_device_attr_ex, MEMBER), SIZE(MEMBER), #MEMBER

static const struct {
	enum vb_fact fact;
	size_t offset, size;
	const char *name;
} members[] = {
	{ DEVICE(MAX_MR_SIZE, orig_attr.max_mr_size) },
	{ DEVICE(PAGE_SIZE_CAP, orig_attr.page_size_cap) },
	{ DEVICE(MAX_QP, orig_attr.max_qp) },
	{ DEVICE(MAX_QP_WR, orig_attr.max_qp_wr) },
	{ DEVICE(MAX_SGE, orig_attr.max_sge) },
	{ DEVICE(MAX_SGE_RD, orig_attr.max_sge_rd) },
	{ DEVICE(MAX_CQ, orig_attr.max_cq) },
	{ DEVICE(MAX_CQE, orig_attr.max_cqe) },
	{ DEVICE(MAX_MR, orig_attr.max_mr) },
	{ DEVICE(MAX_MW, orig_attr.max_mw) },
	{ DEVICE(MAX_PD, orig_attr.max_pd) },
	{ DEVICE(MAX_AH, orig_attr.max_ah) },
	{ DEVICE(MAX_SRQ, orig_attr.max_srq) },
	{ DEVICE(MAX_SRQ_WR, orig_attr.max_srq_wr) },
	{ DEVICE(MAX_SRQ_SGE, orig_attr.max_srq_sge) },
	{ DEVICE(MAX_QP_RD_ATOM, orig_attr.max_qp_rd_atom) },
	{ DEVICE(MAX_QP_INIT_RD_ATOM, orig_attr.max_qp_init_rd_atom) },
	{ DEVICE(MAX_RES_RD_ATOM, orig_attr.max_res_rd_atom) },
	{ DEVICE(MAX_MCAST_GRP, orig_attr.max_mcast_grp) },
	{ DEVICE(MAX_MCAST_QP_ATTACH, orig_attr.max_mcast_qp_attach) },
	{ DEVICE(MAX_TOTAL_MCAST_QP_ATTACH, orig_attr.max_total_mcast_qp_attach) },
	{ DEVICE(ATOMIC_CAP, orig_attr.atomic_cap) },
	{ DEVICE(ODP_GENERAL, odp_caps.general_caps) },
	{ DEVICE(ODP_RC, odp_caps.per_transport_caps.rc_odp_caps) },
	{ DEVICE(ODP_UC, odp_caps.per_transport_caps.uc_odp_caps) },
	{ DEVICE(ODP_UD, odp_caps.per_transport_caps.ud_odp_caps) },
	{ DEVICE(ODP_XRC, xrc_odp_caps) },
	{ DEVICE(TM_MAX_NUM_TAGS, tm_caps.max_num_tags) },
	{ DEVICE(RAW_PACKET_CAPS, raw_packet_caps) },
	{ DEVICE(MAX_TSO, tso_caps.max_tso) },
	{ DEVICE(MAX_WQ_TYPE_RQ, max_wq_type_rq) },
	{ DEVICE(MAX_RWQ_INDIRECTION_TABLES, rss_caps.max_rwq_indirection_tables) },
	{ DEVICE(MAX_RWQ_INDIRECTION_TABLE_SIZE, rss_caps.max_rwq_indirection_table_size) },
	{ DEVICE(RX_HASH_FIELDS, rss_caps.rx_hash_fields_mask) },
	{ DEVICE(QP_RATE_LIMIT_MAX, packet_pacing_caps.qp_rate_limit_max) },
	{ DEVICE(RATE_LIMIT_QP_TYPES, packet_pacing_caps.supported_qpts) },
	{ DEVICE(MAX_CQ_COUNT, cq_mod_caps.max_cq_count) },
	{ DEVICE(MAX_CQ_PERIOD, cq_mod_caps.max_cq_period) },
	{ DEVICE(MAX_DM_SIZE, max_dm_size) },
};

static void attributes_are_those_of_the_profile(void **state)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(rig.context, NULL, &attr), 0);
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		uint64_t shown = 0; /* the test knows machines of little endian only */

		memcpy(&shown, (char *)&attr + members[i].offset, members[i].size);
		if (shown != fact(members[i].fact))
			fail_msg("%s is %llu, not %llu", members[i].name, (unsigned long long)shown,
				 (unsigned long long)fact(members[i].fact));
	}
	assert_true(attr.device_cap_flags_ex ==
		    (fact(VB_FACT_DEVICE_CAP_FLAGS) & ~(uint64_t)IBV_DEVICE_AUTO_PATH_MIG));
	assert_int_equal(attr.orig_attr.device_cap_flags, (unsigned)attr.device_cap_flags_ex);
	assert_int_equal(!!attr.completion_timestamp_mask,
			 has(VB_FACT_WC_FLAGS, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
}

static void the_port_is_that_of_the_profile(void **state)
{
	const int gids = (int)fact(VB_FACT_GID_TBL_LEN);
	struct ibv_port_attr port;
	union ibv_gid gid;

	assert_int_equal(ibv_query_port(rig.context, 1, &port), 0);
	assert_true(port.max_msg_sz == fact(VB_FACT_MAX_MSG_SZ));
	assert_int_equal(port.gid_tbl_len, gids);
	assert_int_equal(ibv_query_gid(rig.context, 1, gids - 1, &gid), 0);
	assert_int_equal(ibv_query_gid(rig.context, 1, gids, &gid), -1);
}

/* --- QPs --- */

static void qps_are_of_the_types_of_the_device(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_SEND };

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct ibv_qp_init_attr init = qp_init(types[i]);

		if (has(VB_FACT_QP_TYPES, 1u << types[i]))
			create_and_destroy_qp(init);
		else
			assert_refused(ibv_create_qp(rig.pd, &init), EOPNOTSUPP);
	}
}

/* One row of limits, as offsets of members: at the limit a QP is made, beyond it EINVAL. */
static void queues_have_their_limits(void **state)
{
	const bool blocks = fact(VB_FACT_SQ_BYTES_MAX) != 0; /* test_profile.c has the figures */
	const struct {
		size_t member;
		uint32_t max;
		bool at_limit;
	} rows[] = {
		{ offsetof(struct ibv_qp_cap, max_send_wr), (uint32_t)fact(VB_FACT_MAX_QP_WR),
		  !blocks },
		{ offsetof(struct ibv_qp_cap, max_recv_wr), (uint32_t)fact(VB_FACT_MAX_QP_WR),
		  true },
		{ offsetof(struct ibv_qp_cap, max_send_sge), (uint32_t)fact(VB_FACT_MAX_SGE),
		  true },
		{ offsetof(struct ibv_qp_cap, max_recv_sge), (uint32_t)fact(VB_FACT_MAX_SGE),
		  true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_qp_init_attr init = qp_init(rig.type);
		uint32_t *value = (uint32_t *)((char *)&init.cap + rows[i].member);

		*value = rows[i].max;
		if (rows[i].at_limit)
			create_and_destroy_qp(init);
		*value = rows[i].max + 1;
		assert_refused(ibv_create_qp(rig.pd, &init), EINVAL);
	}
}

static void inline_data_has_its_limit(void **state)
{
	const bool blocks = fact(VB_FACT_SQ_BYTES_MAX) != 0;
	const uint32_t max = blocks ? 828 : (uint32_t)fact(VB_FACT_MAX_INLINE_DATA);
	struct ibv_qp_init_attr init = qp_init(rig.type);
	struct ibv_qp *qp;

	init.cap.max_inline_data = max;
	create_and_destroy_qp(init);
	init.cap.max_inline_data = max + 1;
	if (fact(VB_FACT_INLINE_EXCESS) == VB_INLINE_EXCESS_FAILS) {
		assert_refused(ibv_create_qp(rig.pd, &init), EINVAL);
		return;
	}
	qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(qp);
	assert_int_equal(init.cap.max_inline_data, max);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- CQs and SRQs --- */

static void cqs_have_their_limit(void **state)
{
	const int max = (int)fact(VB_FACT_MAX_CQE);
	struct ibv_cq *cq = ibv_create_cq(rig.context, max, NULL, NULL, 0);
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	assert_non_null(cq);
	assert_int_equal(ibv_resize_cq(cq, 1),
			 has(VB_FACT_VERBS, VB_VERB_RESIZE_CQ) ? 0 : EOPNOTSUPP);
	assert_refused(ibv_create_cq(rig.context, max + 1, NULL, NULL, 0), EINVAL);
	attr.moderate.cq_period = (uint16_t)fact(VB_FACT_MAX_CQ_PERIOD);
	attr.moderate.cq_count = (uint16_t)fact(VB_FACT_MAX_CQ_COUNT);
	if (!has(VB_FACT_VERBS, VB_VERB_MODIFY_CQ)) {
		assert_int_equal(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
	} else {
		assert_int_equal(ibv_modify_cq(cq, &attr), 0);
		if (++attr.moderate.cq_period)
			assert_int_equal(ibv_modify_cq(cq, &attr), EINVAL);
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void completions_have_the_fields_of_the_device(void **state)
{
	const struct vb_fact_word *word = vb_fact_rows[VB_FACT_WC_FLAGS].words;

	for (; word->word; word++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = word->value };
		struct ibv_cq_ex *cq;

		errno = 0;
		cq = ibv_create_cq_ex(rig.context, &attr);
		assert_int_equal(cq != NULL, has(VB_FACT_WC_FLAGS, word->value));
		if (cq)
			assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
		else
			assert_int_equal(errno, EOPNOTSUPP);
	}
}

static void srqs_have_their_limits(void **state)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = (uint32_t)fact(VB_FACT_MAX_SRQ_WR),
			  .max_sge = (uint32_t)fact(VB_FACT_MAX_SRQ_SGE) },
	};
	struct ibv_srq *srq;

	if (!fact(VB_FACT_MAX_SRQ) || !has(VB_FACT_VERBS, VB_VERB_CREATE_SRQ)) {
		init.attr = (struct ibv_srq_attr){ 1, 1 };
		assert_refused(ibv_create_srq(rig.pd, &init), EOPNOTSUPP);
		return;
	}
	srq = ibv_create_srq(rig.pd, &init);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.attr.max_wr++;
	assert_refused(ibv_create_srq(rig.pd, &init), EINVAL);
	init.attr.max_wr = 1;
	init.attr.max_sge++;
	assert_refused(ibv_create_srq(rig.pd, &init), EINVAL);
}

/* --- memory --- */

static void regions_have_their_limits(void **state)
{
	static char byte;
	struct ibv_mr *mr;

	if (fact(VB_FACT_MAX_MR_SIZE) < UINT64_MAX)
		assert_refused(ibv_reg_mr(rig.pd, &byte, fact(VB_FACT_MAX_MR_SIZE) + 1, 0), EINVAL);
	errno = 0;
	mr = ibv_reg_mr(rig.pd, &byte, 1, IBV_ACCESS_ON_DEMAND);
	assert_int_equal(mr != NULL, has(VB_FACT_ODP_GENERAL, IBV_ODP_SUPPORT));
	if (mr)
		assert_int_equal(ibv_dereg_mr(mr), 0);
	else
		assert_int_equal(errno, EOPNOTSUPP);
}

static void windows_are_of_the_types_of_the_device(void **state)
{
	static const struct {
		enum ibv_mw_type type;
		uint64_t cap;
	} rows[] = {
		{ IBV_MW_TYPE_1, IBV_DEVICE_MEM_WINDOW },
		{ IBV_MW_TYPE_2, IBV_DEVICE_MEM_WINDOW_TYPE_2B },
	};
	const bool any = has(VB_FACT_VERBS, VB_VERB_ALLOC_MW) && fact(VB_FACT_MAX_MW);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibv_mw *mw;

		errno = 0;
		mw = ibv_alloc_mw(rig.pd, rows[i].type);
		assert_int_equal(mw != NULL, any && has(VB_FACT_DEVICE_CAP_FLAGS, rows[i].cap));
		if (mw)
			assert_int_equal(ibv_dealloc_mw(mw), 0);
		else
			assert_int_equal(errno, EOPNOTSUPP);
	}
}

static void device_memory_has_its_limit(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = fact(VB_FACT_MAX_DM_SIZE) };
	struct ibv_dm *dm;

	if (!attr.length || !has(VB_FACT_VERBS, VB_VERB_ALLOC_DM)) {
		attr.length = 64;
		assert_refused(ibv_alloc_dm(rig.context, &attr), EOPNOTSUPP);
		return;
	}
	dm = ibv_alloc_dm(rig.context, &attr);
	assert_non_null(dm);
	assert_int_equal(ibv_free_dm(dm), 0);
	attr.length++;
	assert_refused(ibv_alloc_dm(rig.context, &attr), EINVAL);
}

/* --- calls --- */

static void calls_are_those_of_the_device(void **state)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1
	};
	struct ibv_td *td;
	struct ibv_mr *null;
	struct ibv_xrcd *xrcd;

	errno = 0;
	td = ibv_alloc_td(rig.context, &td_attr);
	assert_int_equal(td ? 0 : errno, has(VB_FACT_VERBS, VB_VERB_ALLOC_TD) ? 0 : EOPNOTSUPP);
	if (td)
		assert_int_equal(ibv_dealloc_td(td), 0);
	errno = 0;
	null = ibv_alloc_null_mr(rig.pd);
	assert_int_equal(null ? 0 : errno,
			 has(VB_FACT_VERBS, VB_VERB_ALLOC_NULL_MR) ? 0 : EOPNOTSUPP);
	if (null)
		assert_int_equal(ibv_dereg_mr(null), 0);
	xrcd_attr.oflags = O_CREAT;
	errno = 0;
	xrcd = ibv_open_xrcd(rig.context, &xrcd_attr);
	assert_int_equal(xrcd ? 0 : errno, has(VB_FACT_VERBS, VB_VERB_OPEN_XRCD) &&
							   has(VB_FACT_QP_TYPES, VB_QP_TYPES_XRC)
						   ? 0
						   : EOPNOTSUPP);
	if (xrcd)
		assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static const struct CMUnitTest limit_tests[] = {
	cmocka_unit_test(attributes_are_those_of_the_profile),
	cmocka_unit_test(the_port_is_that_of_the_profile),
	cmocka_unit_test(qps_are_of_the_types_of_the_device),
	cmocka_unit_test(queues_have_their_limits),
	cmocka_unit_test(inline_data_has_its_limit),
	cmocka_unit_test(cqs_have_their_limit),
	cmocka_unit_test(completions_have_the_fields_of_the_device),
	cmocka_unit_test(srqs_have_their_limits),
	cmocka_unit_test(regions_have_their_limits),
	cmocka_unit_test(windows_are_of_the_types_of_the_device),
	cmocka_unit_test(device_memory_has_its_limit),
	cmocka_unit_test(calls_are_those_of_the_device),
};

/* One group: TAP has one plan. */
int main(void)
{
	enum { LIMITS = sizeof(limit_tests) / sizeof(*limit_tests), TESTS_MAX = 64 };
	struct CMUnitTest all[TESTS_MAX];
	const size_t count = LIMITS + count_test_count + post_test_count;

	if (count > TESTS_MAX)
		abort();
	memcpy(all, limit_tests, sizeof(limit_tests));
	memcpy(all + LIMITS, count_tests, count_test_count * sizeof(*all));
	memcpy(all + LIMITS + count_test_count, post_tests, post_test_count * sizeof(*all));
	return _cmocka_run_group_tests("profile", all, count, rig_open, rig_close);
}
