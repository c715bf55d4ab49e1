/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "devinfo.h"

#define COUNT(array)          (sizeof(array) / sizeof(*(array)))
#define TEXT(texts, value, x) devinfo_text(texts, COUNT(texts), (unsigned)(value), x)

static const char *const states[] = { NULL, "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE" };
static const char *const mtus[] = { NULL, "256", "512", "1024", "2048", "4096" };
static const char *const links[] = { "Unspecified", "InfiniBand", "Ethernet" };
static const char *const lanes[] = { [1] = "1", [2] = "4", [4] = "8", [8] = "12", [16] = "2" };
static const char *const lane_counts[] = { NULL, "1", "2", "4", "8", "15" };
static const char *const speeds[] = {
	[1] = "2.5 Gbps",   [2] = "5.0 Gbps",   [4] = "10.0 Gbps",  [8] = "10.0 Gbps",
	[16] = "14.0 Gbps", [32] = "25.0 Gbps", [64] = "50.0 Gbps", [128] = "100.0 Gbps"
};
/* The spelling of [4] is the one that other programs know. */
static const char *const phys_states[] = {
	[1] = "SLEEP",    [2] = "POLLING",
	[3] = "DISABLED", [4] = "PORT_CONFIGURATION TRAINNING",
	[5] = "LINK_UP",  [6] = "LINK_ERROR_RECOVERY",
	[7] = "PHY TEST",
};

static const char *gid_type(const struct ibv_gid_entry *entry)
{
	static const char *const texts[] = { "", ", RoCE v1", ", RoCE v2" };

	return TEXT(texts, entry->gid_type, ", Invalid gid type");
}

static bool is_empty(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* A RoCE v2 GID is printed as an IP address, any other GID as eight groups. */
static void gid_text(const struct ibv_gid_entry *entry, char *text, size_t size)
{
	const uint8_t *raw = entry->gid.raw;
	size_t at = 0;

	if (entry->gid_type == IBV_GID_TYPE_ROCE_V2) {
		inet_ntop(AF_INET6, raw, text, (socklen_t)size);
		return;
	}
	for (int i = 0; i < 16; i += 2)
		at += (size_t)snprintf(text + at, size - at, "%s%02x%02x", i ? ":" : "", raw[i],
				       raw[i + 1]);
}

static void print_gids(struct ibv_context *context, uint32_t port_num, int count)
{
	for (int i = 0; i < count; i++) {
		char name[16], text[INET6_ADDRSTRLEN];
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(context, port_num, (uint32_t)i, &entry, 0) ||
		    is_empty(&entry.gid))
			continue;
		gid_text(&entry, text, sizeof(text));
		snprintf(name, sizeof(name), "GID[%3d]", i);
		devinfo_line(3, 48, name, "%s%s", text, gid_type(&entry));
	}
}

/* ibv_devinfo prints it since rdma-core 65. */
static void print_speed(struct ibv_context *context, uint32_t port_num)
{
#if VB_HEADER_HAS_COMP_CNTR
	uint64_t speed; /* in 100 Mbit/s */

	if (!ibv_query_port_speed(context, port_num, &speed))
		devinfo_line(3, 48, "effective_speed", "%.1f Gbps", (double)speed / 10);
#else
	(void)context;
	(void)port_num;
#endif
}

static void print_more(struct ibv_context *context, uint32_t port_num,
		       const struct ibv_port_attr *port)
{
	devinfo_line(3, 48, "max_msg_sz", "0x%x", port->max_msg_sz);
	devinfo_line(3, 48, "port_cap_flags", "0x%08x", port->port_cap_flags);
	devinfo_line(3, 48, "port_cap_flags2", "0x%04x", port->port_cap_flags2);
	devinfo_line(3, 48, "max_vl_num", "%s (%d)",
		     TEXT(lane_counts, port->max_vl_num, "invalid value"), port->max_vl_num);
	devinfo_line(3, 48, "bad_pkey_cntr", "0x%x", port->bad_pkey_cntr);
	devinfo_line(3, 48, "qkey_viol_cntr", "0x%x", port->qkey_viol_cntr);
	devinfo_line(3, 48, "sm_sl", "%d", port->sm_sl);
	devinfo_line(3, 48, "pkey_tbl_len", "%d", port->pkey_tbl_len);
	devinfo_line(3, 48, "gid_tbl_len", "%d", port->gid_tbl_len);
	devinfo_line(3, 48, "subnet_timeout", "%d", port->subnet_timeout);
	devinfo_line(3, 48, "init_type_reply", "%d", port->init_type_reply);
	devinfo_line(3, 48, "active_width", "%sX (%d)",
		     TEXT(lanes, port->active_width, "invalid width"), port->active_width);
	devinfo_line(3, 48, "active_speed", "%s (%d)",
		     TEXT(speeds, port->active_speed, "invalid speed"), port->active_speed);
	print_speed(context, port_num);
	devinfo_line(3, 48, "phys_state", "%s (%d)",
		     TEXT(phys_states, port->phys_state, "invalid physical state"),
		     port->phys_state);
}

int devinfo_port(struct ibv_context *context, uint32_t port_num, int verbose)
{
	struct ibv_port_attr port;
	int err = ibv_query_port(context, (uint8_t)port_num, &port);

	if (err) {
		fprintf(stderr, "Failed to query port %u props: %s\n", port_num, strerror(err));
		return -1;
	}
	printf("\t\tport:\t%u\n", port_num);
	devinfo_line(3, 48, "state", "%s (%d)", TEXT(states, port.state, "invalid state"),
		     port.state);
	devinfo_line(3, 48, "max_mtu", "%s (%d)", TEXT(mtus, port.max_mtu, "invalid MTU"),
		     port.max_mtu);
	devinfo_line(3, 48, "active_mtu", "%s (%d)", TEXT(mtus, port.active_mtu, "invalid MTU"),
		     port.active_mtu);
	devinfo_line(3, 48, "sm_lid", "%d", port.sm_lid);
	devinfo_line(3, 48, "port_lid", "%d", port.lid);
	devinfo_line(3, 48, "port_lmc", "0x%02x", port.lmc);
	devinfo_line(3, 48, "link_layer", "%s", TEXT(links, port.link_layer, "Unknown"));
	if (verbose) {
		print_more(context, port_num, &port);
		print_gids(context, port_num, port.gid_tbl_len);
	}
	return 0;
}
