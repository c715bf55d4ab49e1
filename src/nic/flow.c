/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"

enum { ETHERTYPE_IPV4 = 0x0800, ETHERTYPE_IPV6 = 0x86dd, IPV4 = 4, IPV6 = 6 };

#define FLOW_LABEL_BITS 0xfffffu

static int refuse_flow(int err, const char *why)
{
	vb_explain("ibv_create_flow: %s", why);
	return err;
}

/* Takes the value and the mask of one field of any type. */
#define TAKE(flow, field, filter, of)                                                           \
	do {                                                                                    \
		memcpy(&(flow)->value.key.field, &(filter)->val.of, sizeof((filter)->val.of));  \
		memcpy(&(flow)->mask.key.field, &(filter)->mask.of, sizeof((filter)->mask.of)); \
	} while (0)

/* --- layers --- */

static int take_eth(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_eth *eth = &spec->eth;

	TAKE(flow, dst_mac, eth, dst_mac);
	TAKE(flow, src_mac, eth, src_mac);
	TAKE(flow, ether_type, eth, ether_type);
	TAKE(flow, vlan_tag, eth, vlan_tag);
	if (eth->mask.vlan_tag)
		flow->value.key.tagged = flow->mask.key.tagged = 0xff;
	return 0;
}

static int take_l3(struct vb_flow *flow, uint8_t version)
{
	if (flow->mask.key.l3)
		return refuse_flow(-EINVAL, "two specifications of the network layer");
	flow->value.key.l3 = version;
	flow->mask.key.l3 = 0xff;
	return 0;
}

static int take_ipv4(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv4 *ip = &spec->ipv4;

	TAKE(flow, src_ip, ip, src_ip);
	TAKE(flow, dst_ip, ip, dst_ip);
	return take_l3(flow, IPV4);
}

static int take_ipv4_ext(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv4_ext *ip = &spec->ipv4_ext;

	if (ip->mask.flags & ~(VB_IP_DONT_FRAGMENT | VB_IP_MORE_FRAGMENTS))
		return refuse_flow(-EINVAL, "unknown bits in the mask of IPv4 flags");
	TAKE(flow, src_ip, ip, src_ip);
	TAKE(flow, dst_ip, ip, dst_ip);
	TAKE(flow, protocol, ip, proto);
	TAKE(flow, tos, ip, tos);
	TAKE(flow, ttl, ip, ttl);
	TAKE(flow, ip_flags, ip, flags);
	return take_l3(flow, IPV4);
}

static int take_ipv6(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv6 *ip = &spec->ipv6;

	if (ntohl(ip->mask.flow_label) & ~FLOW_LABEL_BITS)
		return refuse_flow(-EINVAL, "a flow label has 20 bits, its mask has more");
	TAKE(flow, src_ip, ip, src_ip);
	TAKE(flow, dst_ip, ip, dst_ip);
	TAKE(flow, flow_label, ip, flow_label);
	TAKE(flow, protocol, ip, next_hdr);
	TAKE(flow, tos, ip, traffic_class);
	TAKE(flow, ttl, ip, hop_limit);
	return take_l3(flow, IPV6);
}

static int take_ports(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_tcp_udp *ports = &spec->tcp_udp;

	if (flow->mask.key.l4)
		return refuse_flow(-EINVAL, "two specifications of the transport layer");
	TAKE(flow, src_port, ports, src_port);
	TAKE(flow, dst_port, ports, dst_port);
	flow->value.key.l4 = spec->hdr.type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	flow->mask.key.l4 = 0xff;
	return 0;
}

/* --- actions --- */

static int take_tag(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	flow->tag = spec->flow_tag.tag_id;
	return 0;
}

static int take_drop(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	(void)spec;
	flow->drops = true;
	return 0;
}

static int take_count(struct vb_flow *flow, const struct ibv_flow_spec *spec)
{
	if (flow->counters || !spec->flow_count.counters)
		return refuse_flow(-EINVAL, "a flow counts in one counters object");
	flow->counters = spec->flow_count.counters;
	return 0;
}

static const struct layer {
	uint32_t type;
	uint16_t size;
	int (*take)(struct vb_flow *flow, const struct ibv_flow_spec *spec);
} layers[] = {
	{ IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth), take_eth },
	{ IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4), take_ipv4 },
	{ IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext), take_ipv4_ext },
	{ IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6), take_ipv6 },
	{ IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp), take_ports },
	{ IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp), take_ports },
	{ IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag), take_tag },
	{ IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop), take_drop },
	{ IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action), take_count },
};

/* Takes the specification at `at`; *size is its length. seen: a bit per type taken so far. */
static int take_spec(struct vb_flow *flow, const uint8_t *at, uint16_t *size, unsigned *seen)
{
	struct ibv_flow_spec spec = { 0 };

	memcpy(&spec.hdr, at, sizeof(spec.hdr));
	*size = spec.hdr.size;
	for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
		if (layers[i].type != (uint32_t)spec.hdr.type)
			continue;
		if (spec.hdr.size != layers[i].size)
			return refuse_flow(-EINVAL,
					   "a specification has the wrong size for its type");
		if (*seen & 1u << i)
			return refuse_flow(-EINVAL, "two specifications of one type");
		*seen |= 1u << i;
		memcpy(&spec, at, layers[i].size);
		return layers[i].take(flow, &spec);
	}
	vb_explain("ibv_create_flow: specifications of type 0x%x are not supported", spec.hdr.type);
	return -EOPNOTSUPP;
}

/* An IPv4 specification with a frame type other than IPv4 could never match. */
static int check_layers(const struct vb_flow *flow)
{
	const struct vb_flow_key *value = &flow->value.key, *mask = &flow->mask.key;
	uint16_t due = htons(value->l3 == IPV4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);

	if (mask->l3 && (value->ether_type ^ due) & mask->ether_type)
		return refuse_flow(-EINVAL, "the frame type contradicts the network layer");
	if (mask->l4 && (value->protocol ^ value->l4) & mask->protocol)
		return refuse_flow(-EINVAL, "the IP protocol contradicts the transport layer");
	return 0;
}

static void finish_pattern(struct vb_flow *flow)
{
	static const uint8_t whole[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

	flow->names_address = !memcmp(flow->mask.key.dst_mac, whole, sizeof(whole));
	for (unsigned i = 0; i < VB_FLOW_KEY_WORDS; i++)
		flow->value.word[i] &= flow->mask.word[i];
}

/* --- types --- */

enum { RANK_SNIFFER = 0, RANK_NORMAL = 1 << 16, RANK_MULTICAST = 2 << 16, RANK_ALL = 3 << 16 };

static void take_type(struct vb_flow *flow, const struct ibv_flow_attr *attr)
{
	switch (attr->type) {
	case IBV_FLOW_ATTR_NORMAL:
		flow->rank = RANK_NORMAL + attr->priority;
		break;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		flow->rank = RANK_ALL;
		flow->promiscuous = true;
		break;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		flow->rank = RANK_MULTICAST;
		flow->value.key.dst_mac[0] = flow->mask.key.dst_mac[0] = 1;
		break;
	case IBV_FLOW_ATTR_SNIFFER:
		flow->rank = RANK_SNIFFER;
		flow->sniffs = flow->goes_on = flow->promiscuous = true;
		break;
	}
	flow->goes_on |= attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
}

static int check_attr(const struct ibv_flow_attr *attr)
{
	const uint32_t known = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;

	if (attr->comp_mask || attr->flags & ~known || (uint32_t)attr->type > IBV_FLOW_ATTR_SNIFFER)
		return refuse_flow(-EINVAL,
				   "unknown bits in comp_mask or flags, or an unknown type");
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP && attr->type != IBV_FLOW_ATTR_NORMAL)
		return refuse_flow(-EINVAL, "only a normal rule may have the flag DONT_TRAP");
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return refuse_flow(-EOPNOTSUPP, "rules for frames that are sent are not supported");
	if (attr->port != 1)
		return refuse_flow(-EINVAL, "the device has port 1 only");
	if (attr->num_of_specs > VB_FLOW_SPECS_MAX)
		return refuse_flow(-EINVAL, "more than 10 specifications");
	return 0;
}

int vb_flow_compile(const struct ibv_flow_attr *attr, struct vb_flow *flow)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	int err = check_attr(attr);
	unsigned seen = 0;
	uint16_t size;

	for (unsigned i = 0; !err && i < attr->num_of_specs; i++, at += size)
		err = take_spec(flow, at, &size, &seen);
	if (!err)
		err = check_layers(flow);
	if (!err && attr->type != IBV_FLOW_ATTR_NORMAL)
		for (unsigned i = 0; i < VB_FLOW_KEY_WORDS && !err; i++)
			if (flow->mask.word[i])
				err = refuse_flow(-EINVAL, "only a normal rule has specifications");
	if (err)
		return err;
	take_type(flow, attr);
	finish_pattern(flow);
	return 0;
}

bool vb_flow_same(const struct vb_flow *a, const struct vb_flow *b)
{
	return a->rank == b->rank && !memcmp(&a->value, &b->value, sizeof(a->value)) &&
	       !memcmp(&a->mask, &b->mask, sizeof(a->mask));
}
