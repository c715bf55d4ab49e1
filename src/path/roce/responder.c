/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of RC: requests in sequence, gaps and duplicates. */
#include "path/roce/responder.h"

#include <stdlib.h>

#include "base/config.h"
#include "base/log.h"
#include "exec/recv.h"
#include "nic/far_words.h"

/* The thread that resizes is of this process. It may have to wait for a CPU: a second at least. */
enum { RESIZE_TRIES = 3000000 };

bool vb_responder_follow(struct vb_wired *wired, bool waits)
{
	struct vb_roce *roce = wired->roce;

	for (unsigned i = 0; i < RESIZE_TRIES; i++) {
		if (vb_recv_follow(&wired->resp.own))
			return true;
		if (!waits || !roce->sink.yield)
			break;
		/* The thread that resizes waits until no other one is inside. */
		vb_hazard_leave(roce->thread);
		roce->sink.yield(roce->sink.arg);
		vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
	}
	return false;
}

bool vb_responder_bind(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *own = &resp->own;

	if (vb_qp_is_xrc(wired->qp))
		return vb_responder_bind_xrc(wired);
	/* A resize of the SRQ is under way: a peer of RC tries again, UC and UD would lose a
	 * message. */
	if (resp->bound)
		return vb_responder_follow(wired, !vb_qp_reliable(wired->qp));
	own->peer = wired->roce->nic->self;
	own->entry = wired->qp->entry;
	if (!vb_recv_resolve(own)) {
		own->peer = NULL;
		return false;
	}
	vb_peer_get(own->peer);
	own->keeps_head = wired->qp->type == IBV_QPT_UC;
	/* Messages may have come by the local path before. */
	own->next_recv = vb_rq_next_free(wired->qp->rq);
	resp->bound = true;
	return true;
}

/* --- requests that write --- */

/* True: an ACK answers the request. Other requests have an answer of their own. */
static bool request_writes(const struct vb_opcode_row *row)
{
	return row->family == VB_FAMILY_SEND || row->family == VB_FAMILY_WRITE;
}

void vb_responder_executed(struct vb_wired *wired, const struct vb_packet *packet, uint32_t psns)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	bool more = row->place == VB_PLACE_FIRST || row->place == VB_PLACE_MIDDLE;

	resp->expected_psn = vb_psn_add(resp->expected_psn, psns);
	resp->family = more ? row->family : VB_FAMILY_UNKNOWN;
	resp->msn += !more;
	if (request_writes(row)) {
		resp->ack_psn = packet->psn;
		resp->ack_msn = resp->msn;
	} else {
		resp->ack_due = false; /* its own answer acknowledges all requests before */
	}
}

static void request_place(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	enum vb_reason reason;

	if (row->family == VB_FAMILY_WRITE &&
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_WRITE)) {
		vb_responder_refuse(wired, packet, VB_WHY_QP_RIGHT);
		return;
	}
	reason = row->family == VB_FAMILY_SEND ? vb_place_send(wired, packet)
					       : vb_place_write(wired, packet);
	if (reason == VB_WHY_NO_RECEIVE) {
		vb_responder_not_ready(wired, packet);
		return;
	}
	if (reason == VB_WHY_RECV_INVALIDATE) {
		vb_responder_fail_behind(wired, packet, reason);
		return;
	}
	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	vb_responder_executed(wired, packet, 1);
	if (packet->ack_request)
		vb_roce_todo_ack(wired);
}

/* --- sequence --- */

static bool packet_continues(const struct vb_responder *resp, const struct vb_opcode_row *row)
{
	bool begins = row->place != VB_PLACE_MIDDLE && row->place != VB_PLACE_LAST;

	if (resp->family == VB_FAMILY_UNKNOWN)
		return begins;
	return !begins && row->family == resp->family;
}

/* No message has arrived: the two ends may have begun with different numbers. */
void vb_responder_explain_psn(struct vb_wired *wired, uint32_t psn)
{
	char peer[VB_FAR_WORDS];

	if (!vb_config_explain() || wired->resp.psn_told)
		return;
	wired->resp.psn_told = true;
	vb_explain_note(
		"QP 0x%06x drops packets of QP 0x%06x%s: it expects PSN %u (its rq_psn), and %u "
		"came first: sq_psn there is another number, or the first packets were lost",
		wired->qp->ibv.qp_num, wired->qp->attr.dest_qp_num,
		vb_far_words(wired->qp, NULL, peer), wired->resp.expected_psn, psn);
}

/* XRC: finds the SRQ. False: the request is refused, or the requester must try again. */
static bool request_aim(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	enum vb_reason reason;

	if (resp->family != VB_FAMILY_UNKNOWN && packet->srqn != resp->own.srqn)
		reason = VB_WHY_OUT_OF_SEQUENCE;
	else
		reason = vb_responder_aim(wired, request_writes(row) ? &resp->own : &resp->answers,
					  packet->srqn);
	if (reason && vb_reason_row(reason)->target_fails)
		vb_responder_refuse(wired, packet, reason);
	else if (reason)
		vb_responder_postpone(wired);
	return !reason;
}

static void request_execute(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);

	if (!packet_continues(&wired->resp, row)) {
		vb_responder_refuse(wired, packet, VB_WHY_OUT_OF_SEQUENCE);
		return;
	}
	if (!vb_place_fits(wired, packet)) {
		vb_responder_refuse(wired, packet, VB_WHY_PACKET_LENGTH);
		return;
	}
	if (vb_qp_is_xrc(wired->qp) && !request_aim(wired, packet))
		return;
	if (request_writes(row))
		request_place(wired, packet);
	else
		vb_responder_answer(wired, packet);
}

static void request_duplicate(struct vb_wired *wired, const struct vb_packet *packet)
{
	wired->counters.duplicates++;
	vb_lateness_twice(&wired->resp.lateness, packet->psn, packet->ack_request);
	if (!wired->resp.heard)
		vb_responder_explain_psn(wired, packet->psn);
	if (request_writes(vb_opcode_row(packet->opcode)))
		vb_roce_todo_ack(wired);
	else
		vb_responder_answer_again(wired, packet);
}

/* The gap is closed: packets from behind it follow, up to the next gap or refusal. */
static void kept_execute(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_kept *kept;

	while (resp->reorder.count && !resp->fatal &&
	       (kept = vb_reorder_take(wired, resp->expected_psn))) {
		request_execute(wired, &kept->packet);
		free(kept);
	}
	/* The requester sends a request again that was refused for now, and all behind it. */
	if (resp->reorder.count && (resp->fatal || resp->rnr_sent))
		vb_reorder_clear(wired);
}

void vb_responder_reliable(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;
	int32_t ahead = vb_psn_diff(packet->psn, resp->expected_psn);

	if (resp->fatal)
		return;
	if (ahead > 0) {
		vb_responder_gap(wired, packet);
		return;
	}
	if (!vb_responder_bind(wired)) {
		vb_responder_postpone(wired);
		return;
	}
	if (ahead < 0) {
		request_duplicate(wired, packet);
		return;
	}
	resp->nak_sent = resp->rnr_sent = false;
	if ((resp->nak_due & VB_SYNDROME_KIND) == VB_SYNDROME_RNR)
		resp->nak_due = 0; /* the RNR NAK is not out yet, and is decided anew */
	resp->heard = true;
	if (__builtin_expect(resp->reorder.count, 0))
		vb_responder_gap_filled(wired, packet);
	request_execute(wired, packet);
	kept_execute(wired);
	vb_responder_gap_moved(wired);
}
