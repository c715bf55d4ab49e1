/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From GIDs to a way. Packets through UDP carry real addresses of this host. Some GIDs mean this
 * host and are none of its addresses: the link-local GID made from a MAC, the port of an InfiniBand
 * device, 127.0.0.1 and ::1 as a destination. Packets to those go over the loopback address.
 */
#include <errno.h>
#include <string.h>

#include "net/gid.h"
#include "nic/choice.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { SOURCE_PORT_FIRST = 0xc000, SOURCE_PORT_MASK = 0x3fff };

struct pair {
	struct vb_address src, dst;
	int ifindex;       /* multicast: of the source */
	uint16_t link_mtu; /* as in the way */
};

/* --- addresses --- */

static struct vb_address address_of(const union ibv_gid *gid, int ifindex)
{
	struct vb_address address = { .ipv6 = !vb_gid_is_ipv4(gid) };

	memcpy(address.bytes, gid->raw + (address.ipv6 ? 0 : 12), address.ipv6 ? 16 : 4);
	if (vb_gid_is_link_local(gid) || (address.ipv6 && vb_gid_is_multicast(gid)))
		address.scope = (uint32_t)ifindex;
	return address;
}

/*
 * The entry of an address that the kernel uses, or NULL. Several interfaces may have the same
 * link-local address, as a VLAN and the interface below it: the given interface (0: any) comes
 * first.
 */
static const struct vb_netif_addr *find_assigned(const struct vb_netif_snapshot *all,
						 const union ibv_gid *gid, int ifindex)
{
	const struct vb_netif_addr *found = NULL;

	for (size_t i = 0; i < all->addr_count; i++) {
		if (all->addrs[i].tentative || !vb_gid_equal(gid, &all->addrs[i].gid))
			continue;
		if (!found || all->addrs[i].ifindex == ifindex)
			found = &all->addrs[i];
	}
	return found;
}

static struct vb_address loopback_address(const struct vb_netif_snapshot *all, bool ipv6)
{
	const union ibv_gid localhost = { .raw = { [15] = 1 } };
	const struct vb_address ipv4 = { .bytes = { 127, 0, 0, 1 } };

	return ipv6 && find_assigned(all, &localhost, 0) ? address_of(&localhost, 0) : ipv4;
}

/* The interface of an own GID, which is an address or made from the MAC; 0: none. */
static int interface_of(const struct vb_netif_snapshot *all, const union ibv_gid *own)
{
	const struct vb_netif_addr *entry = find_assigned(all, own, 0);

	if (entry)
		return entry->ifindex;
	for (size_t i = 0; i < all->netif_count; i++) {
		const union ibv_gid made = vb_gid_from_guid(vb_netif_guid(all, &all->netifs[i]));

		if (vb_gid_equal(own, &made))
			return all->netifs[i].index;
	}
	return 0;
}

/* An address of the wanted family on the interface of the own GID. */
static const struct vb_netif_addr *source_for(const struct vb_netif_snapshot *all,
					      const struct vb_av *av, bool ipv6)
{
	const struct vb_netif_addr *entry = find_assigned(all, &av->sgid, av->ifindex);
	const int ifindex = av->ifindex ? av->ifindex : interface_of(all, &av->sgid);

	if (entry && vb_gid_is_ipv4(&av->sgid) != ipv6)
		return entry;
	for (size_t i = 0; i < all->addr_count; i++)
		if (all->addrs[i].ifindex == ifindex && !all->addrs[i].tentative &&
		    vb_gid_is_ipv4(&all->addrs[i].gid) != ipv6)
			return &all->addrs[i];
	return NULL;
}

static int pair_multicast(const struct vb_netif_snapshot *all, const struct vb_av *av,
			  struct pair *pair)
{
	const union ibv_gid group = vb_group_gid(&av->dgid);
	const struct vb_netif_addr *source = source_for(all, av, !vb_gid_is_ipv4(&group));

	if (!source)
		return -EADDRNOTAVAIL;
	pair->src = address_of(&source->gid, source->ifindex);
	pair->dst = address_of(&group, source->ifindex);
	pair->ifindex = source->ifindex;
	return 0;
}

/* The MTU of the interface with an own address; 0: unknown. */
static uint16_t mtu_at(const struct vb_netif_snapshot *all, const union ibv_gid *own)
{
	const struct vb_netif_addr *entry = find_assigned(all, own, 0);
	const struct vb_netif *netif = entry ? vb_netif_by_index(all, entry->ifindex) : NULL;

	return !netif ? 0 : netif->mtu < UINT16_MAX ? (uint16_t)netif->mtu : UINT16_MAX;
}

/* A LID of another host stands for its address (nic/lid.h). */
static int pair_lids(const struct vb_netif_snapshot *all, const struct vb_av *av, struct pair *pair)
{
	if (vb_gid_is_zero(&av->lid_dst))
		return -ENETUNREACH;
	pair->src = address_of(&av->lid_src, 0);
	pair->dst = address_of(&av->lid_dst, 0);
	pair->link_mtu = mtu_at(all, &av->lid_src);
	return 0;
}

static int pair_remote(const struct vb_netif_snapshot *all, const struct vb_av *av,
		       struct pair *pair)
{
	const struct vb_netif_addr *source = find_assigned(all, &av->sgid, av->ifindex);

	if (av->dlid)
		return pair_lids(all, av, pair);
	if (vb_gid_is_ipv4(&av->sgid) != vb_gid_is_ipv4(&av->dgid))
		return -EINVAL;
	if (!source)
		return -EADDRNOTAVAIL;
	pair->src = address_of(&source->gid, source->ifindex);
	pair->dst = address_of(&av->dgid, source->ifindex);
	return 0;
}

static void pair_local(const struct vb_netif_snapshot *all, const struct vb_av *av,
		       struct pair *pair)
{
	const struct vb_netif_addr *source = find_assigned(all, &av->sgid, av->ifindex);
	const struct vb_netif_addr *target = find_assigned(all, &av->dgid, av->ifindex);

	if (source && target && !vb_gid_is_loopback(&av->dgid) &&
	    vb_gid_is_ipv4(&av->sgid) == vb_gid_is_ipv4(&av->dgid)) {
		pair->src = address_of(&source->gid, source->ifindex);
		pair->dst = address_of(&target->gid, target->ifindex);
		return;
	}
	pair->src = pair->dst = loopback_address(all, !vb_gid_is_ipv4(&av->dgid));
}

static int choose_addresses(const struct vb_av *av, struct pair *pair)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	int err = 0;

	if (av->multicast)
		err = pair_multicast(all, av, pair);
	else if (av->local)
		pair_local(all, av, pair);
	else
		err = pair_remote(all, av, pair);
	vb_netif_snapshot_put(all);
	return err;
}

/* --- ways --- */

static void flow_from_pair(struct vb_way *way, const struct pair *pair)
{
	way->flow.ipv6 = pair->src.ipv6;
	memcpy(way->flow.src, pair->src.bytes, sizeof(way->flow.src));
	memcpy(way->flow.dst, pair->dst.bytes, sizeof(way->flow.dst));
	way->scope = pair->dst.scope;
	way->link_mtu = pair->link_mtu;
}

/* Without an IP header the GIDs are the addresses. */
static void flow_from_gids(struct vb_way *way, uint32_t entropy)
{
	struct pair pair = { .src = address_of(&way->sgid, 0), .dst = address_of(&way->dgid, 0) };

	if (pair.src.ipv6 != pair.dst.ipv6) {
		pair.src.ipv6 = pair.dst.ipv6 = true;
		memcpy(pair.src.bytes, way->sgid.raw, sizeof(pair.src.bytes));
		memcpy(pair.dst.bytes, way->dgid.raw, sizeof(pair.dst.bytes));
	}
	flow_from_pair(way, &pair);
	way->flow.src_port = (uint16_t)(SOURCE_PORT_FIRST | (entropy & SOURCE_PORT_MASK));
}

static int resolve_udp(struct vb_port *port, const struct vb_av *av, uint32_t entropy,
		       struct vb_way *way)
{
	struct vb_endpoint *endpoint;
	struct pair pair = { 0 };
	unsigned number;
	int err = choose_addresses(av, &pair), sender;

	if (err)
		return err;
	endpoint = vb_udp_endpoint(port, &pair.src, &number, &err);
	if (!endpoint)
		return err;
	sender = vb_udp_sender(endpoint, entropy);
	if (sender < 0)
		return sender;
	if (av->multicast) {
		endpoint->senders[sender].group_ifindex = pair.ifindex;
		vb_group_prepare_sender(endpoint->senders[sender].fd, pair.dst.ipv6, pair.ifindex);
	}
	way->socket = vb_socket_number(endpoint, number, (unsigned)sender);
	flow_from_pair(way, &pair);
	way->flow.src_port = endpoint->senders[sender].port;
	return 0;
}

/* The QP or datagram goes by packets: the local path is out of the question. */
static enum vb_way_kind choose_kind(const struct vb_av *av, const struct vb_peer *peer)
{
	static const enum vb_way_kind kinds[] = {
		[VB_CHOICE_SLOT] = VB_WAY_SLOT,
		[VB_CHOICE_MEMORY] = VB_WAY_MEMORY,
		[VB_CHOICE_UDP] = VB_WAY_UDP,
		[VB_CHOICE_GROUP] = VB_WAY_GROUP,
	};
	const struct vb_choice_facts facts = {
		.local = av->local,
		.multicast = av->multicast,
		.within_host = av->within_host,
		.process = !peer        ? VB_PROCESS_NONE
			   : peer->self ? VB_PROCESS_SELF
					: VB_PROCESS_OTHER,
	};

	return kinds[vb_choose(&facts)];
}

int vb_port_resolve(struct vb_port *port, const struct vb_av *av, struct vb_peer *peer,
		    uint32_t entropy, struct vb_way *way)
{
	int err = 0;

	*way = (struct vb_way){
		.sgid = av->sgid,
		.dgid = av->dgid,
		.dlid = av->dlid,
		.traffic_class = av->traffic_class,
		.hop_limit = av->hop_limit,
		.local = av->local && !av->multicast,
		.multicast = av->multicast,
		.kind = (uint8_t)choose_kind(av, peer),
		.socket = -1,
	};
	if (way->kind == VB_WAY_UDP)
		err = resolve_udp(port, av, entropy, way);
	else if (way->kind == VB_WAY_GROUP)
		err = vb_group_resolve(port, av, way);
	else
		flow_from_gids(way, entropy);
	if (!err && way->kind == VB_WAY_MEMORY)
		err = vb_memory_open(port);
	if (err)
		return err;
	if (way->kind == VB_WAY_SLOT) {
		vb_peer_get(peer);
		way->peer = peer;
	}
	way->flow.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&way->flow);
	way->resolved = true;
	return 0;
}

int vb_port_listen_for(struct vb_port *port, const struct vb_av *av, struct vb_peer *peer)
{
	struct pair pair = { 0 };
	unsigned number;
	int err;

	if (choose_kind(av, peer) != VB_WAY_UDP)
		return 0;
	err = choose_addresses(av, &pair);
	if (!err)
		vb_udp_endpoint(port, &pair.src, &number, &err);
	return err;
}

void vb_way_release(struct vb_way *way)
{
	vb_peer_put(way->peer);
	way->peer = NULL;
	way->socket = -1;
	way->resolved = false;
}

/* Listens on every interface that has the address; returns the first error. */
static int listen_assigned(struct vb_port *port, const struct vb_netif_snapshot *all,
			   const union ibv_gid *own, bool *found)
{
	int first = 0;

	for (size_t i = 0; i < all->addr_count; i++) {
		struct vb_address address;
		unsigned number;
		int err = 0;

		if (all->addrs[i].tentative || !vb_gid_equal(own, &all->addrs[i].gid))
			continue;
		*found = true;
		address = address_of(own, all->addrs[i].ifindex);
		vb_udp_endpoint(port, &address, &number, &err);
		first = first ? first : err;
	}
	return first;
}

int vb_port_listen(struct vb_port *port, const union ibv_gid *own)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	bool found = false;
	int err = listen_assigned(port, all, own, &found);

	if (!found) {
		const struct vb_address address = loopback_address(all, !vb_gid_is_ipv4(own));
		unsigned number;

		vb_udp_endpoint(port, &address, &number, &err);
	}
	vb_netif_snapshot_put(all);
	return err;
}

unsigned vb_port_burst_max(const struct vb_port *port, const struct vb_way *way)
{
	const struct vb_endpoint *endpoint;

	if (way->kind != VB_WAY_UDP)
		return VB_BURST_PACKETS;
	endpoint = vb_way_endpoint(port, way);
	return endpoint->senders[way->socket % VB_SENDERS].no_segment ? 1 : VB_BURST_PACKETS;
}

/* --- packets that come from the way's destination --- */

union ibv_gid vb_flow_gid(const struct vb_icrc_flow *flow, const uint8_t address[16])
{
	union ibv_gid gid;

	if (!flow->ipv6)
		return vb_gid_ipv4(address);
	memcpy(gid.raw, address, sizeof(gid.raw));
	return gid;
}

/* With VERBENA_PATH=sim memory leads to other processes, too: they answer by their slot sockets. */
static bool is_passed_on(const struct vb_way *way)
{
	return way->kind == VB_WAY_MEMORY && vb_choice_memory_leads_on();
}

bool vb_way_expects(const struct vb_way *way, const struct vb_arrival *arrival)
{
	const struct vb_icrc_flow *flow = arrival->flow;
	union ibv_gid src, dst;

	if (!vb_peer_same(arrival->peer, way->peer) && !is_passed_on(way))
		return false;
	if (flow->ipv6 == way->flow.ipv6 && !memcmp(flow->src, way->flow.dst, sizeof(flow->src)))
		return true;
	if (!way->local)
		return false;
	/* The kernel drops packets from outside that carry a source address of this host. */
	src = vb_flow_gid(flow, flow->src);
	dst = vb_flow_gid(&way->flow, way->flow.dst);
	return vb_gid_is_loopback(&src) || (vb_gid_is_loopback(&dst) && vb_gid_is_own(&src));
}
