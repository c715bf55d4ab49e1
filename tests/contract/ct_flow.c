/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows: which frames a rule takes, which of several rules, and what they do besides. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "ct_raw.h"

/* ---- what a rule names ----------------------------------------------------------------------- */

struct change { /* what makes the frame another one; everything else stays */
	const char *what;
	void (*apply)(struct raw_frame *f);
};

static void other_src(struct raw_frame *f)
{
	f->src[5] ^= 1;
}
static void other_type(struct raw_frame *f)
{
	f->type ^= 1;
}
static void other_vlan(struct raw_frame *f)
{
	f->vlan ^= 1;
}
static void no_vlan(struct raw_frame *f)
{
	f->vlan = 0;
}
static void other_src_ip(struct raw_frame *f)
{
	f->src_ip[3] ^= 1;
}
static void other_dst_ip(struct raw_frame *f)
{
	f->dst_ip[3] ^= 1;
}
static void other_proto(struct raw_frame *f)
{
	f->proto ^= IPPROTO_TCP ^ IPPROTO_UDP;
}
static void other_tos(struct raw_frame *f)
{
	f->tos ^= 4;
}
static void other_ttl(struct raw_frame *f)
{
	f->ttl ^= 1;
}
static void other_label(struct raw_frame *f)
{
	f->label ^= 1;
}
static void other_src_port(struct raw_frame *f)
{
	f->src_port ^= 1;
}
static void other_dst_port(struct raw_frame *f)
{
	f->dst_port ^= 1;
}

/* The rule takes the frame, and none that differs in one of these. */
static void only_that(struct raw_box *a, struct raw_box *b, struct raw_rule *rule,
		      const struct raw_frame *frame, const struct change *changes)
{
	struct ibv_flow *flow = raw_flow(b, rule);

	for (; changes->what; changes++) {
		struct raw_frame other = *frame;

		changes->apply(&other);
		raw_send(a, &other, 0);
		CT_EQ(raw_count(b, frame->mark), 0);
		raw_send(a, frame, 0);
		CT_EQ(raw_count(b, frame->mark), 1);
	}
	CT_EQ(ibv_destroy_flow(flow), 0);
}

static void by_ethernet(struct raw_box *a, struct raw_box *b)
{
	static const struct change changes[] = {
		{ "src", other_src },
		{ "type", other_type },
		{ "vlan", other_vlan },
		{ "no vlan", no_vlan },
		{ 0 },
	};
	struct raw_frame frame = raw_frame(2);
	struct ibv_flow_spec_eth eth;
	struct raw_rule rule = raw_rule();

	frame.vlan = 0x2005;
	eth = raw_eth(&frame);
	memset(&eth.mask, 0xff, sizeof(eth.mask));
	raw_add(&rule, &eth, sizeof(eth));
	only_that(a, b, &rule, &frame, changes);
}

/* Only some bits count. */
static void by_mask(struct raw_box *a, struct raw_box *b)
{
	static const struct change changes[] = { { "src", other_src }, { 0 } };
	struct raw_frame frame = raw_frame(2);
	struct ibv_flow_spec_eth eth = raw_eth(&frame);
	struct raw_rule rule = raw_rule();

	memset(eth.mask.dst_mac, 0xff, 6);
	eth.mask.src_mac[5] = 1;
	eth.val.src_mac[0] = 0x40; /* no bit of the mask: does not count */
	raw_add(&rule, &eth, sizeof(eth));
	frame.src[5] = 0x11;
	only_that(a, b, &rule, &frame, changes);
	frame.src[5] = 0x31;
	only_that(a, b, &rule, &frame, changes);
}

static struct raw_frame ip_frame(uint16_t type, uint8_t proto)
{
	struct raw_frame frame = raw_frame(2);

	frame.type = type;
	frame.proto = proto;
	frame.tos = 0x20;
	frame.ttl = 33;
	frame.label = type == RAW_IPV6 ? 0x12344 : 0;
	memcpy(frame.src_ip, "\x0a\x01\x02\x04", 4);
	memcpy(frame.dst_ip, "\x0a\x01\x02\x08", 4);
	frame.src_port = 4000;
	frame.dst_port = 5000;
	return frame;
}

static void by_ipv4(struct raw_box *a, struct raw_box *b)
{
	static const struct change changes[] = {
		{ "src", other_src_ip },
		{ "dst", other_dst_ip },
		{ 0 },
	};
	struct raw_frame frame = ip_frame(RAW_IPV4, IPPROTO_UDP);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_flow_spec_ipv4 ip = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip) };

	memcpy(&ip.val.src_ip, frame.src_ip, 4);
	memcpy(&ip.val.dst_ip, frame.dst_ip, 4);
	memset(&ip.mask, 0xff, sizeof(ip.mask));
	raw_add(&rule, &ip, sizeof(ip));
	only_that(a, b, &rule, &frame, changes);
}

static void by_ipv4_ext(struct raw_box *a, struct raw_box *b)
{
	static const struct change changes[] = {
		{ "src", other_src_ip }, { "dst", other_dst_ip }, { "proto", other_proto },
		{ "tos", other_tos },    { "ttl", other_ttl },    { 0 },
	};
	struct raw_frame frame = ip_frame(RAW_IPV4, IPPROTO_UDP);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_flow_spec_ipv4_ext ip = { .type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(ip) };

	memcpy(&ip.val.src_ip, frame.src_ip, 4);
	memcpy(&ip.val.dst_ip, frame.dst_ip, 4);
	ip.val.proto = frame.proto;
	ip.val.tos = frame.tos;
	ip.val.ttl = frame.ttl;
	ip.val.flags = 2; /* don't fragment */
	memset(&ip.mask, 0xff, sizeof(ip.mask));
	ip.mask.flags = 6;
	raw_add(&rule, &ip, sizeof(ip));
	only_that(a, b, &rule, &frame, changes);
}

static void by_ipv6(struct raw_box *a, struct raw_box *b)
{
	static const struct change changes[] = {
		{ "src", other_src_ip },
		{ "dst", other_dst_ip },
		{ "proto", other_proto },
		{ "class", other_tos },
		{ "hops", other_ttl },
		{ "label", other_label },
		{ 0 },
	};
	struct raw_frame frame = ip_frame(RAW_IPV6, IPPROTO_TCP);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_flow_spec_ipv6 ip = { .type = IBV_FLOW_SPEC_IPV6, .size = sizeof(ip) };

	memset(&ip.mask, 0xff, sizeof(ip.mask));
	memcpy(ip.val.src_ip, frame.src_ip, 16);
	memcpy(ip.val.dst_ip, frame.dst_ip, 16);
	ip.val.flow_label = htonl(frame.label);
	ip.mask.flow_label = htonl(0xfffff);
	ip.val.next_hdr = frame.proto;
	ip.val.traffic_class = frame.tos;
	ip.val.hop_limit = frame.ttl;
	raw_add(&rule, &ip, sizeof(ip));
	only_that(a, b, &rule, &frame, changes);
}

static void by_ports(struct raw_box *a, struct raw_box *b, enum ibv_flow_spec_type type)
{
	static const struct change changes[] = {
		{ "src", other_src_port },
		{ "dst", other_dst_port },
		{ "proto", other_proto },
		{ 0 },
	};
	uint8_t proto = type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	struct raw_frame frame = ip_frame(type == IBV_FLOW_SPEC_TCP ? RAW_IPV6 : RAW_IPV4, proto);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_flow_spec_tcp_udp ports = { .type = type, .size = sizeof(ports) };

	memset(&ports.mask, 0xff, sizeof(ports.mask));
	ports.val.src_port = htons(frame.src_port);
	ports.val.dst_port = htons(frame.dst_port);
	raw_add(&rule, &ports, sizeof(ports));
	only_that(a, b, &rule, &frame, changes);
}

static void fields(struct ct *t)
{
	struct raw_box a, b;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	by_ethernet(&a, &b);
	by_mask(&a, &b);
	by_ipv4(&a, &b);
	by_ipv4_ext(&a, &b);
	by_ipv6(&a, &b);
	by_ports(&a, &b, IBV_FLOW_SPEC_TCP);
	by_ports(&a, &b, IBV_FLOW_SPEC_UDP);
	raw_close(&a);
	raw_close(&b);
}

/* ---- several rules --------------------------------------------------------------------------- */

static void priorities(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule first = raw_rule_for(&frame), second = first, same = second;
	struct raw_box a, b, c, d;
	struct ibv_flow *flows[3];

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	raw_open(t, &c, 2);
	raw_open(t, &d, 3);
	second.attr.priority = same.attr.priority = 7;
	first.attr.priority = 3;
	flows[0] = raw_flow(&c, &second);
	flows[1] = raw_flow(&d, &same);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&c, frame.mark), 1); /* one rule of two QPs: each gets it */
	CT_EQ(raw_count(&d, frame.mark), 1);
	flows[2] = raw_flow(&b, &first);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 1);
	CT_EQ(raw_count(&c, frame.mark) + raw_count(&d, frame.mark), 0);
	CT_EQ(ibv_destroy_flow(flows[2]), 0);
	first.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	flows[2] = raw_flow(&b, &first);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 1);
	CT_EQ(raw_count(&c, frame.mark), 1);
	CT_EQ(raw_count(&d, frame.mark), 1);
	for (int i = 0; i < 3; i++)
		CT_EQ(ibv_destroy_flow(flows[i]), 0);
	raw_close(&a);
	raw_close(&b);
	raw_close(&c);
	raw_close(&d);
}

/* Whatever else arrives at the interface may use up receives: then once more. */
static bool reaches(struct raw_box *from, const struct raw_frame *frame, struct raw_box *to)
{
	for (int i = 0; i < 50; i++) {
		raw_send(from, frame, 0);
		if (raw_count(to, frame->mark))
			return true;
	}
	return false;
}

static void defaults(struct ct *t)
{
	struct raw_frame frame = raw_frame(2), other = raw_frame(3), group = raw_frame(4);
	struct raw_rule rule = raw_rule_for(&frame), all = raw_rule(), many = raw_rule(),
			sniffer = raw_rule();
	struct raw_box a, b, c, d;
	struct ibv_flow *flows[4];

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	raw_open(t, &c, 2);
	raw_open(t, &d, 3);
	raw_mac(group.dst, true, 1);
	many.attr.type = IBV_FLOW_ATTR_MC_DEFAULT;
	all.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	sniffer.attr.type = IBV_FLOW_ATTR_SNIFFER;
	flows[0] = raw_flow(&b, &rule);
	flows[1] = raw_flow(&c, &all);
	CT_TRUE(reaches(&a, &group, &c));
	flows[2] = raw_flow(&d, &many);
	CT_TRUE(reaches(&a, &group, &d));
	CT_EQ(raw_count(&c, group.mark), 0);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 1);
	CT_EQ(raw_count(&c, frame.mark) + raw_count(&d, frame.mark), 0);
	CT_EQ(ibv_destroy_flow(flows[2]), 0);
	flows[2] = raw_flow(&d, &sniffer); /* sees what others get, and changes nothing */
	CT_TRUE(reaches(&a, &frame, &d));
	CT_TRUE(raw_count(&b, frame.mark) > 0);
	CT_TRUE(reaches(&a, &other, &d));
	for (int i = 0; i < 3; i++)
		CT_EQ(ibv_destroy_flow(flows[i]), 0);
	raw_close(&a);
	raw_close(&b);
	raw_close(&c);
	raw_close(&d);
}

/* ---- messages of the local path -------------------------------------------------------------- */

enum { OPCODE_SEND_ONLY = 0x04, OPCODE_ACK = 0x11, SNIFFED_BYTES = 100 };

/* The BTH of a RoCEv2 frame; NULL: it is another frame. */
static const uint8_t *bth_of(const uint8_t *at, uint32_t length)
{
	const uint32_t ip = at[12] == 0x86 ? 40 : 20;
	const uint8_t *udp = at + 14 + ip;

	if (length < 14 + ip + 8 + 12 || at[12] == 0x88 || udp[2] << 8 != (4791 & 0xff00) ||
	    udp[3] != (4791 & 0xff))
		return NULL;
	return udp + 8;
}

static bool is_for(const uint8_t *bth, uint8_t opcode, uint32_t qpn)
{
	return bth[0] == opcode && ((uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7]) == qpn;
}

/* Looks at the frames that are there for a SEND of these bytes, and for its ACK. */
static void sniff(struct raw_box *box, const struct ct_link *l, const uint8_t *payload, bool *send,
		  bool *ack)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(box->cq, 1, &wc) == 1) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)box->t->near->base + box->at +
				    wc.wr_id * RAW_ROOM;
		const uint8_t *bth = bth_of(at, wc.byte_len);

		CT_EQ(wc.status, IBV_WC_SUCCESS);
		if (bth && is_for(bth, OPCODE_SEND_ONLY, l->b.qpn))
			*send |= !memcmp(bth + 12, payload, SNIFFED_BYTES);
		*ack |= bth && is_for(bth, OPCODE_ACK, l->a.qpn);
		raw_post(box->t, box->qp, box->at + wc.wr_id * RAW_ROOM, wc.wr_id);
	}
}

/* The capture begins a moment after the flow: messages are sent until one is seen. */
static void sniff_until_seen(struct raw_box *box, struct ct_link *l)
{
	const double until_s = ct_now_s() + 20;
	bool send = false, ack = false;
	uint8_t payload[SNIFFED_BYTES];

	for (unsigned i = 0; !(send && ack) && ct_now_s() < until_s; i++) {
		ct_fill(l->a.end, RAW_SEND_AT, SNIFFED_BYTES, 7);
		ct_peek_bytes(l->a.end, RAW_SEND_AT, SNIFFED_BYTES, payload);
		ct_recv(&l->b, i, RAW_SEND_AT + 4096, SNIFFED_BYTES);
		ct_send(l, i, RAW_SEND_AT, SNIFFED_BYTES);
		ct_sent(l, i, IBV_WC_SUCCESS);
		ct_got(l, i, IBV_WC_SUCCESS);
		sniff(box, l, payload, &send, &ack);
	}
	CT_TRUE(send);
	CT_TRUE(ack);
}

static void local_messages(struct ct *t)
{
	struct raw_rule sniffer = raw_rule();
	struct ct_link there, back;
	struct ibv_flow *flow;
	struct raw_box box;

	if (ct_by_packets())
		ct_skip("packets may leave by another interface than the device's");
	/* It would see theirs, and those of this test after some time only. */
	if (!getenv("VERBENA_TEST_ALONE"))
		ct_skip("other processes of this network have messages, too");
	raw_open(t, &box, 0);
	sniffer.attr.type = IBV_FLOW_ATTR_SNIFFER;
	ct_link_open(t, &there, NULL);
	back = there;
	back.a = there.b;
	back.b = there.a;
	flow = raw_flow(&box, &sniffer);
	sniff_until_seen(&box, &there);
	sniff_until_seen(&box, &back);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&box);
}

/* ---- actions --------------------------------------------------------------------------------- */

static void counting_and_dropping(struct ct *t)
{
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS },
				       bytes = { .counter_desc = IBV_COUNTER_BYTES, .index = 1 };
	struct ibv_counters *counters = ibv_create_counters(ct_context(t->near), &init);
	struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
						      .size = sizeof(count),
						      .counters = counters };
	struct ibv_flow_spec_action_drop drop = { .type = IBV_FLOW_SPEC_ACTION_DROP,
						  .size = sizeof(drop) };
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_flow *flow;
	uint64_t values[2];

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	CT_TRUE(counters != NULL);
	CT_EQ(ibv_attach_counters_point_flow(counters, &packets, NULL), 0);
	CT_EQ(ibv_attach_counters_point_flow(counters, &bytes, NULL), 0);
	raw_add(&rule, &count, sizeof(count));
	flow = raw_flow(&b, &rule);
	CT_ERROR(ibv_destroy_counters(counters), EBUSY);
	for (int i = 0; i < 3; i++)
		raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 3);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_add(&rule, &drop, sizeof(drop));
	flow = raw_flow(&b, &rule);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 0);
	CT_EQ(ibv_read_counters(counters, values, 2, 0), 0);
	CT_EQ(values[0], 4);
	CT_EQ(values[1], 4 * RAW_LENGTH);
	CT_EQ(ibv_destroy_flow(flow), 0);
	CT_EQ(ibv_destroy_counters(counters), 0);
	raw_close(&a);
	raw_close(&b);
}

static void tags(struct ct *t)
{
	struct ibv_cq_init_attr_ex cq_init = {
		.cqe = 64,
		.wc_flags = IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_flow_spec_action_tag tag = { .type = IBV_FLOW_SPEC_ACTION_TAG,
						.size = sizeof(tag),
						.tag_id = 0xabcdef };
	struct ibv_poll_cq_attr poll = { 0 };
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_cq_ex *cq;
	struct ibv_flow *flow;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	CT_EQ(ibv_destroy_qp(b.qp), 0);
	CT_EQ(ibv_destroy_cq(b.cq), 0);
	cq = ibv_create_cq_ex(ct_context(t->near), &cq_init);
	CT_TRUE(cq != NULL);
	{
		struct ibv_qp_init_attr init = {
			.send_cq = ibv_cq_ex_to_cq(cq),
			.recv_cq = ibv_cq_ex_to_cq(cq),
			.cap = { .max_recv_wr = 8, .max_recv_sge = 1 },
			.qp_type = IBV_QPT_RAW_PACKET,
		};

		b.qp = ibv_create_qp(ct_object(t->near, t->near->pd), &init);
		CT_TRUE(b.qp != NULL);
		raw_to_rts(b.qp);
	}
	raw_post(t, b.qp, b.at, 0);
	raw_add(&rule, &tag, sizeof(tag));
	flow = raw_flow(&b, &rule);
	raw_send(&a, &frame, 0);
	CT_EQ(ct_start_poll(cq, &poll), 0);
	CT_EQ(cq->status, IBV_WC_SUCCESS);
	CT_EQ(ibv_wc_read_byte_len(cq), RAW_LENGTH);
	CT_EQ(ibv_wc_read_flow_tag(cq), 0xabcdef);
	ibv_end_poll(cq);
	CT_EQ(ibv_destroy_flow(flow), 0);
	CT_EQ(ibv_destroy_qp(b.qp), 0);
	CT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	raw_close(&a);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void refused(struct ct *t)
{
	struct ibv_flow_spec_tcp_udp tcp = { .type = IBV_FLOW_SPEC_TCP, .size = sizeof(tcp) };
	struct ibv_flow_spec_ipv4 v4 = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof(v4) };
	struct ibv_flow_spec_ipv6 v6 = { .type = IBV_FLOW_SPEC_IPV6, .size = sizeof(v6) };
	struct ibv_flow_spec_tunnel tunnel = { .type = IBV_FLOW_SPEC_VXLAN_TUNNEL,
					       .size = sizeof(tunnel) };
	struct raw_frame frame = raw_frame(2);
	struct raw_rule good = raw_rule_for(&frame), rule;
	struct ibv_flow_spec_eth eth = raw_eth(&frame);
	struct ibv_device_attr device;
	struct raw_box a;

	raw_open(t, &a, 0);
	CT_EQ(ibv_query_device(ct_context(t->near), &device), 0);
	CT_TRUE(device.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
#define REFUSED(with, wanted)                                       \
	do {                                                        \
		rule = good;                                        \
		with;                                               \
		CT_NULL(ibv_create_flow(a.qp, &rule.attr), wanted); \
	} while (0)
	REFUSED(rule.attr.comp_mask = 1, EINVAL);
	REFUSED(rule.attr.port = 2, EINVAL);
	REFUSED(rule.attr.port = 0, EINVAL);
	REFUSED(rule.attr.type = 9, EINVAL);
	REFUSED(rule.attr.flags = 1 << 9, EINVAL);
	REFUSED(rule.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS, EOPNOTSUPP);
	for (int type = IBV_FLOW_ATTR_ALL_DEFAULT; type <= IBV_FLOW_ATTR_SNIFFER; type++)
		REFUSED(rule = raw_rule(); rule.attr.type = type;
			rule.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP, EINVAL);
	REFUSED(raw_add(&rule, &eth, sizeof(eth)), EINVAL); /* the second of its layer */
	REFUSED(rule.attr.num_of_specs = 200, EINVAL);
	REFUSED(rule.attr.type = IBV_FLOW_ATTR_SNIFFER, EINVAL); /* with a specification */
	REFUSED(rule.specs[4]++, EINVAL);                        /* its size */
	REFUSED(raw_add(&rule, &tunnel, sizeof(tunnel)), EOPNOTSUPP);
	REFUSED(tcp.type |= IBV_FLOW_SPEC_INNER; raw_add(&rule, &tcp, sizeof(tcp)), EOPNOTSUPP);
	REFUSED(raw_add(&rule, &v4, sizeof(v4)); raw_add(&rule, &v6, sizeof(v6)), EINVAL);
#undef REFUSED
	{
		struct ibv_flow *flow = raw_flow(&a, &good);

		CT_ERROR(ibv_destroy_qp(a.qp), EBUSY);
		CT_EQ(ibv_destroy_flow(flow), 0);
	}
	{
		struct ibv_qp_init_attr init = { .send_cq = a.cq,
						 .recv_cq = a.cq,
						 .qp_type = IBV_QPT_RC };
		struct ibv_qp *rc = ibv_create_qp(ct_object(t->near, t->near->pd), &init);

		CT_TRUE(rc != NULL);
		CT_NULL(ibv_create_flow(rc, &good.attr), EINVAL);
		CT_EQ(ibv_destroy_qp(rc), 0);
	}
	raw_close(&a);
}

const struct ct_case ct_flow_cases[] = {
	{ "a rule takes the frames that it names, and no others", fields, CT_SOLO },
	{ "the rule with the lower priority value comes first", priorities, CT_SOLO },
	{ "default rules take what nobody else does, a sniffer everything", defaults, CT_SOLO },
	{ "a sniffer sees the messages of the local path", local_messages, CT_RC },
	{ "a rule counts, and drops", counting_and_dropping, CT_SOLO },
	{ "a completion tells the tag of the rule", tags, CT_SOLO },
	{ "create_flow checks its arguments", refused, CT_SOLO },
	{ 0 },
};
