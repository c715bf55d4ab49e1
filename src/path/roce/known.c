/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/known.h"

#include <string.h>

#include "nic/migrate.h"
#include "path/roce/roce.h"

/* By opcode and QPN. */
static struct vb_known *place_of(struct vb_roce *roce, const uint8_t *bytes)
{
	return &roce->known[(bytes[0] ^ bytes[0] >> 4 ^ bytes[7]) % VB_KNOWN];
}

static bool is_same_flow(const struct vb_icrc_flow *a, const struct vb_icrc_flow *b)
{
	return a->seed == b->seed && a->ipv6 == b->ipv6 && a->src_port == b->src_port &&
	       a->dst_port == b->dst_port && !memcmp(a->src, b->src, sizeof(a->src)) &&
	       !memcmp(a->dst, b->dst, sizeof(a->dst));
}

/* Migration looks at the MigReq bit of packets, and a path that moves changes the number. */
static bool is_settled(const struct vb_known *known)
{
	const struct vb_qp *qp = known->wired->qp;

	return vb_mig_state(qp) == IBV_MIG_MIGRATED && vb_qp_pkey(qp) == known->pkey &&
	       known->wired->path_number == known->path_number &&
	       atomic_load_explicit(&qp->migration.path_number, memory_order_relaxed) ==
		       known->path_number;
}

/* Packets that came straight from another host, or from a process of this host in that way. */
static bool came_by_udp(const struct vb_arrival *arrival)
{
	return !arrival->peer && !arrival->forwarded && !arrival->fabric;
}

struct vb_known *vb_known_find(struct vb_roce *roce, const struct vb_arrival *arrival)
{
	struct vb_known *known;

	if (arrival->length < VB_BTH_LENGTH)
		return NULL;
	known = place_of(roce, arrival->bytes);
	if (known->length != arrival->length || !known->wired ||
	    memcmp(known->bytes, arrival->bytes, sizeof(known->bytes)) != 0 ||
	    !came_by_udp(arrival) || !is_same_flow(&known->flow, arrival->flow) ||
	    !is_settled(known))
		return NULL;
	return known;
}

/* A datagram may come from anywhere, and the next one from somewhere else. */
void vb_known_note(struct vb_wired *wired, const struct vb_packet *packet,
		   const struct vb_arrival *arrival, uint32_t icrc_head)
{
	struct vb_known *known = place_of(wired->roce, arrival->bytes);

	if (wired->qp->type != IBV_QPT_RC || !came_by_udp(arrival))
		return;
	known->wired = wired;
	known->length = arrival->length;
	known->icrc_head = icrc_head;
	known->path_number = wired->path_number;
	known->pkey = vb_qp_pkey(wired->qp);
	known->flow = *arrival->flow;
	known->packet = *packet;
	memcpy(known->bytes, arrival->bytes, sizeof(known->bytes));
}

void vb_known_forget(struct vb_roce *roce, const struct vb_wired *wired)
{
	for (unsigned i = 0; i < VB_KNOWN; i++)
		if (roce->known[i].wired == wired)
			roce->known[i].wired = NULL;
}
