/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Somebody else has the port. A process on Verbena of another user binds it at single addresses, and
 * passes on what is ours. Whoever holds it at all addresses at once (the kernel's Soft-RoCE does) is
 * none, and keeps it all.
 */
#include "base/log.h"
#include "path/roce/port_impl.h"
#include "wire/packet.h"

#include <stdio.h>
#include <string.h>

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
