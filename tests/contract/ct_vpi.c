/* SPDX-License-Identifier: BSD-2-Clause */
/* InfiniBand ports: LIDs, service levels, and a GRH only where there is one. */
#include <arpa/inet.h>
#include <endian.h>

#include "ct.h"

static const uint64_t TARGET = 65536;
enum {
	LID_LAST = 0xbfff,
	NO_LID = LID_LAST, /* of nobody */
	SL = 5,
	HOPS = 17,
	CLASS = 0x20,
	UNTOUCHED = 0x5a, /* pattern of ct_fill */
};

static void port_attributes(struct ct *t)
{
	const struct ibv_port_attr *port = &t->near->port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	CT_EQ(port->link_layer, IBV_LINK_LAYER_INFINIBAND);
	CT_EQ(port->state, IBV_PORT_ACTIVE);
	CT_TRUE(port->lid >= 1 && port->lid <= LID_LAST);
	CT_TRUE(port->sm_lid >= 1 && port->sm_lid <= LID_LAST);
	CT_EQ(port->lmc, 0);
	CT_EQ(port->flags & IBV_QPF_GRH_REQUIRED, 0);
	CT_EQ(ibv_query_gid(ct_context(t->near), 1, 0, &gid), 0);
	CT_EQ(gid.global.subnet_prefix, htobe64(0xfe80ull << 48));
	CT_EQ(gid.global.interface_id, ibv_get_device_guid(ct_context(t->near)->device));
	CT_EQ(ibv_query_gid_ex(ct_context(t->near), 1, 0, &entry, 0), 0);
	CT_EQ(entry.gid_type, IBV_GID_TYPE_IB);
}

static void bad_addresses(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	ct_address(t->near, t->near, &attr);
	ah = ibv_create_ah(pd, &attr); /* no GRH */
	CT_TRUE(ah != NULL);
	CT_EQ(ibv_destroy_ah(ah), 0);
	attr.dlid = 0;
	CT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr.dlid = t->near->port.lid;
	attr.port_num = 2;
	CT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr.port_num = 1;
	attr.is_global = 1;
	attr.grh.sgid_index = 1; /* empty */
	CT_NULL(ibv_create_ah(pd, &attr), EINVAL);
}

/* Neither told of nor there. */
static void no_frames(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq
	};
	struct ibv_qp_init_attr qp = { .send_cq = cq,
				       .recv_cq = cq,
				       .qp_type = IBV_QPT_RAW_PACKET };
	struct ibv_device_attr_ex device;

	CT_EQ(ibv_query_device_ex(ctx, NULL, &device), 0);
	CT_EQ(device.max_wq_type_rq, 0);
	CT_EQ(device.rss_caps.supported_qpts, 0);
	CT_EQ(device.tso_caps.max_tso, 0);
	CT_EQ(device.raw_packet_caps, 0);
	CT_NULL(ibv_create_wq(ctx, &wq), EOPNOTSUPP);
	CT_NULL(ibv_create_qp(pd, &qp), EOPNOTSUPP);
}

static int make_ah(struct ct_end *from, const struct ct_end *to, bool grh)
{
	struct ibv_ah_attr attr;
	int ah;

	ct_address(from, to, &attr);
	attr.sl = SL;
	attr.is_global = grh;
	attr.grh.dgid = to->gid;
	attr.grh.hop_limit = HOPS;
	attr.grh.traffic_class = CLASS;
	ah = ct_create_ah(from, from->pd, &attr);
	CT_TRUE(ah > 0);
	return ah;
}

static struct ibv_wc deliver(struct ct_link *l, int ah)
{
	struct ct_link by_ah = *l;

	by_ah.ah_a = ah;
	ct_fill(l->a.end, 0, 100, 1);
	ct_fill(l->b.end, TARGET, 1024, UNTOUCHED);
	ct_recv(&l->b, 2, TARGET, 1024);
	ct_send(&by_ah, 1, 0, 100);
	ct_sent(l, 1, IBV_WC_SUCCESS);
	return ct_got(l, 2, IBV_WC_SUCCESS);
}

static void check_completion(const struct ct_link *l, const struct ibv_wc *wc)
{
	CT_EQ(wc->byte_len, CT_GRH_BYTES + 100);
	CT_EQ(wc->src_qp, l->a.qpn);
	CT_EQ(wc->slid, l->a.end->port.lid);
	CT_EQ(wc->sl, SL);
	CT_EQ(wc->dlid_path_bits, 0);
	ct_same(l->b.end, TARGET + CT_GRH_BYTES, 100, 1);
}

static void without_grh(struct ct *t)
{
	struct ct_link l;
	struct ibv_wc wc;

	ct_link_open(t, &l, NULL);
	wc = deliver(&l, make_ah(t->near, t->far, false));
	check_completion(&l, &wc);
	CT_EQ(wc.wc_flags & IBV_WC_GRH, 0);
}

static void with_grh(struct ct *t)
{
	struct ibv_grh grh;
	struct ct_link l;
	struct ibv_wc wc;

	ct_link_open(t, &l, NULL);
	wc = deliver(&l, make_ah(t->near, t->far, true));
	check_completion(&l, &wc);
	CT_TRUE(wc.wc_flags & IBV_WC_GRH);
	ct_peek_bytes(t->far, TARGET, CT_GRH_BYTES, &grh);
	CT_EQ(ntohl(grh.version_tclass_flow) >> 28, 6);
	CT_EQ(ntohl(grh.version_tclass_flow) >> 20 & 0xff, CLASS);
	CT_EQ(grh.hop_limit, HOPS);
	CT_EQ(memcmp(&grh.sgid, &t->near->gid, 16), 0);
	CT_EQ(memcmp(&grh.dgid, &t->far->gid, 16), 0);
}

/* A server makes its address handle from the completion, whatever kind it was. */
static void check_answer(struct ct *t, struct ct_link *l, bool grh_sent)
{
	struct ct_link to_near = ct_reverse(l), answer = *l;
	struct ibv_ah_attr attr;
	struct ibv_grh grh;
	struct ibv_wc wc = deliver(&to_near, make_ah(t->far, t->near, grh_sent));

	ct_peek_bytes(t->near, TARGET, CT_GRH_BYTES, &grh);
	CT_EQ(ibv_init_ah_from_wc(ct_context(t->near), 1, &wc, &grh, &attr), 0);
	CT_EQ(attr.is_global, grh_sent);
	CT_EQ(attr.dlid, t->far->port.lid);
	CT_EQ(attr.sl, SL);
	answer.ah_a = ct_create_ah(t->near, t->near->pd, &attr);
	CT_TRUE(answer.ah_a > 0);
	ct_recv(&l->b, 8, TARGET, 1024);
	ct_send(&answer, 7, 0, 50);
	ct_sent(l, 7, IBV_WC_SUCCESS);
	wc = ct_got(l, 8, IBV_WC_SUCCESS);
	CT_EQ(!!(wc.wc_flags & IBV_WC_GRH), grh_sent);
	CT_EQ(wc.slid, t->near->port.lid);
}

static void answers(struct ct *t)
{
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	check_answer(t, &l, false);
	check_answer(t, &l, true);
}

/* One end names the other by GID, the other by LID. */
static void grh_at_one_end(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_link l, back;
	int mask;

	ct_link_create(t, &l, NULL);
	back = ct_reverse(&l);
	ct_init(&l.a);
	ct_init(&l.b);
	mask = ct_attr_rtr(&l.a, &l.b, &l.o, &attr);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = t->far->gid;
	attr.ah_attr.grh.hop_limit = 1;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), 0);
	ct_rtr(&l.b, &l.a, &l.o);
	ct_rts(&l.a, &l.o);
	ct_rts(&l.b, &l.o);
	ct_usable(&l);
	ct_usable(&back);
}

static void nobody(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ibv_qp_attr attr;
	struct ct_link l;
	int mask;

	if (t->near->port.lid == NO_LID)
		ct_skip("LID 0x%x is ours", NO_LID);
	o.timeout = 8;
	o.retry_cnt = 0;
	ct_link_create(t, &l, &o);
	ct_init(&l.a);
	mask = ct_attr_rtr(&l.a, &l.b, &l.o, &attr);
	attr.ah_attr.dlid = NO_LID;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), 0);
	ct_rts(&l.a, &l.o);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
}

static void datagram_to_nobody(struct ct *t)
{
	struct ibv_ah_attr attr;
	struct ct_link l, astray;

	ct_link_open(t, &l, NULL);
	astray = l;
	ct_address(t->near, t->far, &attr);
	attr.dlid = NO_LID;
	astray.ah_a = ct_create_ah(t->near, t->near->pd, &attr);
	CT_TRUE(astray.ah_a > 0);
	ct_recv(&l.b, 2, TARGET, 1024);
	ct_send(&astray, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_send(&l, 3, 0, 80); /* not lost, so what comes is this */
	ct_sent(&l, 3, IBV_WC_SUCCESS);
	CT_EQ(ct_got(&l, 2, IBV_WC_SUCCESS).byte_len, CT_GRH_BYTES + 80);
}

/* Whatever the interface takes: within the host nothing leaves by it. */
static void largest_path_mtu(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, back;
	const uint32_t bytes = t->type == IBV_QPT_UD ? 4096 : 100001;

	CT_EQ(t->near->port.max_mtu, IBV_MTU_4096);
	CT_EQ(t->near->port.active_mtu, IBV_MTU_4096);
	o.mtu = IBV_MTU_4096;
	ct_link_open(t, &l, &o);
	back = ct_reverse(&l);
	ct_fill(t->near, 0, bytes, 5);
	ct_recv(&l.b, 2, TARGET, bytes + CT_GRH_BYTES);
	ct_send(&l, 1, 0, bytes);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET + ct_headroom(&l), bytes, 5);
	ct_usable(&back);
}

const struct ct_case ct_vpi_cases[] = {
	{ "an InfiniBand port has a LID, a subnet manager, and the GID of its GUID",
	  port_attributes, CT_SOLO | CT_ONLY_IB },
	{ "an AH needs no GRH on InfiniBand, but a LID", bad_addresses, CT_SOLO | CT_ONLY_IB },
	{ "an InfiniBand port has no frames: neither raw QPs nor work queues", no_frames,
	  CT_SOLO | CT_ONLY_IB },
	{ "a datagram without GRH says so, with LID and service level", without_grh,
	  CT_UD | CT_ONLY_IB },
	{ "a datagram with GRH brings it along", with_grh, CT_UD | CT_ONLY_IB },
	{ "a completion is answered by LID, and with a GRH if it had one", answers,
	  CT_UD | CT_ONLY_IB },
	{ "one end may use a GRH and the other none", grh_at_one_end, CT_RC | CT_UC | CT_ONLY_IB },
	{ "an InfiniBand port takes a path MTU of 4096", largest_path_mtu,
	  CT_RC | CT_UC | CT_UD | CT_ONLY_IB },
	{ "a LID of nobody is RETRY_EXC_ERR", nobody, CT_RC | CT_ONLY_IB },
	{ "a datagram to a LID of nobody is lost", datagram_to_nobody, CT_UD | CT_ONLY_IB },
	{ 0 },
};
