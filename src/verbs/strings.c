/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the public enumerations. Completion statuses and asynchronous events have the names of
 * the InfiniBand specification (chapters 11.6.2 and 11.6.3).
 */
#include <stddef.h>

#include "abi/verbs.h"
#include "base/symver.h"
#include "nic/wr_opcode.h"

static const char *const node_types[] = {
	[IBV_NODE_CA] = "InfiniBand channel adapter",
	[IBV_NODE_SWITCH] = "InfiniBand switch",
	[IBV_NODE_ROUTER] = "InfiniBand router",
	[IBV_NODE_RNIC] = "iWARP NIC",
	[IBV_NODE_USNIC] = "usNIC",
	[IBV_NODE_USNIC_UDP] = "usNIC UDP",
	[IBV_NODE_UNSPECIFIED] = "unspecified",
};

static const char *const port_states[] = {
	[IBV_PORT_NOP] = "no change", [IBV_PORT_DOWN] = "down",
	[IBV_PORT_INIT] = "init",     [IBV_PORT_ARMED] = "armed",
	[IBV_PORT_ACTIVE] = "active", [IBV_PORT_ACTIVE_DEFER] = "active defer",
};

static const char *const events[] = {
	/* of a CQ, QP, SRQ or WQ */
	[IBV_EVENT_CQ_ERR] = "CQ error",
	[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
	[IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
	[IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
	[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
	[IBV_EVENT_COMM_EST] = "communication established",
	[IBV_EVENT_SQ_DRAINED] = "send queue drained",
	[IBV_EVENT_PATH_MIG] = "path migrated",
	[IBV_EVENT_PATH_MIG_ERR] = "path migration request error",
	[IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
	[IBV_EVENT_WQ_FATAL] = "WQ catastrophic error",
	/* of a port or the device */
	[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
	[IBV_EVENT_PORT_ACTIVE] = "port active",
	[IBV_EVENT_PORT_ERR] = "port error",
	[IBV_EVENT_LID_CHANGE] = "LID change",
	[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
	[IBV_EVENT_GID_CHANGE] = "GID change",
	[IBV_EVENT_SM_CHANGE] = "SM change",
	[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
	[IBV_EVENT_DEVICE_SPEED_CHANGE] = "link speed change",
};

static const char *const wc_statuses[] = {
	[IBV_WC_SUCCESS] = "success",
	/* decided on this side */
	[IBV_WC_LOC_LEN_ERR] = "local length error",
	[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
	[IBV_WC_LOC_PROT_ERR] = "local protection error",
	[IBV_WC_LOC_ACCESS_ERR] = "local access error",
	[IBV_WC_MW_BIND_ERR] = "memory window bind error",
	[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
	[IBV_WC_BAD_RESP_ERR] = "bad response error",
	[IBV_WC_FATAL_ERR] = "fatal error",
	[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
	[IBV_WC_GENERAL_ERR] = "general error",
	/* reported by the other side, or by its silence */
	[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
	[IBV_WC_REM_ACCESS_ERR] = "remote access error",
	[IBV_WC_REM_OP_ERR] = "remote operation error",
	[IBV_WC_REM_ABORT_ERR] = "remote aborted error",
	[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
	/* reliable datagram, which no device implements */
	[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
	[IBV_WC_INV_EECN_ERR] = "invalid EE context number",
	[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
	/* tag matching */
	[IBV_WC_TM_ERR] = "tag matching error",
	[IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous left to software",
};

/* The application chooses the value, so any number may come. */
static const char *name_of(const char *const *names, size_t count, unsigned value)
{
	if (value >= count || !names[value])
		return "unknown";
	return names[value];
}

#define NAME_OF(names, value) name_of(names, sizeof(names) / sizeof((names)[0]), (unsigned)(value))

VB_PUBLIC const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	return NAME_OF(node_types, node_type);
}

VB_PUBLIC const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	return NAME_OF(port_states, port_state);
}

VB_PUBLIC const char *ibv_event_type_str(enum ibv_event_type event)
{
	return NAME_OF(events, event);
}

VB_PUBLIC const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return NAME_OF(wc_statuses, status);
}

/* Since version 49, and not in the headers of 44. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode) VB_PRIVATE(ibv_wr_opcode_str);

VB_PUBLIC const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	const struct vb_wr_row *row = vb_wr_row_any(opcode);

	return row->words ? row->words : "unknown";
}
VB_PRIVATE_SINCE_34(ibv_wr_opcode_str);
