/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer's second half: answers of READs and ATOMICs, which bring bytes. */
#include "path/roce/completer.h"

enum { EARLY_STEP = 16 }; /* early answers between two looks for lost ones */

bool vb_completer_shows_loss(const struct vb_requester *req)
{
	const struct vb_answers *answers = &req->answers;

	if (__builtin_expect(!answers->count, 1))
		return false;
	return answers->count >= vb_tolerance_packets(&req->tolerance) ||
	       req->asked_head == req->asked_tail ||
	       answers->end_psn == req->asked[(req->asked_tail - 1) % VB_RD_ATOMIC_MAX].end_psn;
}

/* The WQE that has this PSN, from the oldest on; NULL: none. */
static struct vb_wqe *wqe_of(struct vb_wired *wired, uint32_t psn)
{
	for (uint32_t i = wired->qp->sq.next; i != wired->req.begun; i++) {
		struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, i);

		if (wqe->psn_count && vb_psn_diff(psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			return wqe;
	}
	return NULL;
}

/* An answer came twice. All answers of a part show one thing: it was asked for too early. */
static void part_repeated(struct vb_requester *req, uint32_t psn)
{
	if (vb_psn_diff(psn, req->part.psn) < 0 || vb_psn_diff(psn, req->part.end_psn) >= 0)
		return;
	req->part.end_psn = req->part.psn;
	vb_tolerance_needless(&req->tolerance);
}

/* The WQE that an answer belongs to; NULL: no WQE waits for this answer. */
static struct vb_wqe *answer_find(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;
	struct vb_wqe *wqe;

	if (!vb_completer_expects(req, psn) || vb_answers_has(&req->answers, psn)) {
		wired->counters.late_answers++;
		part_repeated(req, psn);
		return NULL;
	}
	vb_completer_acknowledge(wired, vb_psn_add(psn, VB_PSN_MASK));
	if (!vb_completer_expects(req, psn))
		return NULL;
	wqe = wqe_of(wired, psn);
	return wqe && vb_wr_reads(wqe->opcode) && vb_psn_diff(psn, wqe->psn) >= 0 ? wqe : NULL;
}

static enum vb_reason answer_store(struct vb_wired *wired, const struct vb_wqe *wqe,
				   uint64_t offset, const uint8_t *bytes, uint32_t length,
				   struct vb_report *report)
{
	struct ibv_sge sge[VB_SGE_MAX];
	enum vb_reason reason;
	unsigned count;

	reason = vb_path_check_sges(wired->qp, wqe, IBV_ACCESS_LOCAL_WRITE, sge, &count, report);
	if (!reason && !vb_path_scatter(sge, count, offset, length, bytes))
		reason = VB_WHY_LOCAL_MEMORY;
	return reason;
}

/* The answer of una_psn is stored; early ones may follow it. */
static void answer_done(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const uint32_t before = req->una_psn;

	req->una_psn = vb_psn_add(before, 1);
	if (vb_psn_diff(req->acked_psn, req->una_psn) < 0)
		req->acked_psn = req->una_psn;
	else
		vb_completer_move(wired);
	vb_completer_progressed(wired, (uint32_t)vb_psn_diff(req->una_psn, before));
}

/* una_psn may wait for a lost answer much longer than this one took. */
static void round_trip_measure(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;
	const uint64_t now_ns = wired->roce->now_ns;

	if (!req->timing || vb_psn_diff(psn, req->timed_psn) < 0)
		return;
	req->timing = false;
	vb_congestion_measured(&req->congestion, now_ns - req->timed_ns, now_ns);
}

/* The answer of a later PSN is stored. */
static void answer_early(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;

	round_trip_measure(wired, psn);
	if (!vb_answers_add(&req->answers, psn, req->una_psn))
		return;
	if (vb_psn_diff(req->acked_psn, psn) <= 0)
		req->acked_psn = vb_psn_add(psn, 1);
	/* The look for lost answers takes a while: not with each early one. */
	if (vb_completer_shows_loss(req) &&
	    (!req->recovering || req->answers.count % EARLY_STEP == 0))
		vb_completer_answer_lost(wired);
}

/* An answer that is wrong, or has no place, fails its WQE when its turn comes: it comes again. */
static void answer_end(struct vb_wired *wired, uint32_t psn, enum vb_reason reason,
		       const struct vb_report *report)
{
	if (psn != wired->req.una_psn && !reason)
		answer_early(wired, psn);
	else if (psn == wired->req.una_psn && reason)
		vb_completer_fail_as(wired, reason, *report);
	else if (!reason)
		answer_done(wired);
}

/* True: an ATOMIC ACK answers this WQE. READ responses answer all others, some without bytes. */
static bool wqe_is_atomic(const struct vb_wqe *wqe)
{
	return vb_wr_row(wqe->opcode)->family == VB_FAMILY_ATOMIC;
}

static void bad_response(struct vb_wired *wired, uint32_t psn, uint64_t have, uint64_t want)
{
	const struct vb_report report = { .have = have, .want = want };

	answer_end(wired, psn, VB_WHY_BAD_RESPONSE, &report);
}

/* True: the request was sent so that it changes nothing (requester_read.c): it must fail. */
static bool request_was_harmless(const struct vb_wired *wired, const struct vb_wqe *wqe)
{
	return wired->req.suspect && wqe == vb_sq_wqe(&wired->qp->sq, wired->req.begun - 1);
}

/* A responder may begin a repeated answer with any opcode: only PSN and length count. */
void vb_completer_read(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_wqe *wqe = answer_find(wired, packet->psn);
	struct vb_report report = { 0 };
	enum vb_reason reason = VB_OK;
	uint64_t offset, want;

	if (!wqe)
		return;
	offset = (uint64_t)vb_psn_diff(packet->psn, wqe->psn) * wired->mtu;
	want = wqe->length - offset < wired->mtu ? wqe->length - offset : wired->mtu;
	if (!vb_wr_returns(wqe->opcode))
		want = 0;
	if (wqe_is_atomic(wqe) || packet->payload_length != want) {
		bad_response(wired, packet->psn, packet->payload_length, want);
		return;
	}
	if (__builtin_expect(vb_wr_row(wqe->opcode)->family == VB_FAMILY_MASKED, 0) &&
	    request_was_harmless(wired, wqe))
		reason = VB_WHY_LOCAL_MEMORY;
	else if (want)
		reason = answer_store(wired, wqe, offset, packet->payload, packet->payload_length,
				      &report);
	if (vb_opcode_row(packet->opcode)->headers & VB_HEADER_AETH)
		wired->req.msn = packet->msn;
	answer_end(wired, packet->psn, reason, &report);
}

void vb_completer_atomic(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_wqe *wqe = answer_find(wired, packet->psn);
	struct vb_report report = { 0 };
	enum vb_reason reason;

	if (!wqe)
		return;
	if (!wqe_is_atomic(wqe)) {
		bad_response(wired, packet->psn, 8,
			     wqe->length < wired->mtu ? wqe->length : wired->mtu);
		return;
	}
	if (request_was_harmless(wired, wqe))
		reason = VB_WHY_LOCAL_MEMORY;
	else
		reason =
			answer_store(wired, wqe, 0, (const uint8_t *)&packet->original, 8, &report);
	wired->req.msn = packet->msn;
	answer_end(wired, packet->psn, reason, &report);
}
