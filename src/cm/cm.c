/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning and the end of a connection manager, and the names of states, events and drops. */
#include <stdlib.h>

#include "cm/impl.h"

static void list_tables(struct vb_cm *cm, struct vb_cm_table *all[5])
{
	all[0] = &cm->by_local_id;
	all[1] = &cm->by_remote_id;
	all[2] = &cm->by_remote_qpn;
	all[3] = &cm->by_local_qpn;
	all[4] = &cm->by_service;
}

int vb_cm_init(struct vb_cm *cm, uint32_t slot, const struct vb_cm_ops *ops, void *arg)
{
	struct vb_cm_table *all[5];
	int rc = 0;

	*cm = (struct vb_cm){ .ops = ops, .arg = arg, .slot = slot };
	cm->secret = ops->random(arg);
	for (int i = 0; i < 2; i++) {
		cm->id_mask[i] = (uint32_t)ops->random(arg) & ((1u << VB_COMM_ID_SLOT_SHIFT) - 1);
		cm->id_factor[i] = (uint32_t)ops->random(arg) | 1;
	}
	cm->id_count = (uint32_t)ops->random(arg);
	vb_list_init(&cm->orphans);
	list_tables(cm, all);
	for (int i = 0; i < 5 && !rc; i++)
		rc = vb_cm_table_init(all[i]);
	if (rc)
		vb_cm_fini(cm);
	return rc;
}

void vb_cm_fini(struct vb_cm *cm)
{
	struct vb_cm_table *all[5];

	vb_list_for(orphan, &cm->orphans, struct vb_cm_endpoint, sibling)
		free(orphan);
	vb_list_init(&cm->orphans);
	list_tables(cm, all);
	for (int i = 0; i < 5; i++)
		vb_cm_table_fini(all[i]);
	vb_timers_fini(&cm->timers);
}

const char *vb_cm_state_name(enum vb_cm_state state)
{
	static const char *const names[VB_CM_STATES] = {
		[VB_CM_IDLE] = "idle",
		[VB_CM_LISTEN] = "listen",
		[VB_CM_REQ_SENT] = "REQ sent",
		[VB_CM_REQ_RECEIVED] = "REQ received",
		[VB_CM_REP_SENT] = "REP sent",
		[VB_CM_REP_RECEIVED] = "REP received",
		[VB_CM_ESTABLISHED] = "established",
		[VB_CM_DREQ_SENT] = "DREQ sent",
		[VB_CM_DREQ_RECEIVED] = "DREQ received",
		[VB_CM_TIMEWAIT] = "timewait",
		[VB_CM_REJECTED] = "rejected",
		[VB_CM_SIDR_REQ_SENT] = "SIDR_REQ sent",
		[VB_CM_SIDR_REQ_RECEIVED] = "SIDR_REQ received",
		[VB_CM_SIDR_REP_SENT] = "SIDR_REP sent",
	};

	return (unsigned)state < VB_CM_STATES ? names[state] : "unknown";
}

const char *vb_cm_event_name(enum vb_cm_event_type type)
{
	static const char *const names[VB_CM_EVENTS] = {
		[VB_CM_EVENT_REQ_RECEIVED] = "REQ received",
		[VB_CM_EVENT_REP_RECEIVED] = "REP received",
		[VB_CM_EVENT_ESTABLISHED] = "established",
		[VB_CM_EVENT_REJECTED] = "rejected",
		[VB_CM_EVENT_UNREACHABLE] = "unreachable",
		[VB_CM_EVENT_DISCONNECTED] = "disconnected",
		[VB_CM_EVENT_TIMEWAIT_EXIT] = "timewait exit",
		[VB_CM_EVENT_SIDR_REQ_RECEIVED] = "SIDR_REQ received",
		[VB_CM_EVENT_SIDR_REP_RECEIVED] = "SIDR_REP received",
		[VB_CM_EVENT_LAP_RECEIVED] = "LAP received",
	};

	return (unsigned)type < VB_CM_EVENTS ? names[type] : "unknown";
}

const char *vb_cm_drop_name(enum vb_cm_drop drop)
{
	static const char *const names[VB_CM_DROPS] = {
		[VB_CM_DROP_NO_ENDPOINT] = "no_endpoint",
		[VB_CM_DROP_STATE] = "state",
		[VB_CM_DROP_DUPLICATE] = "duplicate",
		[VB_CM_DROP_ADDRESS] = "address",
		[VB_CM_DROP_MALFORMED] = "malformed",
		[VB_CM_DROP_QPN] = "qpn",
		[VB_CM_DROP_PKEY] = "pkey",
		[VB_CM_DROP_SERVICE] = "service",
		[VB_CM_DROP_STALE] = "stale",
		[VB_CM_DROP_BACKLOG] = "backlog",
		[VB_CM_DROP_RESOURCES] = "resources",
	};

	return (unsigned)drop < VB_CM_DROPS ? names[drop] : "unknown";
}
