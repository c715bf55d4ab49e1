/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Somebody else has the port. A process on Verbena of another user binds it at single addresses, and
 * passes on what is ours. Whoever holds it at all addresses at once (the kernel's Soft-RoCE does) is
 * none, and keeps it all.
 */
#include "base/clock.h"
#include "base/log.h"
#include "path/roce/port_impl.h"
#include "wire/packet.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_NS_MIN = 1000000, LOOK_NS_MAX = 1000000000 };

static bool is_held_everywhere(const char *table)
{
	FILE *file = fopen(table, "re");
	char line[256], address[33];
	unsigned port;
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, " %*[^:]: %32[0-9A-F]:%x", address, &port) == 2 &&
			port == VB_UDP_PORT_ROCE && strspn(address, "0") == strlen(address);
	fclose(file);
	return found;
}

void vb_port_explain_holder(void)
{
	if (is_held_everywhere("/proc/net/udp") || is_held_everywhere("/proc/net/udp6"))
		vb_explain("a program that is not Verbena, or the kernel's rdma_rxe, holds UDP port %d "
			   "here: no packets come from other hosts; 'verbena doctor' tells who it is",
			   VB_UDP_PORT_ROCE);
	else
		vb_explain("another user holds UDP port %d here: packets come through its process",
			   VB_UDP_PORT_ROCE);
}

/* --- whom packets come through --- */

/* False: nobody is seen there; true without *readable: it cannot be told. */
static bool find_holder(const struct vb_endpoint *endpoint, uid_t *uid, bool *readable)
{
	FILE *table = fopen(endpoint->address.ipv6 ? "/proc/net/udp6" : "/proc/net/udp", "re");
	char line[256], own[48], address[48];
	unsigned found;

	*readable = table != NULL;
	if (!table)
		return true;
	vb_address_print_proc(&endpoint->address, own, sizeof(own));
	while (fgets(line, sizeof(line), table)) {
		if (sscanf(line, " %*[^:]: %47s %*s %*s %*s %*s %*s %u", address, &found) != 2 ||
		    strcmp(address, own))
			continue;
		*uid = found;
		fclose(table);
		return true;
	}
	fclose(table);
	return false;
}

static void look(struct vb_holder *holder, const struct vb_endpoint *endpoint)
{
	bool readable;

	holder->looked_ns = vb_now_ns();
	holder->known = find_holder(endpoint, &holder->uid, &readable);
	holder->anybody = !readable;
}

/* It may be another one by now. Those who are not it do not get a look each. */
bool vb_port_is_holder(struct vb_endpoint *endpoint, uid_t uid)
{
	struct vb_holder *holder = &endpoint->holder;
	const uint64_t age_ns = vb_now_ns() - holder->looked_ns;
	const bool same = holder->known && holder->uid == uid;

	if (age_ns > (same ? LOOK_NS_MAX : LOOK_NS_MIN))
		look(holder, endpoint);
	return holder->anybody || (holder->known && holder->uid == uid);
}
