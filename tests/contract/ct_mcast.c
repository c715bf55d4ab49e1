/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: one message, a copy for every QP that is attached to the group.
 *
 *      near end: sender, member      far end: member, member, bystander
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

#include "ct.h"

enum { MULTICAST_QPN = 0xffffff, MLID = 0xc001, SIZE = 200 };

static const uint64_t TARGET = 65536, STEP = 4096;

/* Other tests of this host have other groups. */
static void random_address(uint8_t address[4])
{
	static uint32_t next;
	uint32_t value = (uint32_t)getpid() * 64 + next++ % 64;

	address[0] = 239;
	address[1] = (uint8_t)(value >> 16 | 0x80);
	address[2] = (uint8_t)(value >> 8);
	address[3] = (uint8_t)value;
}

/* ::ffff:a.b.c.d of RoCEv2, or an MGID that is no IP address to InfiniBand. */
static union ibv_gid make_group(const struct ct *t)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };

	if (t->infiniband)
		gid.raw[0] = 0xff, gid.raw[1] = 0x12, gid.raw[2] = 0x40, gid.raw[3] = 0x1b;
	random_address(&gid.raw[12]);
	return gid;
}

static int make_ah(const struct ct *t, struct ct_end *e, const union ibv_gid *group)
{
	struct ibv_ah_attr attr;
	int ah;

	ct_address(e, e, &attr);
	attr.is_global = 1;
	attr.grh.dgid = *group;
	attr.grh.sgid_index = t->infiniband ? 0 : e->gid_index;
	attr.grh.hop_limit = 1; /* not beyond this link */
	attr.dlid = t->infiniband ? MLID : 0;
	ah = ct_create_ah(e, e->pd, &attr);
	if (ah < 0)
		ct_fail("create_ah: %s", strerror(-ah));
	return ah;
}

static void attach(const struct ct_qp *qp, const union ibv_gid *group)
{
	int ret = ct_attach_mcast(qp, group, MLID);

	if (ret == ENODEV || ret == EADDRNOTAVAIL)
		ct_skip("the interface has no multicast: %s", strerror(ret));
	CT_EQ(ret, 0);
}

static void detach(const struct ct_qp *qp, const union ibv_gid *group)
{
	CT_EQ(ct_detach_mcast(qp, group, MLID), 0);
}

/* l->a says it to the group; the pattern is told by its seed. */
static void say(const struct ct_link *l, int ah, uint64_t wr_id, uint32_t qkey, unsigned seed)
{
	struct ibv_sge sge = ct_sge(l->a.end, 0, SIZE);
	struct ct_link to_group = *l;
	struct ibv_send_wr wr;

	to_group.ah_a = ah;
	wr = ct_wr(&to_group, IBV_WR_SEND, wr_id, &sge, 1);
	wr.wr.ud.remote_qpn = MULTICAST_QPN;
	wr.wr.ud.remote_qkey = qkey;
	ct_fill(l->a.end, 0, SIZE, seed);
	ct_post(&l->a, &wr);
	ct_sent(l, wr_id, IBV_WC_SUCCESS);
}

static void expect(const struct ct_qp *qp, uint64_t wr_id, uint32_t from, unsigned seed)
{
	struct ibv_wc wc = ct_expect(qp->end, qp->rcq, wr_id, IBV_WC_SUCCESS);

	CT_EQ(wc.qp_num, qp->qpn);
	CT_EQ(wc.src_qp, from);
	CT_EQ(wc.byte_len, CT_GRH_BYTES + SIZE);
	CT_TRUE(wc.wc_flags & IBV_WC_GRH);
	ct_same(qp->end, TARGET + wr_id * STEP + CT_GRH_BYTES, SIZE, seed);
}

static void take(const struct ct_qp *qp, uint64_t wr_id)
{
	ct_recv(qp, wr_id, TARGET + wr_id * STEP, CT_GRH_BYTES + SIZE);
}

/* Each QP with a receive CQ of its own, so that its completions are told apart. */
static void open_link(struct ct *t, struct ct_link *l)
{
	struct ct_opts o = ct_defaults(t);

	o.rcq_a = ct_create_cq(t->near, CT_CQE, 0);
	o.rcq_b = ct_create_cq(t->far, CT_CQE, 0);
	CT_TRUE(o.rcq_a > 0 && o.rcq_b > 0);
	ct_link_open(t, l, &o);
}

/* A group, the way to it from the near end, and a link; l.b is a member. */
struct meeting {
	union ibv_gid group;
	int ah;
	struct ct_link l;
};

static void meet(struct ct *t, struct meeting *m)
{
	m->group = make_group(t);
	m->ah = make_ah(t, t->near, &m->group);
	open_link(t, &m->l);
	attach(&m->l.b, &m->group);
}

static void every_member_gets_a_copy(struct ct *t)
{
	union ibv_gid group = make_group(t);
	struct ct_link one, two, three;
	int ah = make_ah(t, t->near, &group);

	open_link(t, &one);
	open_link(t, &two);
	open_link(t, &three);
	attach(&one.b, &group);
	attach(&two.b, &group);
	attach(&two.a, &group);
	for (unsigned i = 1; i <= 3; i++) {
		take(&one.b, 10 + i);
		take(&two.b, 20 + i);
		take(&two.a, 30 + i);
		take(&three.b, 40 + i);
	}
	for (unsigned i = 1; i <= 3; i++)
		say(&one, ah, i, CT_QKEY, i); /* one.a is no member, and sends */
	for (unsigned i = 1; i <= 3; i++) {
		expect(&one.b, 10 + i, one.a.qpn, i);
		expect(&two.b, 20 + i, one.a.qpn, i);
		expect(&two.a, 30 + i, one.a.qpn, i);
	}
	ct_none(t->far, three.b.rcq);
	ct_none(t->far, one.b.rcq);
	ct_none(t->near, two.a.rcq);
	detach(&one.b, &group);
	detach(&two.b, &group);
	detach(&two.a, &group);
}

static void the_sender_hears_itself(struct ct *t)
{
	struct meeting m;

	meet(t, &m);
	attach(&m.l.a, &m.group);
	take(&m.l.a, 2);
	take(&m.l.a, 3);
	take(&m.l.b, 4);
	say(&m.l, m.ah, 1, CT_QKEY, 7);
	expect(&m.l.a, 2, m.l.a.qpn, 7);
	expect(&m.l.b, 4, m.l.a.qpn, 7);
	ct_none(t->near, m.l.a.rcq); /* once */
	detach(&m.l.a, &m.group);
	detach(&m.l.b, &m.group);
}

static void another_qkey_is_not_taken(struct ct *t)
{
	struct meeting m;

	meet(t, &m);
	take(&m.l.b, 2);
	say(&m.l, m.ah, 1, CT_QKEY + 1, 1);
	say(&m.l, m.ah, 1, CT_QKEY, 2);
	expect(&m.l.b, 2, m.l.a.qpn, 2);
	detach(&m.l.b, &m.group);
}

static void who_leaves_gets_no_more(struct ct *t)
{
	union ibv_gid group = make_group(t);
	struct ct_link one, two;
	int ah = make_ah(t, t->near, &group);

	open_link(t, &one);
	open_link(t, &two);
	attach(&one.b, &group);
	attach(&two.b, &group);
	for (unsigned i = 1; i <= 2; i++) {
		take(&one.b, 10 + i);
		take(&two.b, 20 + i);
	}
	say(&one, ah, 1, CT_QKEY, 1);
	expect(&one.b, 11, one.a.qpn, 1);
	expect(&two.b, 21, one.a.qpn, 1);
	detach(&one.b, &group);
	say(&one, ah, 2, CT_QKEY, 2);
	expect(&two.b, 22, one.a.qpn, 2);
	ct_none(t->far, one.b.rcq);
	detach(&two.b, &group);
	CT_EQ(ct_detach_mcast(&two.b, &group, MLID), EINVAL);
	say(&one, ah, 3, CT_QKEY, 3); /* to nobody, which is no error */
	attach(&one.b, &group);       /* and back again */
	say(&one, ah, 4, CT_QKEY, 4);
	expect(&one.b, 12, one.a.qpn, 4);
	detach(&one.b, &group);
}

static void attached_twice_is_attached(struct ct *t)
{
	struct meeting m;

	meet(t, &m);
	attach(&m.l.b, &m.group);
	take(&m.l.b, 2);
	take(&m.l.b, 3);
	say(&m.l, m.ah, 1, CT_QKEY, 1);
	expect(&m.l.b, 2, m.l.a.qpn, 1);
	say(&m.l, m.ah, 1, CT_QKEY, 2);
	expect(&m.l.b, 3, m.l.a.qpn, 2);
	ct_none(t->far, m.l.b.rcq);
	detach(&m.l.b, &m.group);
	CT_EQ(ct_detach_mcast(&m.l.b, &m.group, MLID), EINVAL);
}

static void groups_are_apart(struct ct *t)
{
	union ibv_gid group = make_group(t), other = make_group(t);
	struct ct_link l;
	int ah = make_ah(t, t->near, &group), ah_other = make_ah(t, t->near, &other);

	open_link(t, &l);
	attach(&l.b, &group);
	take(&l.b, 2);
	take(&l.b, 3);
	say(&l, ah_other, 1, CT_QKEY, 1);
	say(&l, ah, 1, CT_QKEY, 2);
	expect(&l.b, 2, l.a.qpn, 2);
	attach(&l.b, &other);
	say(&l, ah_other, 1, CT_QKEY, 3);
	expect(&l.b, 3, l.a.qpn, 3);
	detach(&l.b, &group);
	detach(&l.b, &other);
}

/* Posted without a pause: what a queue on the way cannot hold is waited for. */
static void a_burst(struct ct *t)
{
	enum { ROUNDS = 8, BURST = 32 };
	union ibv_gid group = make_group(t);
	struct ibv_sge sge = ct_sge(t->near, 0, 8);
	struct ct_link l, to_group;
	int ah = make_ah(t, t->near, &group);

	open_link(t, &l);
	attach(&l.b, &group);
	to_group = l;
	to_group.ah_a = ah;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		for (uint64_t i = 0; i < BURST; i++)
			take(&l.b, i);
		for (uint64_t i = 0; i < BURST; i++) {
			struct ibv_send_wr wr = ct_wr(&to_group, IBV_WR_SEND, i, &sge, 1);

			wr.wr.ud.remote_qpn = MULTICAST_QPN;
			wr.wr.ud.remote_qkey = CT_QKEY;
			wr.send_flags |= IBV_SEND_INLINE;
			ct_poke(t->near, 0, round * BURST + i);
			ct_post(&l.a, &wr);
		}
		for (uint64_t i = 0; i < BURST; i++) {
			ct_sent(&l, i, IBV_WC_SUCCESS);
			ct_got(&l, i, IBV_WC_SUCCESS);
			CT_EQ(ct_peek(t->far, TARGET + i * STEP + CT_GRH_BYTES), round * BURST + i);
		}
	}
	detach(&l.b, &group);
}

/* Members may attach before they can receive. */
static void attached_in_init(struct ct *t)
{
	union ibv_gid group = make_group(t);
	struct ct_link l;
	int ah = make_ah(t, t->near, &group);

	ct_link_create(t, &l, NULL);
	ct_init(&l.a);
	ct_init(&l.b);
	attach(&l.b, &group);
	take(&l.b, 2);
	ct_rtr(&l.a, &l.b, &l.o);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_rts(&l.a, &l.o);
	say(&l, ah, 1, CT_QKEY, 9);
	expect(&l.b, 2, l.a.qpn, 9);
	detach(&l.b, &group);
}

/* ---- Ethernet: groups are IP addresses ------------------------------------------------------- */

static void header_names_the_group(struct ct *t)
{
	struct meeting m;
	uint8_t grh[CT_GRH_BYTES];

	meet(t, &m);
	take(&m.l.b, 2);
	say(&m.l, m.ah, 1, CT_QKEY, 1);
	expect(&m.l.b, 2, m.l.a.qpn, 1);
	ct_peek_bytes(t->far, TARGET + 2 * STEP, CT_GRH_BYTES, grh);
	CT_EQ(grh[20], 0x45);
	CT_EQ(memcmp(&grh[32], &t->near->gid.raw[12], 4), 0);
	CT_EQ(memcmp(&grh[36], &m.group.raw[12], 4), 0);
	detach(&m.l.b, &m.group);
}

static void one_group_has_several_names(struct ct *t)
{
	union ibv_gid v2 = make_group(t), v1 = v2,
		      ipoib = { .raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff } };
	struct ct_link l;
	int ah_v1, ah_v2;

	v1.raw[0] = 0xff, v1.raw[1] = 0x0e;
	memcpy(&ipoib.raw[12], &v2.raw[12], 4);
	ipoib.raw[12] &= 0x0f;
	ah_v1 = make_ah(t, t->near, &v1);
	ah_v2 = make_ah(t, t->near, &v2);
	open_link(t, &l);
	for (unsigned i = 1; i <= 5; i++)
		take(&l.b, i);
	attach(&l.b, &v1);
	say(&l, ah_v2, 1, CT_QKEY, 1);
	expect(&l.b, 1, l.a.qpn, 1);
	say(&l, ah_v1, 1, CT_QKEY, 2);
	expect(&l.b, 2, l.a.qpn, 2);
	attach(&l.b, &v2); /* two attachments, one group: one copy */
	say(&l, ah_v1, 1, CT_QKEY, 3);
	say(&l, ah_v2, 1, CT_QKEY, 4);
	expect(&l.b, 3, l.a.qpn, 3);
	expect(&l.b, 4, l.a.qpn, 4);
	detach(&l.b, &v1);
	detach(&l.b, &v2);
	attach(&l.b, &ipoib);
	say(&l, ah_v2, 1, CT_QKEY, 5);
	expect(&l.b, 5, l.a.qpn, 5);
	detach(&l.b, &ipoib);
}

static void ipv6_groups(struct ct *t)
{
	union ibv_gid group = { .raw = { 0xff, 0x15, [10] = 0x12, 0x34 } };
	struct ct_link l;
	int ah;

	random_address(&group.raw[12]);
	open_link(t, &l);
	if (ct_attach_mcast(&l.b, &group, 0) == EAFNOSUPPORT)
		ct_skip("this host has no IPv6");
	CT_EQ(ct_detach_mcast(&l.b, &group, 0), 0);
	attach(&l.b, &group);
	ah = make_ah(t, t->near, &group);
	take(&l.b, 2);
	say(&l, ah, 1, CT_QKEY, 6);
	expect(&l.b, 2, l.a.qpn, 6);
	detach(&l.b, &group);
}

/* ---- two processes --------------------------------------------------------------------------- */

static void a_dead_member_is_no_member(struct ct *t)
{
	struct meeting m;

	meet(t, &m);
	attach(&m.l.a, &m.group);
	take(&m.l.a, 2);
	take(&m.l.a, 3);
	take(&m.l.b, 4);
	say(&m.l, m.ah, 1, CT_QKEY, 1);
	expect(&m.l.b, 4, m.l.a.qpn, 1);
	expect(&m.l.a, 2, m.l.a.qpn, 1);
	ct_end_kill(t->far);
	say(&m.l, m.ah, 1, CT_QKEY, 2);
	expect(&m.l.a, 3, m.l.a.qpn, 2);
	detach(&m.l.a, &m.group);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void only_multicast_addresses(struct ct *t)
{
	union ibv_gid group = make_group(t), plain = t->near->gid;
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	CT_EQ(ct_attach_mcast(&l.a, &plain, MLID), EINVAL);
	CT_EQ(ct_detach_mcast(&l.a, &group, MLID), EINVAL);
	if (t->infiniband) {
		CT_EQ(ct_attach_mcast(&l.a, &group, 0), EINVAL);
		CT_EQ(ct_attach_mcast(&l.a, &group, 0xbfff), EINVAL);
		CT_EQ(ct_attach_mcast(&l.a, &group, 0xffff), EINVAL);
	}
}

const struct ct_case ct_mcast_cases[] = {
	{ "every member of a group gets a copy, and nobody else", every_member_gets_a_copy,
	  CT_UD | CT_IB },
	{ "a sender that is a member gets its own copy", the_sender_hears_itself, CT_UD | CT_IB },
	{ "a member takes its own Q_Key only", another_qkey_is_not_taken, CT_UD | CT_IB },
	{ "who leaves a group gets no more of it", who_leaves_gets_no_more, CT_UD | CT_IB },
	{ "attaching twice is one attachment", attached_twice_is_attached, CT_UD | CT_IB },
	{ "a message to one group is for no other", groups_are_apart, CT_UD | CT_IB },
	{ "a burst to a group arrives in order", a_burst, CT_UD | CT_IB },
	{ "a QP can be attached before it receives", attached_in_init, CT_UD },
	{ "the header in front names the group", header_names_the_group, CT_UD },
	{ "an IPv4 group has several MGIDs", one_group_has_several_names, CT_UD },
	{ "groups may be IPv6 addresses", ipv6_groups, CT_UD },
	{ "a member that died is in nobody's way", a_dead_member_is_no_member, CT_UD | CT_TWO },
	{ "attaching needs a multicast address, detaching an attachment", only_multicast_addresses,
	  CT_UD | CT_IB },
	{ 0 },
};
