/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: what answers say about the work requests that are out. */
#include "path/roce/roce.h"
#include "wire/rnr.h"

#include <string.h>

enum { LATE_MIN_NS = 2000000 };

static struct vb_wqe *oldest(struct vb_wired *wired)
{
	return vb_sq_wqe(&wired->qp->sq, wired->qp->sq.next);
}

void vb_completer_fail(struct vb_wired *wired, enum vb_reason reason)
{
	const struct vb_wqe *wqe = oldest(wired);
	const struct vb_report report = { .key = wqe->rkey, .addr = wqe->remote_addr };

	vb_completer_fail_as(wired, reason, report);
}

void vb_completer_fail_as(struct vb_wired *wired, enum vb_reason reason, struct vb_report report)
{
	struct vb_requester *req = &wired->req;
	const struct ibv_qp_attr *attr = &wired->qp->attr;
	bool retried = reason == VB_WHY_PEER_SILENT || reason == VB_WHY_PEER_MISSES;

	if (retried && vb_roce_migrate(wired))
		return;
	req->stop = VB_OK;
	wired->counters.retry_exceeded += retried;
	wired->counters.rnr_exceeded += reason == VB_WHY_NO_RECEIVE;
	if (reason == VB_WHY_PEER_SILENT)
		report.want = attr->timeout ? vb_requester_patience_ns(wired) / 1000000 : 0;
	if (reason == VB_WHY_PEER_MISSES)
		report.want = attr->retry_cnt + 1u;
	if (reason == VB_WHY_NO_RECEIVE)
		report.want = attr->rnr_retry + 1u;
	if (wired->qp->sq.next == req->begun) /* it was refused before it was begun */
		req->begun++;
	vb_path_complete(wired->qp, reason, &report, &wired->notice);
	vb_roce_todo(wired); /* what follows is flushed */
}

/* --- progress --- */

static void measure(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (!req->timing || vb_psn_diff(req->una_psn, req->timed_psn) <= 0)
		return;
	req->timing = false;
	vb_congestion_measured(&req->congestion, wired->roce->now_ns - req->timed_ns,
			       wired->roce->now_ns);
}

static void pop_reads(struct vb_requester *req)
{
	while (req->reads_head != req->reads_tail) {
		const struct vb_read_request *first =
			&req->reads[req->reads_head % VB_RD_ATOMIC_MAX];

		if (vb_psn_diff(vb_psn_add(first->psn, first->count), req->una_psn) > 0)
			break;
		req->reads_head++;
	}
	while (req->asked_head != req->asked_tail &&
	       vb_psn_diff(req->asked[req->asked_head % VB_RD_ATOMIC_MAX].end_psn, req->una_psn) <=
		       0)
		req->asked_head++;
}

/*
 * An ACK got lost, or was it only late? What was sent again is answered after about one round trip;
 * an answer that comes much earlier is the one to the first time, and one that comes much later is
 * from a peer that waited for a CPU.
 */
static bool was_late(const struct vb_wired *wired)
{
	const struct vb_congestion *congestion = &wired->req.congestion;
	uint64_t since_ns = wired->roce->now_ns - wired->req.back_ns;

	return since_ns < congestion->rtt_min_ns / 2 ||
	       since_ns > 2 * congestion->rtt_ns + LATE_MIN_NS;
}

/* It answers: nothing was lost of what its silence was taken for, if it has everything. */
static void end_probe(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;

	if (req->probing && vb_psn_diff(req->una_psn, req->probe_psn) >= 0) {
		vb_congestion_undo(&req->congestion);
		if (was_late(wired))
			vb_congestion_late(&req->congestion, now_ns - req->stalled_ns, now_ns);
	}
	req->probing = false;
}

/* With all that was posted on its way there is no turn to be had but to tell of what completed. */
static void go_on(struct vb_wired *wired)
{
	if (wired->queued == VB_QUEUED_TODO)
		return;
	if (vb_requester_due(wired))
		vb_roce_todo(wired);
	else
		vb_roce_notify(wired);
}

/* una has moved by count packets. */
static void progressed(struct vb_wired *wired, uint32_t count)
{
	struct vb_requester *req = &wired->req;
	uint32_t out;

	if (!count)
		return;
	measure(wired);
	pop_reads(req);
	end_probe(wired);
	req->recovering = false;
	req->nak_retries = req->rnr_tries = 0;
	req->rnr_cautious = false;
	req->rnr_ns = 0; /* it came to the receive in another way, and the RNR NAK was late */
	if (req->doubted && vb_psn_diff(req->una_psn, req->doubted_psn) > 0)
		req->doubted = 0;
	out = (uint32_t)vb_psn_diff(req->sent_psn, req->una_psn);
	vb_congestion_acked(&req->congestion, count, out);
	vb_share_acked(&wired->roce->share, (uint64_t)count * wired->mtu);
	/* What had been sent before going back arrived after all. */
	if (vb_psn_diff(req->una_psn, req->next_psn) > 0)
		vb_requester_go_back(wired, req->una_psn);
	vb_requester_advance(wired);
	vb_requester_rearm(wired);
	go_on(wired);
}

/*
 * Everything up to psn is acknowledged, except that READs and ATOMICs must be answered themselves:
 * false if one of those was passed over, which means that its answer was lost.
 */
static bool acknowledge(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;
	const struct vb_sq *sq = &wired->qp->sq;
	uint32_t before = req->una_psn;
	bool whole = true;

	for (uint32_t i = sq->next; i != req->begun && vb_psn_diff(psn, req->una_psn) >= 0; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, i);
		uint32_t end = vb_psn_add(wqe->psn, wqe->psn_count);

		if (!wqe->psn_count || vb_psn_diff(req->una_psn, end) >= 0)
			continue;
		if (vb_wr_reads(wqe->opcode)) {
			whole = false;
			break;
		}
		req->una_psn = vb_psn_diff(psn, end) >= 0 ? end : vb_psn_add(psn, 1);
	}
	progressed(wired, (uint32_t)vb_psn_diff(req->una_psn, before));
	return whole;
}

/* Once per gap; if that does not help, the timer does. */
static void answer_lost(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (req->recovering)
		return;
	req->recovering = true;
	wired->counters.implied_nak++;
	vb_congestion_lost(&req->congestion, wired->roce->now_ns);
	vb_share_lost(&wired->roce->share, wired->roce->now_ns);
	vb_requester_go_back(wired, req->una_psn);
}

/* --- ACK and NAK --- */

/* A receiver that was given no CPU yet is not refused: tries count after some time only. */
static void rnr(struct vb_wired *wired, uint32_t psn, uint8_t timer)
{
	struct vb_requester *req = &wired->req;
	uint8_t most = wired->qp->attr.rnr_retry;
	uint64_t now_ns = wired->roce->now_ns;

	if (psn != req->una_psn || req->rnr_ns)
		return;
	wired->counters.rnr_naks++;
	if (!req->rnr_cautious)
		req->rnr_since_ns = now_ns;
	if (now_ns >= req->rnr_since_ns + VB_RNR_GRACE_NS && most != VB_RNR_RETRY_FOREVER &&
	    req->rnr_tries++ >= most) {
		vb_completer_fail(wired, VB_WHY_NO_RECEIVE);
		return;
	}
	end_probe(wired);
	req->rnr_cautious = true;
	vb_requester_go_back(wired, psn);
	req->rnr_ns = now_ns + vb_rnr_timer_ns(timer);
	vb_timer_set(&wired->roce->timers, &wired->timer, req->rnr_ns);
}

static void out_of_sequence(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;

	if (psn != req->una_psn || req->rnr_ns)
		return;
	/* The same gap, told again before what we sent for it can have arrived. */
	if (req->recovering && req->nak_psn == psn &&
	    wired->roce->now_ns - req->back_ns < req->congestion.rtt_ns)
		return;
	wired->counters.nak_sequence++;
	if (req->nak_retries++ >= wired->qp->attr.retry_cnt) {
		vb_completer_fail(wired, VB_WHY_PEER_MISSES);
		return;
	}
	req->recovering = true;
	req->nak_psn = psn;
	end_probe(wired);
	vb_congestion_lost(&req->congestion, wired->roce->now_ns);
	vb_share_lost(&wired->roce->share, wired->roce->now_ns);
	vb_requester_go_back(wired, psn);
	vb_requester_rearm(wired);
}

static void refused(struct vb_wired *wired, uint8_t syndrome)
{
	switch (syndrome) {
	case VB_NAK_INVALID_REQUEST:
		vb_completer_fail(wired, VB_WHY_NAKED_INVALID);
		break;
	case VB_NAK_ACCESS:
		vb_completer_fail(wired, VB_WHY_NAKED_ACCESS);
		break;
	case VB_NAK_OPERATIONAL:
		vb_completer_fail(wired, VB_WHY_NAKED_OPERATIONAL);
		break;
	}
}

/* Is it about something that is out? psn may also be the newest that was acknowledged before. */
static bool expected(const struct vb_requester *req, uint32_t psn)
{
	return vb_psn_diff(psn, req->una_psn) >= 0 && vb_psn_diff(psn, req->sent_psn) < 0;
}

static void take_negative(struct vb_wired *wired, uint8_t syndrome, uint32_t psn)
{
	uint8_t kind = syndrome & VB_SYNDROME_KIND;

	if (!acknowledge(wired, vb_psn_add(psn, VB_PSN_MASK))) {
		answer_lost(wired);
		return;
	}
	/* The answer before it completed everything, or failed: nothing to refuse. */
	if (wired->qp->sq.next == wired->req.begun || psn != wired->req.una_psn)
		return;
	if (kind == VB_SYNDROME_RNR)
		rnr(wired, psn, syndrome & VB_SYNDROME_VALUE);
	else if (syndrome == VB_NAK_SEQUENCE)
		out_of_sequence(wired, psn);
	else if (kind == VB_SYNDROME_NAK)
		refused(wired, syndrome);
}

/* --- refusals that may be forged --- */

static bool ends_qp(uint8_t syndrome)
{
	return (syndrome & VB_SYNDROME_KIND) == VB_SYNDROME_NAK && syndrome != VB_NAK_SEQUENCE;
}

/* The first packet of a message, or a request for a piece of a READ. */
static bool begins_request(const struct vb_wired *wired, uint32_t psn)
{
	const struct vb_requester *req = &wired->req;

	for (uint32_t i = wired->qp->sq.next; i != req->begun; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, i);

		if (wqe->psn_count && wqe->psn == psn)
			return true;
	}
	for (uint32_t i = req->reads_head; i != req->reads_tail; i++)
		if (req->reads[i % VB_RD_ATOMIC_MAX].psn == psn)
			return true;
	return false;
}

/* The peer has completed what it had at its last answer, and at most everything since. */
static bool has_likely_msn(const struct vb_wired *wired, uint32_t msn)
{
	const uint32_t more = wired->req.begun - wired->qp->sq.next + VB_RD_ATOMIC_MAX;

	return ((msn - wired->req.msn) & VB_PSN_MASK) <= more;
}

/*
 * Whoever knows the addresses and the QPN needs to guess no more than a PSN that is on its way, and a
 * window of a long message has many. So a refusal counts at once where most of them are: at the
 * beginning of a request, with an MSN that can be. Another one is kept. It is true if nothing is
 * acknowledged behind it and the peer repeats it, or is silent, when it is asked again.
 */
static bool is_credible(const struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_requester *req = &wired->req;

	if (req->probing && req->doubted == packet->syndrome && req->doubted_psn == packet->psn)
		return true;
	return has_likely_msn(wired, packet->msn) && begins_request(wired, packet->psn);
}

bool vb_completer_believe(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const uint8_t syndrome = req->doubted;

	req->doubted = 0;
	if (syndrome)
		take_negative(wired, syndrome, req->doubted_psn);
	return vb_qp_state(wired->qp) == IBV_QPS_ERR;
}

static void negative(struct vb_wired *wired, const struct vb_packet *packet)
{
	if (ends_qp(packet->syndrome) && !is_credible(wired, packet)) {
		wired->counters.naks_doubted++;
		wired->req.doubted = packet->syndrome;
		wired->req.doubted_psn = packet->psn;
		return;
	}
	take_negative(wired, packet->syndrome, packet->psn);
}

void vb_completer_ack(struct vb_wired *wired, const struct vb_packet *packet)
{
	if (!expected(&wired->req, packet->psn)) {
		wired->counters.late_answers++;
		return;
	}
	if ((packet->syndrome & VB_SYNDROME_KIND) != VB_SYNDROME_ACK) {
		negative(wired, packet);
		return;
	}
	wired->req.msn = packet->msn;
	if (!acknowledge(wired, packet->psn))
		answer_lost(wired);
}

/* --- answers with data --- */

/* The WQE that an answer belongs to; NULL: it answers nothing that is due now. */
static struct vb_wqe *answered(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;
	struct vb_wqe *wqe;

	if (!expected(req, psn)) {
		wired->counters.late_answers++;
		return NULL;
	}
	if (!acknowledge(wired, vb_psn_add(psn, VB_PSN_MASK))) {
		answer_lost(wired);
		return NULL;
	}
	if (wired->qp->sq.next == req->begun || psn != req->una_psn)
		return NULL;
	wqe = oldest(wired);
	return vb_wr_reads(wqe->opcode) && vb_psn_diff(psn, wqe->psn) >= 0 ? wqe : NULL;
}

static enum vb_reason take_in(struct vb_wired *wired, const struct vb_wqe *wqe, uint64_t offset,
			      const uint8_t *bytes, uint32_t length, struct vb_report *report)
{
	struct ibv_sge sge[VB_SGE_MAX];
	enum vb_reason reason;
	unsigned count;

	reason = vb_path_check_sges(wired->qp, wqe, IBV_ACCESS_LOCAL_WRITE, sge, &count, report);
	if (!reason && !vb_path_scatter(sge, count, offset, length, bytes))
		reason = VB_WHY_LOCAL_MEMORY;
	return reason;
}

static void answer_done(struct vb_wired *wired)
{
	wired->req.una_psn = vb_psn_add(wired->req.una_psn, 1);
	progressed(wired, 1);
}

/* Answered by an ATOMIC ACK; everything else that reads by READ responses, some of no bytes. */
static bool is_atomic(const struct vb_wqe *wqe)
{
	return vb_wr_row(wqe->opcode)->family == VB_FAMILY_ATOMIC;
}

static void bad_response(struct vb_wired *wired, uint64_t have, uint64_t want)
{
	vb_completer_fail_as(wired, VB_WHY_BAD_RESPONSE,
			     (struct vb_report){ .have = have, .want = want });
}

/* A responder may begin a repeated answer with any opcode: place and length are what counts. */
void vb_completer_read(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_wqe *wqe = answered(wired, packet->psn);
	struct vb_report report = { 0 };
	enum vb_reason reason = VB_OK;
	uint64_t offset, want;

	if (!wqe)
		return;
	offset = (uint64_t)vb_psn_diff(packet->psn, wqe->psn) * wired->mtu;
	want = wqe->length - offset < wired->mtu ? wqe->length - offset : wired->mtu;
	if (!vb_wr_returns(wqe->opcode))
		want = 0;
	if (is_atomic(wqe) || packet->payload_length != want) {
		bad_response(wired, packet->payload_length, want);
		return;
	}
	if (want)
		reason = take_in(wired, wqe, offset, packet->payload, packet->payload_length,
				 &report);
	if (vb_opcode_row(packet->opcode)->headers & VB_HEADER_AETH)
		wired->req.msn = packet->msn;
	if (reason)
		vb_completer_fail_as(wired, reason, report);
	else
		answer_done(wired);
}

/* It went out so that it changes nothing, and must not look as if it had. */
static bool was_harmless(const struct vb_wired *wired)
{
	return wired->req.suspect && wired->qp->sq.next + 1 == wired->req.begun;
}

void vb_completer_atomic(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_wqe *wqe = answered(wired, packet->psn);
	struct vb_report report = { 0 };
	enum vb_reason reason;

	if (!wqe)
		return;
	if (!is_atomic(wqe)) {
		bad_response(wired, 8, wqe->length < wired->mtu ? wqe->length : wired->mtu);
		return;
	}
	if (was_harmless(wired))
		reason = VB_WHY_LOCAL_MEMORY;
	else
		reason = take_in(wired, wqe, 0, (const uint8_t *)&packet->original, 8, &report);
	wired->req.msn = packet->msn;
	if (reason)
		vb_completer_fail_as(wired, reason, report);
	else
		answer_done(wired);
}
