/* SPDX-License-Identifier: BSD-2-Clause */
/* The paths of a wired QP: their ways, and the path that a packet came by. */
#include "nic/migrate.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "path/roce/roce.h"

enum { ECN_MASK = 3, ECN_CAPABLE = 2 };

/* Entropy spreads the connections between two hosts, and the two paths of a QP, over the
 * network. */
static uint32_t path_entropy(const struct vb_qp *qp, uint32_t path_number)
{
	uint32_t fold = qp->ibv.qp_num * qp->attr.dest_qp_num;

	return (fold ^ fold >> 14 ^ fold >> 20) + path_number * 0x9e3779b1u;
}

int vb_roce_way(struct vb_roce *roce, struct vb_qp *qp, const struct vb_av *av,
		struct vb_peer *peer, struct vb_way *way)
{
	const uint32_t number = atomic_load(&qp->migration.path_number);
	/* The path of RTR has number 1. */
	int err = roce->sink.resolve(roce->sink.arg, av, peer, path_entropy(qp, number - 1), way);

	/* Routers may mark packets instead of dropping them: reliable QPs slow down on CNPs. */
	if (!err && vb_qp_reliable(qp) && !(way->traffic_class & ECN_MASK))
		way->traffic_class |= ECN_CAPABLE;
	return err;
}

/* Finds the way of a path. A QP that reached its peer through a slot socket goes on to do so. */
static int path_way(struct vb_wired *wired, const struct vb_av *av, struct vb_way *way)
{
	struct vb_qp *qp = wired->qp;
	struct vb_peer *peer = NULL;
	int err;

	if (wired->by_slot && av->local)
		peer = vb_nic_peer(qp->nic, qp->attr.dest_qp_num >> VB_QP_INDEX_BITS);
	if (wired->by_slot && av->local && !peer)
		return -ENETUNREACH;
	err = vb_roce_way(wired->roce, qp, av, peer, way);
	vb_peer_put(peer);
	return err;
}

/* A path without a way loses all packets. */
void vb_roce_follow_path(struct vb_wired *wired)
{
	const uint32_t number = atomic_load(&wired->qp->migration.path_number);
	const struct vb_av av = vb_qp_av(wired->qp);
	struct vb_way way = { 0 };

	wired->path_number = number;
	if (path_way(wired, &av, &way)) {
		vb_explain_work("QP 0x%06x has no way to its peer on this path",
				wired->qp->ibv.qp_num);
		way = (struct vb_way){ .kind = VB_WAY_NOWHERE, .socket = -1 };
	}
	vb_tx_flush(&wired->roce->tx); /* bursts may name the way that goes */
	vb_way_release(&wired->way);
	wired->way = way;
}

static bool is_from_address(const struct vb_way *way, const struct vb_arrival *arrival)
{
	return vb_peer_same(arrival->peer, way->peer) && arrival->flow->ipv6 == way->flow.ipv6 &&
	       !memcmp(arrival->flow->src, way->flow.dst, sizeof(way->flow.dst));
}

/* Within this host packets may come from, and to, any of its addresses. */
static bool is_from_here(const struct vb_roce_sink *sink, const struct vb_way *way,
			 const struct vb_arrival *arrival)
{
	return sink->is_from_other_end && sink->is_from_other_end(sink->arg, way, arrival);
}

static bool is_from_way(const struct vb_roce *roce, const struct vb_way *way,
			const struct vb_arrival *arrival)
{
	return way->kind != VB_WAY_NOWHERE &&
	       (is_from_address(way, arrival) || is_from_here(&roce->sink, way, arrival)) &&
	       (way->local || !memcmp(arrival->flow->dst, way->flow.src, sizeof(way->flow.src)));
}

static bool is_from_alternate(struct vb_wired *wired, const struct vb_arrival *arrival)
{
	const struct vb_av alternate = vb_qp_alternate(wired->qp);
	struct vb_way way = { 0 };
	bool expected;

	if (path_way(wired, &alternate, &way))
		return false;
	expected = is_from_way(wired->roce, &way, arrival);
	vb_way_release(&way);
	return expected;
}

/* The peer has migrated to its alternate path, which has to be this QP's alternate path as well. */
static bool migrate_with_peer(struct vb_wired *wired, const struct vb_arrival *arrival)
{
	if (!is_from_alternate(wired, arrival)) {
		if (is_from_way(wired->roce, &wired->way, arrival))
			vb_migrate_refuse(wired->qp);
		return false;
	}
	if (vb_migrate(wired->qp))
		vb_roce_follow_path(wired);
	return true;
}

bool vb_roce_from_peer(struct vb_wired *wired, const struct vb_packet *packet,
		       const struct vb_arrival *arrival)
{
	const enum ibv_mig_state state = vb_mig_state(wired->qp);

	if (__builtin_expect(wired->path_number !=
				     atomic_load_explicit(&wired->qp->migration.path_number,
							  memory_order_relaxed),
			     0))
		vb_roce_follow_path(wired);
	if (state == IBV_MIG_ARMED && packet->migreq)
		return migrate_with_peer(wired, arrival);
	if (!is_from_way(wired->roce, &wired->way, arrival))
		return false;
	if (state == IBV_MIG_REARM && !packet->migreq)
		vb_migrate_arm(wired->qp);
	return true;
}

/* All packets that are not acknowledged leave again, with the full patience for the new path. */
bool vb_roce_migrate(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (!vb_migrate(wired->qp))
		return false;
	vb_roce_follow_path(wired);
	req->nak_retries = 0;
	req->probing = req->recovering = false;
	vb_requester_go_back(wired, req->una_psn);
	vb_requester_rearm(wired);
	return true;
}
