/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/port_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER" };
static const char *const phys_states[] = { "<unknown>",
					   "Sleep",
					   "Polling",
					   "Disabled",
					   "PortConfigurationTraining",
					   "LinkUp",
					   "LinkErrorRecovery",
					   "Phy Test" };

/* The rate of one lane in tenths of Gb/s: IBA volume 1, LinkSpeedActive and its extension. */
static const struct speed {
	unsigned code, rate;
	const char *name;
} speeds[] = {
	{ 1, 25, "" },       { 2, 50, " DDR" },   { 4, 100, " QDR" },  { 8, 100, " FDR10" },
	{ 16, 140, " FDR" }, { 32, 250, " EDR" }, { 64, 500, " HDR" }, { 128, 1000, " NDR" },
};

static unsigned lanes(unsigned width)
{
	switch (width) {
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 1;
	}
}

static int print_named(unsigned value, const char *const *names, size_t count, char *text,
		       size_t size)
{
	return snprintf(text, size, "%u: %s\n", value, value < count ? names[value] : "<unknown>");
}

static int print_rate(const struct ibv_port_attr *port, char *text, size_t size)
{
	const unsigned width = lanes(port->active_width);
	const struct speed *speed = &speeds[0];
	unsigned rate;

	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		if (speeds[i].code == port->active_speed)
			speed = &speeds[i];
	rate = speed->rate * width;
	return snprintf(text, size, "%u%s Gb/sec (%uX%s)\n", rate / 10, rate % 10 ? ".5" : "",
			width, speed->name);
}

int vb_port_print(enum vb_port_line line, const struct ibv_port_attr *port, char *text, size_t size)
{
	switch (line) {
	case VB_PORT_STATE:
		return print_named(port->state, states, sizeof(states) / sizeof(*states), text,
				   size);
	case VB_PORT_PHYS_STATE:
		return print_named(port->phys_state, phys_states,
				   sizeof(phys_states) / sizeof(*phys_states), text, size);
	case VB_PORT_RATE:
		return print_rate(port, text, size);
	case VB_PORT_LINK_LAYER:
		return snprintf(text, size, "%s\n",
				port->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
									    : "InfiniBand");
	case VB_PORT_LID:
		return snprintf(text, size, "0x%x\n", port->lid);
	case VB_PORT_LID_MASK_COUNT:
		return snprintf(text, size, "%u\n", port->lmc);
	case VB_PORT_SM_LID:
		return snprintf(text, size, "0x%x\n", port->sm_lid);
	case VB_PORT_SM_SL:
		return snprintf(text, size, "%u\n", port->sm_sl);
	case VB_PORT_CAP_MASK:
		return snprintf(text, size, "0x%08x\n", port->port_cap_flags);
	}
	return 0;
}

int vb_port_print_gid(const union ibv_gid *gid, char *text, size_t size)
{
	uint16_t part[8];
	int length = 0;

	memcpy(part, gid->raw, sizeof(part));
	for (int i = 0; i < 8; i++)
		length += snprintf(text + length, size - (size_t)length, "%04x%c", ntohs(part[i]),
				   i < 7 ? ':' : '\n');
	return length;
}

/* --- counters --- */

struct row {
	const char *name;
	size_t offset;
};

#define FIELD(field) offsetof(struct vb_port_counters, field)

static const struct row sources[] = {
	{ "sent_bytes", FIELD(xmit_bytes) },         { "rcvd_bytes", FIELD(rcv_bytes) },
	{ "sent_pkts", FIELD(xmit_packets) },        { "rcvd_pkts", FIELD(rcv_packets) },
	{ "send_err", FIELD(xmit_discards) },        { "send_too_big_err", FIELD(xmit_discards) },
	{ "dropped_icrc", FIELD(rcv_errors) },       { "dropped_malformed", FIELD(rcv_errors) },
	{ "rcvd_oversized_err", FIELD(rcv_errors) },
};

void vb_port_counters_add(void *arg, const char *name, uint64_t value)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
		if (!strcmp(sources[i].name, name))
			*(uint64_t *)((char *)arg + sources[i].offset) += value;
}

/* These counters stay 0: no cable can fail, and no switch enforces partitions. */
static const char *const never[] = {
	"symbol_error",
	"link_error_recovery",
	"link_downed",
	"port_rcv_remote_physical_errors",
	"port_rcv_switch_relay_errors",
	"port_xmit_constraint_errors",
	"port_rcv_constraint_errors",
	"local_link_integrity_errors",
	"excessive_buffer_overrun_errors",
	"VL15_dropped",
};

void vb_port_counters_each(const struct vb_port_counters *counters,
			   void (*each)(void *arg, const char *name, uint64_t value), void *arg)
{
	each(arg, "port_xmit_data", counters->xmit_bytes / 4); /* the IBA counts words */
	each(arg, "port_rcv_data", counters->rcv_bytes / 4);
	each(arg, "port_xmit_packets", counters->xmit_packets);
	each(arg, "port_rcv_packets", counters->rcv_packets);
	each(arg, "port_rcv_errors", counters->rcv_errors);
	each(arg, "port_xmit_discards", counters->xmit_discards);
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		each(arg, never[i], 0);
}
