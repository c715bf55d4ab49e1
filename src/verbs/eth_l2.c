/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the Ethernet address that a RoCE NIC would put into its frames for a destination GID. Only
 * the GID itself is asked: a link-local address contains the MAC, a multicast address maps to one.
 * Any other address would take a query of the neighbour table. Nothing here builds frames, so the
 * answer is that of a neighbour that does not respond.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "net/gid.h"
#include "system/forward.h"

enum {
	VLAN_NONE = 0xffff,
};

static bool is_v4_mapped(const uint8_t *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

/* RFC 4291 appendix A: the MAC split around ff:fe, its universal bit inverted. */
static bool mac_from_link_local(const uint8_t *gid, uint8_t *mac)
{
	static const uint8_t prefix[8] = { 0xfe, 0x80 };

	if (memcmp(gid, prefix, sizeof(prefix)) != 0 || gid[11] != 0xff || gid[12] != 0xfe)
		return false;
	memcpy(mac, gid + 8, 3);
	memcpy(mac + 3, gid + 13, 3);
	mac[0] ^= 0x02;
	return true;
}

/* RFC 2464 section 7 for IPv6 groups, RFC 1112 section 6.4 for mapped IPv4 groups. */
static bool mac_from_multicast(const uint8_t *gid, uint8_t *mac)
{
	if (gid[0] == 0xff) {
		mac[0] = mac[1] = 0x33;
		memcpy(mac + 2, gid + 12, 4);
		return true;
	}
	if (is_v4_mapped(gid) && (gid[12] & 0xf0) == 0xe0) {
		const uint8_t group[6] = { 0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15] };

		memcpy(mac, group, sizeof(group));
		return true;
	}
	return false;
}

static int resolve_mac(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t *mac)
{
	char text[VB_GID_TEXT];
	union ibv_gid sgid;

	if (ibv_query_gid(context, attr->port_num, attr->grh.sgid_index, &sgid))
		return -EINVAL;
	if (mac_from_link_local(attr->grh.dgid.raw, mac) ||
	    mac_from_multicast(attr->grh.dgid.raw, mac))
		return 0;
	vb_explain("ibv_resolve_eth_l2_from_gid: %s is neither link-local nor a group: no Ethernet "
		   "address follows from it",
		   vb_gid_print(&attr->grh.dgid, text));
	return -EHOSTUNREACH;
}

/* Unlike its neighbours in the header this call returns the errno value negated. */
VB_PUBLIC int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_resolve_eth_l2_from_gid, (context, attr, eth_mac, vid));
	VB_NO_CANCEL;
	int err = resolve_mac(context, attr, eth_mac);

	if (err)
		return vb_return_negative(err);
	vb_tell_filled(eth_mac, ETHERNET_LL_SIZE);
	if (vid) {
		*vid = VLAN_NONE;
		vb_tell_filled(vid, sizeof(*vid));
	}
	return 0;
}
