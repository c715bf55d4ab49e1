/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another process holds UDP port 4791. A process of another user that runs on Verbena binds the
 * port at single addresses, and forwards our packets. A holder of all addresses at once (the
 * kernel's Soft-RoCE, say), or one of our user that does not share the port, does not run on
 * Verbena: it forwards nothing.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/gid.h"
#include "port/impl.h"
#include "wire/packet.h"

enum { LOOK_NS_MIN = 1000000, LOOK_NS_MAX = 1000000000 };

/* --- the user that packets come through --- */

bool vb_endpoint_is_at(const struct vb_endpoint *endpoint, const struct vb_udp_socket *socket)
{
	return socket->port == VB_UDP_PORT_ROCE &&
	       !memcmp(socket->address, endpoint->address.bytes, sizeof(socket->address));
}

static void look_for_holder(struct vb_holder *holder, const struct vb_endpoint *endpoint)
{
	struct vb_udp_socket socket;
	struct vb_udp_table table;

	holder->looked_ns = vb_now_ns();
	holder->known = false;
	holder->anybody = !vb_udp_table_open(&table, endpoint->address.ipv6);
	if (holder->anybody)
		return;
	while (!holder->known && vb_udp_table_next(&table, &socket))
		holder->known = vb_endpoint_is_at(endpoint, &socket);
	if (holder->known)
		holder->uid = socket.uid;
	vb_udp_table_close(&table);
}

/*
 * True also if the kernel does not tell. The holder may have changed, so the look is repeated;
 * other users cause at most one look per LOOK_NS_MIN.
 */
static bool is_holder(struct vb_endpoint *endpoint, uid_t uid)
{
	struct vb_holder *holder = &endpoint->holder;
	const uint64_t age_ns = vb_now_ns() - holder->looked_ns;
	const bool same = holder->known && holder->uid == uid;

	if (age_ns > (same ? LOOK_NS_MAX : LOOK_NS_MIN))
		look_for_holder(holder, endpoint);
	return holder->anybody || (holder->known && holder->uid == uid);
}

bool vb_endpoint_takes_from(struct vb_endpoint *endpoint, uid_t uid)
{
	return uid == geteuid() || uid == 0 || (endpoint->fd < 0 && is_holder(endpoint, uid));
}

static bool endpoint_has(const struct vb_endpoint *endpoint, const union ibv_gid *gid)
{
	const struct vb_address *own = &endpoint->address;
	const union ibv_gid mapped = vb_gid_ipv4(own->bytes);

	return !memcmp(own->ipv6 ? own->bytes : mapped.raw, gid, sizeof(*gid));
}

bool vb_port_takes_from(struct vb_port *port, const union ibv_gid *dst, uid_t uid)
{
	for (unsigned i = 0; i < port->endpoint_count; i++)
		if (endpoint_has(port->endpoints[i], dst))
			return vb_endpoint_takes_from(port->endpoints[i], uid);
	return false;
}

/* --- explaining --- */

void vb_port_explain_holder(struct vb_endpoint *endpoint)
{
	struct vb_holder *holder = &endpoint->holder;

	look_for_holder(holder, endpoint);
	if (holder->anybody)
		vb_explain_note(
			"another process holds UDP port %d here: packets come only if it runs on "
			"Verbena, for another user",
			VB_UDP_PORT_ROCE);
	else if (holder->known && holder->uid != geteuid())
		vb_explain_note(
			"user %u holds UDP port %d here: packets come through its process, if "
			"that runs on Verbena",
			holder->uid, VB_UDP_PORT_ROCE);
	else
		vb_explain_note(
			"a program that is not Verbena, or the kernel's rdma_rxe, holds UDP port "
			"%d here: no packets come from other hosts; 'verbena doctor' names it",
			VB_UDP_PORT_ROCE);
}
