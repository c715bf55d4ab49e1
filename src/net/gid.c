/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/gid.h"

#include <arpa/inet.h>
#include <endian.h>

enum { OTHERS_MAX = VB_GIDS - 1 - VB_GID_OTHERS }; /* the last entry stays empty */

static const uint8_t ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool vb_gid_is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

bool vb_gid_is_ipv4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, ipv4_prefix, sizeof(ipv4_prefix));
}

bool vb_gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

bool vb_gid_is_multicast(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xff || (vb_gid_is_ipv4(gid) && gid->raw[12] >> 4 == 0xe);
}

bool vb_gid_is_loopback(const union ibv_gid *gid)
{
	if (vb_gid_is_ipv4(gid))
		return gid->raw[12] == 127;
	return !gid->global.subnet_prefix && gid->global.interface_id == htobe64(1);
}

union ibv_gid vb_gid_ipv4(const void *address)
{
	union ibv_gid gid;

	memcpy(gid.raw, ipv4_prefix, sizeof(ipv4_prefix));
	memcpy(gid.raw + sizeof(ipv4_prefix), address, 4);
	return gid;
}

union ibv_gid vb_gid_from_guid(uint64_t guid)
{
	return (union ibv_gid){ .global = { .subnet_prefix = htobe64(0xfe80ull << 48),
					    .interface_id = guid } };
}

union ibv_gid vb_gid_from_lid(uint16_t lid)
{
	return vb_gid_from_guid(htobe64(lid));
}

const char *vb_gid_print(const union ibv_gid *gid, char *text)
{
	const bool ipv4 = vb_gid_is_ipv4(gid);

	return inet_ntop(ipv4 ? AF_INET : AF_INET6, gid->raw + (ipv4 ? 12 : 0), text, VB_GID_TEXT);
}

/* --- identity of an interface --- */

static uint64_t guid_from_bytes(const uint8_t bytes[8])
{
	uint64_t guid;

	memcpy(&guid, bytes, sizeof(guid));
	return guid;
}

/* RFC 4291 appendix A: the universal/local bit is inverted. */
static uint64_t guid_from_mac(const uint8_t mac[6], uint8_t middle0, uint8_t middle1)
{
	const uint8_t bytes[8] = { mac[0] ^ 2, mac[1], mac[2], middle0,
				   middle1,    mac[3], mac[4], mac[5] };

	return guid_from_bytes(bytes);
}

/* For tunnels and `lo`, which have no MAC: RFC 5214, 6.1 has 02-00-5e-fe and the IPv4 address. */
static uint64_t guid_from_ipv4(const uint8_t address[4], uint8_t kind)
{
	const uint8_t bytes[8] = {
		2, 0, 0x5e, kind, address[0], address[1], address[2], address[3]
	};

	return guid_from_bytes(bytes);
}

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return hash;
}

/* `lo` counts as 127.0.0.1 even if it has another address, or is down and has none. */
static uint64_t guid_without_mac(const struct vb_netif_snapshot *all, const struct vb_netif *netif,
				 uint8_t kind)
{
	static const uint8_t localhost[4] = { 127, 0, 0, 1 };
	const struct vb_netif_addr *addr = vb_netif_ipv4(all, netif);
	const uint32_t hash = hash_name(netif->name);

	if (netif->flags & IFF_LOOPBACK)
		return guid_from_ipv4(localhost, kind);
	if (addr)
		return guid_from_ipv4(addr->gid.raw + 12, kind);
	return guid_from_ipv4((const uint8_t *)&hash, kind - 2);
}

uint64_t vb_netif_guid(const struct vb_netif_snapshot *all, const struct vb_netif *netif)
{
	if (netif->has_mac)
		return guid_from_mac(netif->mac, 0xff, 0xfe);
	return guid_without_mac(all, netif, 0xfe);
}

uint64_t vb_guid_infiniband(const uint8_t mac[6])
{
	return guid_from_mac(mac, 'v', 'b');
}

bool vb_guid_infiniband_mac(uint64_t guid, uint8_t mac[6])
{
	uint8_t bytes[8];

	memcpy(bytes, &guid, sizeof(bytes));
	memcpy(mac, bytes, 3);
	memcpy(mac + 3, bytes + 5, 3);
	mac[0] ^= 2;
	return bytes[3] == 'v' && bytes[4] == 'b';
}

uint64_t vb_netif_guid_infiniband(const struct vb_netif_snapshot *all, const struct vb_netif *netif)
{
	if (netif->has_mac)
		return vb_guid_infiniband(netif->mac);
	return guid_without_mac(all, netif, 0xfd);
}

uint16_t vb_netif_lid(const struct vb_netif_snapshot *all, const struct vb_netif *netif)
{
	const struct vb_netif_addr *addr = vb_netif_ipv4(all, netif);
	uint32_t address, host;

	if (!addr || addr->prefix_bits > 32)
		return VB_LID_DEFAULT;
	memcpy(&address, addr->gid.raw + 12, sizeof(address));
	host = ntohl(address) & (uint32_t)(UINT64_C(0xffffffff) >> addr->prefix_bits);
	return host >= 1 && host <= VB_LID_MAX ? (uint16_t)host : VB_LID_DEFAULT;
}

/* --- the table --- */

/*
 * The oldest link-local address of the kernel, or NULL. It may be a stable-privacy address. The
 * kernel lists the newest first.
 */
static const struct vb_netif_addr *link_local(const struct vb_netif_snapshot *all,
					      const struct vb_netif *netif)
{
	const struct vb_netif_addr *oldest = NULL;

	for (size_t i = 0; i < all->addr_count; i++) {
		const struct vb_netif_addr *addr = &all->addrs[i];

		if (addr->ifindex == netif->index && vb_gid_is_link_local(&addr->gid) &&
		    (!oldest || addr->created <= oldest->created))
			oldest = addr;
	}
	return oldest;
}

static union ibv_gid link_local_gid(const struct vb_netif_snapshot *all,
				    const struct vb_netif *netif)
{
	const struct vb_netif_addr *addr = link_local(all, netif);

	return addr ? addr->gid : vb_gid_from_guid(vb_netif_guid(all, netif));
}

/*
 * The address belongs behind the first two entries. The caller skips the first IPv4 address.
 */
static bool is_other(const struct vb_netif_addr *addr, const union ibv_gid table[VB_GIDS])
{
	return !addr->tentative && !vb_gid_is_loopback(&addr->gid) &&
	       !vb_gid_equal(&addr->gid, &table[VB_GID_LINK_LOCAL]);
}

static void fill_loopback(union ibv_gid table[VB_GIDS])
{
	static const uint8_t localhost[4] = { 127, 0, 0, 1 };

	table[VB_GID_IPV4] = vb_gid_ipv4(localhost);
	table[VB_GID_OTHERS].global.interface_id = htobe64(1);
}

/* Sorted by age, so that a new address moves no other. The kernel lists the newest first. */
static void insert_by_age(const struct vb_netif_addr *sorted[OTHERS_MAX], unsigned *count,
			  const struct vb_netif_addr *addr)
{
	unsigned position = *count;

	while (position && sorted[position - 1]->created > addr->created)
		position--;
	if (position == OTHERS_MAX)
		return;
	if (*count < OTHERS_MAX)
		++*count;
	memmove(&sorted[position + 1], &sorted[position],
		(*count - 1 - position) * sizeof(*sorted));
	sorted[position] = addr;
}

void vb_gid_table_fill(const struct vb_netif_snapshot *all, const struct vb_netif *netif,
		       union ibv_gid table[VB_GIDS])
{
	const struct vb_netif_addr *ipv4 = vb_netif_ipv4(all, netif);
	const struct vb_netif_addr *others[OTHERS_MAX];
	unsigned count = 0;

	memset(table, 0, VB_GIDS * sizeof(*table));
	table[VB_GID_LINK_LOCAL] = link_local_gid(all, netif);
	if (netif->flags & IFF_LOOPBACK) {
		fill_loopback(table);
		return;
	}
	if (ipv4)
		table[VB_GID_IPV4] = ipv4->gid;
	for (size_t i = 0; i < all->addr_count; i++)
		if (all->addrs[i].ifindex == netif->index && &all->addrs[i] != ipv4 &&
		    is_other(&all->addrs[i], table))
			insert_by_age(others, &count, &all->addrs[i]);
	for (unsigned i = 0; i < count; i++)
		table[VB_GID_OTHERS + i] = others[i]->gid;
}

static bool table_take_out(union ibv_gid table[VB_GIDS], const union ibv_gid *gid)
{
	for (unsigned i = 0; i < VB_GIDS && !vb_gid_is_zero(gid); i++) {
		if (!vb_gid_equal(&table[i], gid))
			continue;
		memset(&table[i], 0, sizeof(table[i]));
		return true;
	}
	return false;
}

static void table_put_in(union ibv_gid table[VB_GIDS], const union ibv_gid *gid)
{
	for (unsigned i = VB_GID_OTHERS; i < VB_GIDS - 1; i++) {
		if (!vb_gid_is_zero(&table[i]))
			continue;
		table[i] = *gid;
		return;
	}
}

void vb_gid_table_keep(const union ibv_gid before[VB_GIDS], union ibv_gid table[VB_GIDS])
{
	union ibv_gid kept[VB_GIDS] = { 0 };

	for (unsigned i = 0; i < VB_GID_OTHERS; i++) {
		kept[i] = table_take_out(table, &before[i]) ? before[i] : table[i];
		table_take_out(table, &kept[i]);
	}
	for (unsigned i = VB_GID_OTHERS; i < VB_GIDS; i++)
		if (table_take_out(table, &before[i]))
			kept[i] = before[i];
	for (unsigned i = 0; i < VB_GIDS; i++)
		if (!vb_gid_is_zero(&table[i]))
			table_put_in(kept, &table[i]);
	memcpy(table, kept, sizeof(kept));
}

/* GID 0 counts even if the kernel has no such address: a process may have announced it. */
bool vb_gid_is_of_host(const struct vb_netif_snapshot *all, const union ibv_gid *gid)
{
	if (vb_gid_is_loopback(gid))
		return true;
	for (size_t i = 0; i < all->addr_count; i++)
		if (vb_gid_equal(gid, &all->addrs[i].gid))
			return true;
	if (!vb_gid_is_link_local(gid))
		return false;
	for (size_t i = 0; i < all->netif_count; i++) {
		const union ibv_gid own = vb_gid_from_guid(vb_netif_guid(all, &all->netifs[i]));

		if (vb_gid_equal(gid, &own))
			return true;
	}
	return false;
}

bool vb_gid_is_own(const union ibv_gid *gid)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	bool own = vb_gid_is_of_host(all, gid);

	vb_netif_snapshot_put(all);
	return own;
}

static bool is_infiniband_port(const struct vb_netif_snapshot *all, const union ibv_gid *gid)
{
	for (size_t i = 0; i < all->netif_count; i++) {
		const union ibv_gid port =
			vb_gid_from_guid(vb_netif_guid_infiniband(all, &all->netifs[i]));

		if (vb_gid_equal(gid, &port))
			return true;
	}
	return false;
}

bool vb_gid_is_own_port(const union ibv_gid *gid)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	bool own = vb_gid_is_of_host(all, gid) || is_infiniband_port(all, gid);

	vb_netif_snapshot_put(all);
	return own;
}
