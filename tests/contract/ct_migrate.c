/* SPDX-License-Identifier: BSD-2-Clause */
/* Alternate paths: how they are armed, and what makes a connection go over to them. */
#include <unistd.h>

#include "ct.h"

enum {
	ALT_SL = 3, /* tells the alternate path from the primary one: both lead to one port */
	ALT_TIMEOUT = 20,
	SHORT_TIMEOUT = 8, /* a millisecond: for paths that nobody answers on */
	NO_LID = 0xbfff,   /* of nobody */
	MIGRATION = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
};

static struct ibv_qp_attr alternate(const struct ct_qp *qp, const struct ct_end *to)
{
	struct ibv_qp_attr attr = { .alt_port_num = 1,
				    .alt_timeout = ALT_TIMEOUT,
				    .path_mig_state = IBV_MIG_REARM };

	ct_address(qp->end, to, &attr.alt_ah_attr);
	attr.alt_ah_attr.sl = ALT_SL;
	return attr;
}

static void rearm(const struct ct_qp *qp, const struct ct_end *to)
{
	struct ibv_qp_attr attr = alternate(qp, to);

	CT_EQ(ct_modify_qp(qp, &attr, MIGRATION), 0);
}

static enum ibv_mig_state state_of(const struct ct_qp *qp)
{
	struct ibv_qp_attr attr;

	CT_EQ(ct_query_qp(qp, &attr, NULL), 0);
	return attr.path_mig_state;
}

static void await(const struct ct_qp *qp, enum ibv_mig_state state)
{
	const double until_s = ct_now_s() + CT_DEADLINE_MS / 1e3;

	while (state_of(qp) != state) {
		if (ct_now_s() > until_s)
			ct_fail("the path migration state is %d, expected %d", state_of(qp), state);
		usleep(100); /* between two looks */
	}
}

/* What each end has to hear from the other comes with messages. */
static void await_armed(struct ct_link *l)
{
	struct ct_link back = ct_reverse(l);

	ct_usable(l);
	ct_usable(&back);
	await(&l->a, IBV_MIG_ARMED);
	await(&l->b, IBV_MIG_ARMED);
}

static void open_armed(struct ct *t, struct ct_link *l)
{
	ct_link_open(t, l, NULL);
	rearm(&l->a, t->far);
	CT_TRUE(state_of(&l->a) == IBV_MIG_REARM);
	rearm(&l->b, t->near);
	await_armed(l);
}

static void migrate(const struct ct_qp *qp)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };

	CT_EQ(ct_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
}

static void check_path(const struct ct_qp *qp, uint8_t sl, uint8_t other_sl)
{
	struct ibv_qp_attr attr;

	CT_EQ(ct_query_qp(qp, &attr, NULL), 0);
	CT_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
	CT_EQ(attr.ah_attr.sl, sl);
	CT_EQ(attr.alt_ah_attr.sl, other_sl);
	CT_EQ(attr.port_num, 1);
	CT_EQ(attr.qp_state, IBV_QPS_RTS);
}

/* One end has migrated; the other follows with the next message. */
static void check_both_moved(struct ct_link *l, uint8_t sl, uint8_t other_sl)
{
	struct ct_link back = ct_reverse(l);

	ct_event(l->a.end, IBV_EVENT_PATH_MIG, l->a.handle);
	check_path(&l->a, sl, other_sl);
	ct_usable(l);
	ct_event(l->b.end, IBV_EVENT_PATH_MIG, l->b.handle);
	check_path(&l->b, sl, other_sl);
	ct_usable(l);
	ct_usable(&back);
	ct_no_event(l->a.end);
	ct_no_event(l->b.end);
}

static void by_request(struct ct *t)
{
	struct ct_link l;
	struct ibv_qp_attr attr;

	open_armed(t, &l);
	migrate(&l.a);
	check_both_moved(&l, ALT_SL, 0);
	CT_EQ(ct_query_qp(&l.a, &attr, NULL), 0);
	CT_EQ(attr.timeout, ALT_TIMEOUT);
}

/* Armed again, it goes back: what was primary is the alternate path now. */
static void there_and_back(struct ct *t)
{
	struct ibv_qp_attr again = { .path_mig_state = IBV_MIG_REARM };
	struct ct_link l, back;

	open_armed(t, &l);
	back = ct_reverse(&l);
	migrate(&l.a);
	check_both_moved(&l, ALT_SL, 0);
	CT_EQ(ct_modify_qp(&l.b, &again, IBV_QP_PATH_MIG_STATE), 0);
	CT_EQ(ct_modify_qp(&l.a, &again, IBV_QP_PATH_MIG_STATE), 0);
	await_armed(&l);
	migrate(&l.b);
	check_both_moved(&back, 0, ALT_SL);
}

/* One end alone has nobody to migrate with. */
static void one_end_is_not_armed(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	rearm(&l.a, t->far);
	ct_usable(&l);
	ct_usable(&back);
	CT_EQ(state_of(&l.a), IBV_MIG_REARM);
	CT_EQ(state_of(&l.b), IBV_MIG_MIGRATED);
	migrate(&l.a); /* gives it up: nothing has moved */
	CT_EQ(state_of(&l.a), IBV_MIG_MIGRATED);
	ct_usable(&l);
	ct_no_event(t->near);
	ct_no_event(t->far);
}

/* As connection managers do it: the path comes with RTR, the state with RTS. */
static void loaded_on_the_way(struct ct *t)
{
	struct ibv_qp_attr attr, alt;
	struct ct_link l;
	int mask;

	ct_link_create(t, &l, NULL);
	for (int i = 0; i < 2; i++) {
		const struct ct_qp *qp = i ? &l.b : &l.a, *peer = i ? &l.a : &l.b;

		ct_init(qp);
		mask = ct_attr_rtr(qp, peer, &l.o, &attr);
		alt = alternate(qp, peer->end);
		attr.alt_ah_attr = alt.alt_ah_attr;
		attr.alt_port_num = alt.alt_port_num;
		attr.alt_timeout = alt.alt_timeout;
		CT_EQ(ct_modify_qp(qp, &attr, mask | IBV_QP_ALT_PATH), 0);
	}
	for (int i = 0; i < 2; i++) {
		const struct ct_qp *qp = i ? &l.b : &l.a;

		mask = ct_attr_rts(qp, &l.o, &attr);
		attr.path_mig_state = IBV_MIG_REARM;
		CT_EQ(ct_modify_qp(qp, &attr, mask | IBV_QP_PATH_MIG_STATE), 0);
	}
	await_armed(&l);
	migrate(&l.a);
	check_both_moved(&l, ALT_SL, 0);
}

/* Its primary path leads to nobody from now on. */
static void cut_primary(struct ct *t, const struct ct_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .en_sqd_async_notify = 1,
				    .timeout = SHORT_TIMEOUT,
				    .retry_cnt = 1 };

	CT_EQ(ct_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ct_event(t->near, IBV_EVENT_SQ_DRAINED, qp->handle);
	ct_address(t->near, t->far, &attr.ah_attr);
	attr.ah_attr.dlid = NO_LID;
	CT_EQ(ct_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT),
	      0);
	CT_EQ(ct_to_state(qp, IBV_QPS_RTS), 0);
}

/* The primary path goes dead under an armed connection: the message arrives all the same. */
static void by_itself(struct ct *t)
{
	struct ct_link l;

	open_armed(t, &l);
	cut_primary(t, &l.a);
	ct_fill(t->near, 0, 3000, 5);
	ct_recv(&l.b, 2, 4096, 3000);
	ct_send(&l, 1, 0, 3000);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->far, 4096, 3000, 5);
	check_both_moved(&l, ALT_SL, 0);
}

/* Both paths dead: the message fails as it would without any of this. */
static void nowhere_to_go(struct ct *t)
{
	struct ibv_qp_attr alt;
	struct ct_link l;

	open_armed(t, &l);
	alt = alternate(&l.a, t->far);
	alt.alt_ah_attr.dlid = NO_LID;
	alt.alt_timeout = SHORT_TIMEOUT;
	CT_EQ(ct_modify_qp(&l.a, &alt, IBV_QP_ALT_PATH), 0);
	cut_primary(t, &l.a);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
	ct_event(t->near, IBV_EVENT_PATH_MIG, l.a.handle);
	ct_wait_state(&l.a, IBV_QPS_ERR);
}

/* The peer goes where we have no path to. */
static void to_another_path(struct ct *t)
{
	struct ibv_qp_attr alt;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	rearm(&l.a, t->far);
	alt = alternate(&l.b, t->near);
	alt.alt_ah_attr.dlid = NO_LID;
	CT_EQ(ct_modify_qp(&l.b, &alt, MIGRATION), 0);
	await_armed(&l);
	migrate(&l.a);
	ct_event(t->near, IBV_EVENT_PATH_MIG, l.a.handle);
	if (ct_by_packets()) /* it takes one to tell */
		ct_send(&l, 1, 0, 64);
	ct_event(t->far, IBV_EVENT_PATH_MIG_ERR, l.b.handle);
	CT_EQ(state_of(&l.b), IBV_MIG_ARMED);
}

static void bad_requests(struct ct *t)
{
	struct ibv_qp_attr attr, bad;
	struct ct_link l;

	CT_TRUE(t->near->attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	ct_link_open(t, &l, NULL);
	attr = alternate(&l.a, t->far);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), EINVAL); /* none is loaded */
	bad = attr;
	bad.alt_port_num = 2;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	bad = attr;
	bad.alt_ah_attr.port_num = 2;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	bad = attr;
	bad.alt_ah_attr.dlid = 0;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	bad = attr;
	bad.alt_pkey_index = 0x7fff;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	bad = attr;
	bad.alt_timeout = 32;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	bad = attr;
	bad.path_mig_state = IBV_MIG_ARMED;
	CT_EQ(ct_modify_qp(&l.a, &bad, MIGRATION), EINVAL);
	CT_EQ(state_of(&l.a), IBV_MIG_MIGRATED);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), EINVAL); /* still none */
	CT_EQ(ct_modify_qp(&l.a, &attr, MIGRATION), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RESET), 0);
	CT_EQ(state_of(&l.a), IBV_MIG_MIGRATED);
	ct_init(&l.a);
	ct_rtr(&l.a, &l.b, &l.o);
	ct_rts(&l.a, &l.o);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), EINVAL); /* forgotten */
}

static void not_on_ethernet(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_link l;

	if (t->infiniband)
		ct_skip("about Ethernet");
	CT_EQ(t->near->attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0);
	ct_link_open(t, &l, NULL);
	attr = alternate(&l.a, t->far);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_ALT_PATH), EINVAL);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
	attr.path_mig_state = IBV_MIG_MIGRATED;
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), 0); /* what it is anyway */
	ct_usable(&l);
}

const struct ct_case ct_migrate_cases[] = {
	{ "a migration by request takes both ends to the alternate path", by_request,
	  CT_RC | CT_UC | CT_ONLY_IB },
	{ "a connection migrates there and back", there_and_back, CT_RC | CT_UC | CT_ONLY_IB },
	{ "an alternate path at one end alone is not armed", one_end_is_not_armed,
	  CT_RC | CT_ONLY_IB },
	{ "an alternate path can come with RTR and be armed with RTS", loaded_on_the_way,
	  CT_RC | CT_UC | CT_ONLY_IB },
	{ "a path that does not answer is left for the alternate one", by_itself,
	  CT_RC | CT_ONLY_IB },
	{ "without a path that answers it is RETRY_EXC_ERR", nowhere_to_go, CT_RC | CT_ONLY_IB },
	{ "a peer that migrates elsewhere is IBV_EVENT_PATH_MIG_ERR", to_another_path,
	  CT_RC | CT_ONLY_IB },
	{ "alternate paths that cannot be are EINVAL, and RESET forgets them", bad_requests,
	  CT_RC | CT_ONLY_IB },
	{ "RoCE has no alternate path: EINVAL", not_on_ethernet, CT_RC | CT_UC },
	{ 0 },
};
