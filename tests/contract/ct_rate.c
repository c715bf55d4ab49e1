/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate of a QP, and counters objects. */
#include "ct.h"

static const uint64_t TARGET = 4 << 20;

static struct ibv_qp *qp_of(struct ct_link *l)
{
	return ct_object(l->a.end, l->a.handle);
}

static double write_s(struct ct_link *l, int count, uint32_t length)
{
	double start_s = ct_now_s();

	for (int i = 0; i < count; i++)
		ct_do(l, IBV_WR_RDMA_WRITE, i, TARGET, length);
	for (int i = 0; i < count; i++)
		ct_sent(l, i, IBV_WC_SUCCESS);
	return ct_now_s() - start_s;
}

/* Only the upper limit can be tested: a busy machine may always be slower. */
static void rate_is_kept(struct ct *t)
{
	enum { KBPS = 40000, LENGTH = 1 << 20, BURST = 64 << 10 };
	struct ibv_qp_rate_limit_attr slow = { .rate_limit = KBPS, .max_burst_sz = BURST };
	struct ibv_qp_rate_limit_attr off = { 0 };
	const double least_s = (LENGTH - BURST) * 8.0 / (KBPS * 1e3);
	struct ct_link l;

	if (!ct_by_packets())
		ct_skip("packets have a rate, copies within a host have not");
	ct_link_open(t, &l, NULL);
	ct_fill(t->near, TARGET, LENGTH, 3);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &slow), 0);
	CT_TRUE(write_s(&l, 1, LENGTH) > least_s);
	/* UC tells its sender when the last packet is out: the far end may still have to take it.
	 */
	if (t->type == IBV_QPT_RC)
		ct_same(t->far, TARGET, LENGTH, 3);
	/* Small messages as well; what was saved up is one burst. */
	CT_TRUE(write_s(&l, 8, LENGTH / 8) > least_s);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &off), 0);
	for (int i = 0; i < 100; i++)
		if (write_s(&l, 1, LENGTH) < least_s)
			return;
	ct_fail("100 messages without a limit were no faster than with it");
}

/* Datagrams: the last of them cannot have left before the rate allows it. */
static void rate_of_datagrams(struct ct *t)
{
	enum { KBPS = 4000, COUNT = 32, LENGTH = 1000, BURST = 4000 };
	struct ibv_qp_rate_limit_attr slow = { .rate_limit = KBPS, .max_burst_sz = BURST };
	struct ibv_qp_rate_limit_attr off = { 0 };
	const double least_s = (COUNT * LENGTH - BURST - LENGTH) * 8.0 / (KBPS * 1e3);
	double start_s = ct_now_s();
	struct ct_link l;

	if (!ct_by_packets())
		ct_skip("packets have a rate, copies within a host have not");
	ct_link_open(t, &l, NULL);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &slow), 0);
	for (int i = 0; i < COUNT; i++)
		ct_send(&l, i, 0, LENGTH);
	for (int i = 0; i < COUNT; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
	CT_TRUE(ct_now_s() - start_s > least_s);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &off), 0);
	ct_usable(&l);
}

/* Another QP of the process is not held up. */
static void rate_is_of_one_qp(struct ct *t)
{
	struct ibv_qp_rate_limit_attr crawl = { .rate_limit = 100, .max_burst_sz = 1 };
	struct ct_link slow, fast;

	if (!ct_by_packets())
		ct_skip("packets have a rate, copies within a host have not");
	ct_link_open(t, &slow, NULL);
	ct_link_open(t, &fast, NULL);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&slow), &crawl), 0);
	ct_do(&slow, IBV_WR_RDMA_WRITE, 1000, TARGET, 100000); /* 8 seconds */
	CT_TRUE(write_s(&fast, 1, 100000) < 5);
	/* The rate goes with RESET, the WR is flushed before. */
	CT_EQ(ct_to_state(&slow.a, IBV_QPS_ERR), 0);
	ct_sent(&slow, 1000, IBV_WC_WR_FLUSH_ERR);
}

static void rate_arguments(struct ct *t)
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = 1000 };
	struct ibv_device_attr_ex dev;
	struct ct_link l, idle;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &dev), 0);
	ct_link_open(t, &l, NULL);
	ct_link_create(t, &idle, NULL);
	if (!(dev.packet_pacing_caps.supported_qpts & 1u << t->type)) {
		CT_ERROR(ibv_modify_qp_rate_limit(qp_of(&l), &attr), EOPNOTSUPP);
		return;
	}
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &attr), 0);
	CT_ERROR(ibv_modify_qp_rate_limit(qp_of(&idle), &attr), EINVAL); /* not in RTS */
	attr.rate_limit = dev.packet_pacing_caps.qp_rate_limit_max;
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &attr), 0);
	attr.rate_limit++;
	CT_ERROR(ibv_modify_qp_rate_limit(qp_of(&l), &attr), EINVAL);
	attr.rate_limit = 0;
	attr.comp_mask = 1;
	CT_ERROR(ibv_modify_qp_rate_limit(qp_of(&l), &attr), EINVAL);
}

static uint32_t limit_of(const struct ct_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CT_EQ(ct_query_qp(qp, &attr, &init), 0);
	return attr.rate_limit;
}

static void rate_reads_back(struct ct *t)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 123456 };
	struct ibv_qp_attr attr = { .rate_limit = 77000 };
	struct ibv_device_attr_ex dev;
	struct ct_link l, idle;

	CT_EQ(ibv_query_device_ex(ct_context(t->near), NULL, &dev), 0);
	ct_link_open(t, &l, NULL);
	ct_link_create(t, &idle, NULL);
	CT_EQ(limit_of(&l.a), 0);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &limit), 0);
	CT_EQ(limit_of(&l.a), 123456);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_RATE_LIMIT), 0);
	CT_EQ(limit_of(&l.a), 77000);
	attr.rate_limit = dev.packet_pacing_caps.qp_rate_limit_max + 1;
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_RATE_LIMIT), EINVAL);
	CT_EQ(limit_of(&l.a), 77000);
	attr.rate_limit = 0;
	CT_EQ(ct_modify_qp(&idle.a, &attr, IBV_QP_RATE_LIMIT), EINVAL); /* in RESET */
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_RATE_LIMIT), 0);
	CT_EQ(limit_of(&l.a), 0);
	ct_usable(&l);
	CT_EQ(ibv_modify_qp_rate_limit(qp_of(&l), &limit), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(limit_of(&l.a), 0);
}

/* The codes of static rates are those of enum ibv_rate; 0 is the port's. */
static void static_rates_are_checked(struct ct *t)
{
	enum { AFTER_ALL = IBV_RATE_1200_GBPS + 1, BEFORE_ALL = 1 };
	struct ct_link l;
	struct ct_opts o = ct_defaults(t);
	struct ibv_ah_attr ah;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int mask, handle;

	ct_address(t->near, t->far, &ah);
	ah.static_rate = BEFORE_ALL;
	CT_EQ(ct_create_ah(t->near, t->near->pd, &ah), -EINVAL);
	ah.static_rate = AFTER_ALL;
	CT_EQ(ct_create_ah(t->near, t->near->pd, &ah), -EINVAL);
	ah.static_rate = IBV_RATE_10_GBPS;
	handle = ct_create_ah(t->near, t->near->pd, &ah);
	CT_TRUE(handle > 0);
	CT_EQ(ct_destroy(t->near, handle), 0);
	ct_link_create(t, &l, &o);
	ct_init(&l.a);
	mask = ct_attr_rtr(&l.a, &l.b, &o, &attr);
	attr.ah_attr.static_rate = AFTER_ALL;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), EINVAL);
	attr.ah_attr.static_rate = IBV_RATE_25_GBPS;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), 0);
	CT_EQ(ct_query_qp(&l.a, &attr, &init), 0);
	CT_EQ(attr.ah_attr.static_rate, IBV_RATE_25_GBPS);
	CT_EQ(attr.rate_limit, 0);
}

/* What a path holds is no more than its static rate says. */
static void static_rate_is_kept(struct ct *t)
{
	enum { LENGTH = 2 << 20, COUNT = 8, AHEAD_US = 300 };
	const double least_s = COUNT * (double)LENGTH * 8 / 2.5e9 - AHEAD_US * 1e-6;
	struct ct_opts o = ct_defaults(t);
	struct ibv_qp_attr attr;
	struct ct_link l;
	int mask;

	if (!ct_by_packets())
		ct_skip("packets have a rate, copies within a host have not");
	ct_link_create(t, &l, &o);
	ct_init(&l.a);
	ct_init(&l.b);
	mask = ct_attr_rtr(&l.a, &l.b, &o, &attr);
	attr.ah_attr.static_rate = IBV_RATE_2_5_GBPS;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), 0);
	ct_rtr(&l.b, &l.a, &o);
	ct_rts(&l.a, &o);
	ct_rts(&l.b, &o);
	CT_TRUE(write_s(&l, COUNT, LENGTH) > least_s);
}

static void counters(struct ct *t)
{
	struct ibv_counters_init_attr init = { .comp_mask = 1 };
	struct ibv_counter_attach_attr point = { .counter_desc = IBV_COUNTER_BYTES, .index = 1 };
	struct ibv_counters *c;
	uint64_t values[4] = { 9, 9, 9, 9 };

	CT_NULL(ibv_create_counters(ct_context(t->near), &init), EINVAL);
	init.comp_mask = 0;
	c = ibv_create_counters(ct_context(t->near), &init);
	CT_TRUE(c != NULL);
	CT_ERROR(ibv_read_counters(c, values, 1, 0), EINVAL); /* nothing is attached */
	CT_EQ(ibv_attach_counters_point_flow(c, &point, NULL), 0);
	CT_EQ(ibv_read_counters(c, values, 2, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	CT_EQ(values[0], 0);
	CT_EQ(values[1], 0);
	CT_EQ(values[2], 9);
	CT_ERROR(ibv_read_counters(c, values, 3, 0), EINVAL);
	CT_ERROR(ibv_read_counters(c, values, 1, 1 << 10), EINVAL);
	point.counter_desc = 77;
	CT_ERROR(ibv_attach_counters_point_flow(c, &point, NULL), ENOTSUP);
	point = (struct ibv_counter_attach_attr){ .index = 1 << 30 };
	CT_ERROR(ibv_attach_counters_point_flow(c, &point, NULL), EINVAL);
	point = (struct ibv_counter_attach_attr){ .comp_mask = 1 };
	CT_ERROR(ibv_attach_counters_point_flow(c, &point, NULL), EINVAL);
	CT_EQ(ibv_destroy_counters(c), 0);
}

const struct ct_case ct_rate_cases[] = {
	{ "a counters object has the places that were attached", counters, CT_SOLO },
	{ "modify_qp_rate_limit checks its arguments", rate_arguments, CT_RC | CT_UC | CT_UD },
	{ "the rate limit of a QP reads back", rate_reads_back, CT_RC | CT_UC | CT_UD },
	{ "static rates are those of enum ibv_rate", static_rates_are_checked,
	  CT_RC | CT_UC | CT_IB },
	{ "a QP keeps to the static rate of its path", static_rate_is_kept, CT_RC | CT_UC },
	{ "a QP keeps to its rate, and is free again without one", rate_is_kept, CT_RC | CT_UC },
	{ "the rate of a QP is that of no other", rate_is_of_one_qp, CT_RC },
	{ "datagrams keep to the rate of their QP", rate_of_datagrams, CT_UD | CT_IB },
	{ 0 },
};
