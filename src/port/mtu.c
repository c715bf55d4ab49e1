/* SPDX-License-Identifier: BSD-2-Clause */
/* Explains packets that are too long for the interface or the route. With a wrong path MTU all of
 * them are lost without an error. */
#include "base/config.h"
#include "base/log.h"
#include "net/gid.h"
#include "port/impl.h"

enum {
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	UDP_HEADER = 8,
	PATH_MTU_MIN = 256,
	PATH_MTU_MAX = 4096
};
enum { HEADERS_MAX = 12 + 4 + 16 + 4 + 4 }; /* BTH, XRCETH, RETH, immediate, ICRC */

static uint32_t ip_length(const struct vb_burst *burst)
{
	return burst->segment + UDP_HEADER + (burst->way->flow.ipv6 ? IPV6_HEADER : IPV4_HEADER);
}

/* The path MTU of the QP, guessed from the length of a full packet. */
static uint32_t path_mtu(uint32_t segment)
{
	uint32_t mtu = PATH_MTU_MIN;

	while (mtu < PATH_MTU_MAX && mtu + HEADERS_MAX < segment)
		mtu *= 2;
	return mtu;
}

/* The MTU of the interface with the source address; 0: unknown. */
static uint32_t interface_mtu(const struct vb_way *way)
{
	const struct vb_netif_snapshot *all;
	const struct vb_netif *netif = NULL;
	uint32_t mtu;

	vb_netif_snapshot_expire(); /* the MTU may have changed just now */
	all = vb_netif_snapshot_get();
	for (size_t i = 0; i < all->addr_count && !netif; i++)
		if (vb_gid_equal(&all->addrs[i].gid, &way->sgid))
			netif = vb_netif_by_index(all, all->addrs[i].ifindex);
	mtu = netif ? (uint32_t)netif->mtu : 0;
	vb_netif_snapshot_put(all);
	return mtu;
}

/* True if the QP was explained already. Collisions may explain one twice. */
static bool is_told(struct vb_port *port, uint32_t qpn)
{
	uint32_t *told = &port->too_big_qpns[qpn % VB_TOO_BIG_QPNS];

	if (!vb_config_explain() || *told == qpn)
		return true;
	*told = qpn;
	return false;
}

void vb_port_explain_cut(struct vb_port *port, const struct vb_burst *burst)
{
	if (!is_told(port, burst->qpn))
		vb_explain_note(
			"QP 0x%06x: packets of %u bytes do not fit the interface and leave in IP "
			"fragments; shorter ones are faster between hosts",
			burst->qpn, ip_length(burst));
}

void vb_port_explain_mtu(struct vb_port *port, const struct vb_burst *burst)
{
	uint32_t length = ip_length(burst), mtu;

	if (is_told(port, burst->qpn))
		return;
	mtu = interface_mtu(burst->way);
	if (mtu && mtu < length)
		vb_explain_note(
			"QP 0x%06x: path_mtu %u does not fit the interface MTU %u: packets of %u "
			"bytes are lost; ibv_query_port tells the active_mtu",
			burst->qpn, path_mtu(burst->segment), mtu, length);
	else
		vb_explain_note(
			"QP 0x%06x: path_mtu %u does not fit the route, as far as this host knows: "
			"packets of %u bytes are probably lost",
			burst->qpn, path_mtu(burst->segment), length);
}
