/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of a QP as a table: for each transition the attributes it needs and those it takes.
 * A transition that is not in the table is illegal; so is one with an attribute it does not take.
 */
#include "ct.h"

enum {
	/* What these tests leave open: alternate paths depend on the link layer. */
	UNDECIDED = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE,
	ALL_BITS = IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS |
		   IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
		   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP | IBV_QP_DEST_QPN,
	RC_TIMERS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	RC_SQD = IBV_QP_PORT | IBV_QP_AV | RC_TIMERS | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER,
	CONNECTED = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RC = 1 << IBV_QPT_RC,
	UC = 1 << IBV_QPT_UC,
	UD = 1 << IBV_QPT_UD,
};

#define S(name) IBV_QPS_##name

static const struct edge {
	enum ibv_qp_state from, to;
	int types, required, optional;
} edges[] = {
	{ S(RESET), S(RESET), RC | UC | UD, 0, 0 },
	{ S(RESET), S(INIT), RC | UC, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ S(RESET), S(INIT), UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ S(INIT), S(RESET), RC | UC | UD, 0, 0 },
	{ S(INIT), S(ERR), RC | UC | UD, 0, 0 },
	{ S(INIT), S(INIT), RC | UC, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ S(INIT), S(INIT), UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
	{ S(INIT), S(RTR), RC, CONNECTED | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ S(INIT), S(RTR), UC, CONNECTED, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ S(INIT), S(RTR), UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ S(RTR), S(RESET), RC | UC | UD, 0, 0 },
	{ S(RTR), S(ERR), RC | UC | UD, 0, 0 },
	{ S(RTR), S(RTS), RC, RC_TIMERS | IBV_QP_SQ_PSN,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ S(RTR), S(RTS), UC, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ S(RTR), S(RTS), UD, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ S(RTS), S(RESET), RC | UC | UD, 0, 0 },
	{ S(RTS), S(ERR), RC | UC | UD, 0, 0 },
	{ S(RTS), S(RTS), RC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ S(RTS), S(RTS), UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ S(RTS), S(RTS), UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ S(RTS), S(SQD), RC | UC | UD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ S(SQD), S(RESET), RC | UC | UD, 0, 0 },
	{ S(SQD), S(ERR), RC | UC | UD, 0, 0 },
	{ S(SQD), S(RTS), RC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ S(SQD), S(RTS), UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
	{ S(SQD), S(RTS), UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	{ S(SQD), S(SQD), RC, 0, RC_SQD },
	{ S(SQD), S(SQD), UC, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ S(SQD), S(SQD), UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ S(ERR), S(RESET), RC | UC | UD, 0, 0 },
	{ S(ERR), S(ERR), RC | UC | UD, 0, 0 },
};

static const struct edge *find(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (int i = 0; i < CT_COUNT(edges); i++)
		if (edges[i].from == from && edges[i].to == to && (edges[i].types & 1 << type))
			return &edges[i];
	return NULL;
}

/* Every attribute has a good value here, so that only the mask decides. */
static struct ibv_qp_attr good_values(const struct ct_qp *qp, enum ibv_qp_state from)
{
	struct ibv_qp_attr attr = {
		.cur_qp_state = from,
		.path_mtu = IBV_MTU_1024,
		.qkey = CT_QKEY,
		.rq_psn = qp->psn,
		.sq_psn = qp->psn,
		.dest_qp_num = qp->qpn,
		.qp_access_flags = CT_ACCESS_REMOTE,
		.cap = qp->cap,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	ct_address(qp->end, qp->end, &attr.ah_attr);
	return attr;
}

static int step(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good_values(qp, from);

	attr.qp_state = to;
	return ct_modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

static void bring_to(const struct ct_qp *qp, enum ibv_qp_state state)
{
	static const enum ibv_qp_state way[] = { S(RESET), S(INIT), S(RTR), S(RTS), S(SQD) };

	CT_EQ(step(qp, ct_qp_state(qp), S(RESET), 0), 0);
	for (int i = 0; way[i] != (state == S(ERR) ? S(INIT) : state); i++)
		CT_EQ(step(qp, way[i], way[i + 1], find(qp->type, way[i], way[i + 1])->required),
		      0);
	if (state == S(ERR))
		CT_EQ(step(qp, S(INIT), S(ERR), 0), 0);
	CT_EQ(ct_qp_state(qp), state);
}

static const enum ibv_qp_state states[] = { S(RESET), S(INIT), S(RTR), S(RTS), S(SQD), S(ERR) };
/* SQE can be left, but it is entered by an error only. */
static const enum ibv_qp_state goals[] = {
	S(RESET), S(INIT), S(RTR), S(RTS), S(SQD), S(SQE), S(ERR)
};

static void qp_make(struct ct *t, enum ibv_qp_type type, struct ct_qp *qp)
{
	struct ibv_qp_init_attr init = { .qp_type = type, .cap = { 4, 4, 1, 1, 0 } };

	CT_TRUE(ct_qp_create(t->near, &init, t->near->pd, t->near->scq, t->near->rcq, 0, qp) > 0);
}

static void each_type(struct ct *t, void (*check)(const struct ct_qp *, enum ibv_qp_state,
						  enum ibv_qp_state, const struct edge *))
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ct_qp qp;

	for (int k = 0; k < CT_COUNT(types); k++) {
		qp_make(t, types[k], &qp);
		for (int i = 0; i < CT_COUNT(states); i++)
			for (int j = 0; j < CT_COUNT(goals); j++)
				check(&qp, states[i], goals[j],
				      find(types[k], states[i], goals[j]));
	}
}

static void check_step(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
		       int mask, int wanted)
{
	int got;

	bring_to(qp, from);
	got = step(qp, from, to, mask);
	CT_HERE;
	if (got != wanted)
		ct_fail("QP type %d, state %d to %d with mask %#x: %d, expected %d", qp->type, from,
			to, mask, got, wanted);
	got = ct_qp_state(qp);
	if (got != (int)(wanted ? from : to))
		ct_fail("QP type %d, state %d to %d with mask %#x ends in state %d", qp->type, from,
			to, mask, got);
}

static void check_minimal(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			  const struct edge *edge)
{
	check_step(qp, from, to, edge ? edge->required : 0, edge ? 0 : EINVAL);
}

static void check_missing(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			  const struct edge *edge)
{
	for (int bit = 1; edge && bit <= edge->required; bit <<= 1)
		if (edge->required & bit)
			check_step(qp, from, to, edge->required & ~bit, EINVAL);
}

static void check_optional(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			   const struct edge *edge)
{
	if (!edge)
		return;
	for (int bit = 1; bit <= edge->optional; bit <<= 1)
		if (edge->optional & bit)
			check_step(qp, from, to, edge->required | bit, 0);
	check_step(qp, from, to, edge->required | edge->optional, 0);
}

static void check_foreign(const struct ct_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
			  const struct edge *edge)
{
	int taken = edge ? edge->required | edge->optional | UNDECIDED : 0;

	for (int bit = 1; edge && bit <= ALL_BITS; bit <<= 1)
		if (ALL_BITS & ~taken & bit)
			check_step(qp, from, to, edge->required | bit, EINVAL);
}

static void legal_and_illegal(struct ct *t)
{
	each_type(t, check_minimal);
}

static void missing_attributes(struct ct *t)
{
	each_type(t, check_missing);
}

static void optional_attributes(struct ct *t)
{
	each_type(t, check_optional);
}

static void foreign_attributes(struct ct *t)
{
	each_type(t, check_foreign);
}

static void wrong_current_state(struct ct *t)
{
	struct ct_qp qp;

	qp_make(t, IBV_QPT_RC, &qp);
	bring_to(&qp, S(RTR));
	CT_EQ(step(&qp, S(RTS), S(RTS),
		   find(IBV_QPT_RC, S(RTR), S(RTS))->required | IBV_QP_CUR_STATE),
	      EINVAL);
	CT_EQ(ct_qp_state(&qp), S(RTR));
	CT_EQ(step(&qp, S(RTR), S(RTS),
		   find(IBV_QPT_RC, S(RTR), S(RTS))->required | IBV_QP_CUR_STATE),
	      0);
}

/* Without IBV_QP_STATE the QP stays where it is, and the rules of staying hold. */
static void no_state_means_stay(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_RC, &qp);
	bring_to(&qp, S(RTS));
	attr = good_values(&qp, S(RTS));
	attr.min_rnr_timer = 20;
	CT_EQ(ct_modify_qp(&qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	CT_EQ(ct_modify_qp(&qp, &attr, IBV_QP_PATH_MTU), EINVAL);
	CT_EQ(ct_query_qp(&qp, &attr, NULL), 0);
	CT_EQ(attr.min_rnr_timer, 20);
	CT_EQ(attr.qp_state, S(RTS));
}

static void bad_values(struct ct *t)
{
	const int rtr = find(IBV_QPT_RC, S(INIT), S(RTR))->required;
	const int rts = find(IBV_QPT_RC, S(RTR), S(RTS))->required;
	struct ibv_qp_attr attr;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_RC, &qp);
#define REFUSED(from, to, mask, field, value)                                   \
	do {                                                                    \
		bring_to(&qp, S(from));                                         \
		attr = good_values(&qp, S(from));                               \
		attr.qp_state = S(to);                                          \
		attr.field = (value);                                           \
		CT_EQ(ct_modify_qp(&qp, &attr, IBV_QP_STATE | (mask)), EINVAL); \
		CT_EQ(ct_qp_state(&qp), S(from));                               \
	} while (0)
	REFUSED(RESET, INIT, edges[1].required, port_num, 0);
	REFUSED(RESET, INIT, edges[1].required, port_num, t->near->attr.phys_port_cnt + 1);
	REFUSED(RESET, INIT, edges[1].required, pkey_index, t->near->port.pkey_tbl_len);
	REFUSED(RESET, INIT, edges[1].required, qp_access_flags, 1 << 15);
	REFUSED(INIT, RTR, rtr, path_mtu, 0);
	REFUSED(INIT, RTR, rtr, path_mtu, IBV_MTU_4096 + 1);
	REFUSED(INIT, RTR, rtr, ah_attr.is_global, 0);
	REFUSED(INIT, RTR, rtr, ah_attr.port_num, 0);
	REFUSED(INIT, RTR, rtr, ah_attr.grh.sgid_index, (uint8_t)t->near->port.gid_tbl_len);
	REFUSED(INIT, RTR, rtr, min_rnr_timer, 32);
	REFUSED(RTR, RTS, rts, timeout, 32);
	REFUSED(RTR, RTS, rts, retry_cnt, 8);
	REFUSED(RTR, RTS, rts, rnr_retry, 8);
	REFUSED(RESET, INIT, edges[1].required, qp_state, 42);
	if (t->near->attr.max_qp_init_rd_atom < 255)
		REFUSED(RTR, RTS, rts, max_rd_atomic, t->near->attr.max_qp_init_rd_atom + 1);
	if (t->near->attr.max_qp_rd_atom < 255)
		REFUSED(INIT, RTR, rtr, max_dest_rd_atomic, t->near->attr.max_qp_rd_atom + 1);
#undef REFUSED
}

/* Man page: if anything is invalid, nothing is modified. */
static void refused_means_unchanged(struct ct *t)
{
	struct ibv_qp_attr before, after, attr;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_RC, &qp);
	bring_to(&qp, S(INIT));
	CT_EQ(ct_query_qp(&qp, &before, NULL), 0);
	attr = good_values(&qp, S(INIT));
	attr.qp_state = S(RTR);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	attr.min_rnr_timer = 32;
	CT_EQ(ct_modify_qp(&qp, &attr,
			   IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
				   find(IBV_QPT_RC, S(INIT), S(RTR))->required),
	      EINVAL);
	CT_EQ(ct_query_qp(&qp, &after, NULL), 0);
	CT_EQ(after.qp_state, before.qp_state);
	CT_EQ(after.qp_access_flags, before.qp_access_flags);
	CT_EQ(after.dest_qp_num, before.dest_qp_num);
	CT_EQ(after.rq_psn, before.rq_psn);
	CT_EQ(after.path_mtu, before.path_mtu);
}

static void query_echoes_rc(struct ct *t)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr want, got;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_RC, &qp);
	bring_to(&qp, S(RTS));
	want = good_values(&qp, S(RTS));
	CT_EQ(ct_query_qp(&qp, &got, &init), 0);
	CT_EQ(got.qp_state, S(RTS));
	CT_EQ(got.cur_qp_state, S(RTS));
	CT_EQ(got.path_mtu, want.path_mtu);
	CT_EQ(got.rq_psn, want.rq_psn);
	CT_EQ(got.sq_psn, want.sq_psn);
	CT_EQ(got.dest_qp_num, want.dest_qp_num);
	CT_EQ(got.qp_access_flags, want.qp_access_flags);
	CT_EQ(got.port_num, 1);
	CT_EQ(got.pkey_index, 0);
	CT_EQ(got.max_rd_atomic, want.max_rd_atomic);
	CT_EQ(got.max_dest_rd_atomic, want.max_dest_rd_atomic);
	CT_EQ(got.min_rnr_timer, want.min_rnr_timer);
	CT_EQ(got.timeout, want.timeout);
	CT_EQ(got.retry_cnt, want.retry_cnt);
	CT_EQ(got.rnr_retry, want.rnr_retry);
	CT_EQ(got.ah_attr.is_global, 1);
	CT_EQ(got.ah_attr.grh.sgid_index, want.ah_attr.grh.sgid_index);
	CT_EQ(got.ah_attr.grh.hop_limit, want.ah_attr.grh.hop_limit);
	CT_EQ(memcmp(&got.ah_attr.grh.dgid, &want.ah_attr.grh.dgid, 16), 0);
	CT_EQ(init.sq_sig_all, 0);
}

static void query_echoes_ud(struct ct *t)
{
	struct ibv_qp_attr got;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_UD, &qp);
	bring_to(&qp, S(RTS));
	CT_EQ(ct_query_qp(&qp, &got, NULL), 0);
	CT_EQ(got.qp_state, S(RTS));
	CT_EQ(got.qkey, CT_QKEY);
	CT_EQ(got.sq_psn, qp.psn);
}

/* qp->state is the state that the program itself asked for. */
static void field_follows_modify(struct ct *t)
{
	struct ibv_qp *ibv;
	struct ct_qp qp;

	qp_make(t, IBV_QPT_UD, &qp);
	ibv = ct_object(t->near, qp.handle);
	bring_to(&qp, S(RTR));
	CT_EQ(ibv->state, S(RTR));
	CT_EQ(step(&qp, S(RTR), S(ERR), 0), 0);
	CT_EQ(ibv->state, S(ERR));
}

static void a_refused_reset_keeps_the_connection(struct ct *t)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET, .port_num = 1 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	ct_usable(&l);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	ct_usable(&l);
	CT_EQ(ct_modify_qp(&l.b, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	ct_usable(&l);
}

const struct ct_case ct_state_cases[] = {
	{ "every transition of the table is legal, every other one is EINVAL", legal_and_illegal,
	  CT_SOLO },
	{ "a transition without a required attribute is EINVAL", missing_attributes, CT_SOLO },
	{ "a transition takes its optional attributes", optional_attributes, CT_SOLO },
	{ "a transition with an attribute it does not take is EINVAL", foreign_attributes,
	  CT_SOLO },
	{ "a wrong IBV_QP_CUR_STATE is EINVAL", wrong_current_state, CT_SOLO },
	{ "without IBV_QP_STATE the QP stays in its state", no_state_means_stay, CT_SOLO },
	{ "an attribute out of range is EINVAL", bad_values, CT_SOLO },
	{ "a refused modify_qp changes nothing", refused_means_unchanged, CT_SOLO },
	{ "a refused RESET keeps the connection", a_refused_reset_keeps_the_connection,
	  CT_RC | CT_UC },
	{ "query_qp echoes the attributes of an RC QP", query_echoes_rc, CT_SOLO },
	{ "query_qp echoes the attributes of a UD QP", query_echoes_ud, CT_SOLO },
	{ "qp->state follows modify_qp", field_follows_modify, CT_SOLO },
	{ 0 },
};
