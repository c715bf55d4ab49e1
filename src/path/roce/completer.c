/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: answers to the work requests that are under way. */
#include "path/roce/completer.h"

#include "base/probe.h"
#include "path/no_receive.h"
#include "path/roce/requester.h"
#include "wire/rnr.h"

enum { LATE_MIN_NS = 2000000, WAY_DOUBLINGS = 4, LONG_WAY_NS = 2000000 };

static struct vb_wqe *oldest_wqe(struct vb_wired *wired)
{
	return vb_sq_wqe(&wired->qp->sq, wired->qp->sq.next);
}

void vb_completer_fail(struct vb_wired *wired, enum vb_reason reason)
{
	const struct vb_wqe *wqe = oldest_wqe(wired);
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
	if (wired->qp->sq.next == req->begun) /* the WQE fails before it has begun */
		req->begun++;
	vb_path_complete(wired->qp, reason, &report, &wired->notice);
	vb_roce_todo(wired); /* the next turn flushes the WQEs behind */
}

/* --- progress --- */

static void round_trip_measure(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (!req->timing || vb_psn_diff(req->una_psn, req->timed_psn) <= 0)
		return;
	req->timing = false;
	vb_congestion_measured(&req->congestion, wired->roce->now_ns - req->timed_ns,
			       wired->roce->now_ns);
}

static void reads_pop(struct vb_requester *req)
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

/* A packet that was sent again is answered after about one round trip. True: the answer comes much
 * earlier, and belongs to the first packet. */
static bool answers_first(const struct vb_wired *wired)
{
	return wired->roce->now_ns - wired->req.back_ns < wired->req.congestion.rtt_min_ns / 2;
}

/* True: the answer was late, not lost. An answer that comes much later than expected is from a peer
 * that waited for a CPU. */
static bool answer_was_late(const struct vb_wired *wired)
{
	uint64_t since_ns = wired->roce->now_ns - wired->req.back_ns;

	return answers_first(wired) || since_ns > 2 * wired->req.congestion.rtt_ns + LATE_MIN_NS;
}

/*
 * True: the way is, or has become, so long that each packet is sent again before its answer comes.
 * No round trip would ever be measured. The time since the first packet is too long at worst. After
 * fewer waits a packet of a short way may have been lost, and its silence is no round trip.
 */
static bool way_is_unknown(const struct vb_requester *req)
{
	return req->congestion.doublings >= WAY_DOUBLINGS;
}

/* Nobody knows how many packets were lost: one counts. */
static void silence_judge(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (req->loss_open && !answer_was_late(wired))
		vb_requester_lost(wired, 1);
	req->loss_open = false;
}

/* True: the peer has all packets that were sent before the probe; or, on a long way, did not wait
 * for the probe. On a short one the times of both are too close together. */
static bool alarm_was_false(const struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;

	return vb_psn_diff(req->una_psn, req->probe_psn) >= 0 ||
	       (req->congestion.rtt_min_ns > LONG_WAY_NS && answers_first(wired));
}

/* The peer answers. */
static void probe_end(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;

	silence_judge(wired);
	if (req->probing && way_is_unknown(req)) {
		vb_congestion_undo(&req->congestion);
		vb_congestion_measured(&req->congestion, now_ns - req->stalled_ns, now_ns);
	} else if (req->probing && alarm_was_false(wired)) {
		vb_congestion_undo(&req->congestion);
		if (answer_was_late(wired))
			vb_congestion_late(&req->congestion, now_ns - req->stalled_ns, now_ns);
		vb_requester_go_on(wired);
	}
	req->probing = false;
}

/* With all posted WQEs under way no turn is needed: pollers are told of completions here. */
static void turn_continue(struct vb_wired *wired)
{
	if (wired->queued == VB_QUEUED_TODO)
		return;
	if (vb_requester_due(wired))
		vb_roce_todo(wired);
	else
		vb_roce_notify(wired);
}

void vb_completer_progressed(struct vb_wired *wired, uint32_t count)
{
	struct vb_requester *req = &wired->req;
	uint32_t out;

	if (!count)
		return;
	round_trip_measure(wired);
	reads_pop(req);
	probe_end(wired);
	req->recovering = false;
	req->nak_retries = req->rnr_tries = 0;
	req->rnr_cautious = false;
	req->rnr_ns = 0; /* a repetition found a receive, and the RNR NAK was late */
	if (req->doubted && vb_psn_diff(req->una_psn, req->doubted_psn) > 0)
		req->doubted = 0;
	out = (uint32_t)vb_psn_diff(req->sent_psn, req->una_psn);
	vb_congestion_acked(&req->congestion, count, out, wired->roce->now_ns);
	vb_share_acked(&wired->roce->share, (uint64_t)count * wired->mtu);
	vb_repair_progressed(wired);
	vb_tolerance_calm(&req->tolerance, count);
	req->parts_due |= vb_completer_shows_loss(req);
	/* Packets sent before the requester went back have arrived after all. */
	if (vb_psn_diff(req->una_psn, req->next_psn) > 0)
		vb_requester_go_back(wired, req->una_psn);
	vb_requester_advance(wired);
	vb_requester_rearm(wired);
	turn_continue(wired);
}

/* Moves una_psn over the answers of a READ or ATOMIC that came early. */
static void answers_pass(struct vb_requester *req, uint32_t end_psn)
{
	while (req->una_psn != end_psn && vb_answers_take(&req->answers, req->una_psn))
		req->una_psn = vb_psn_add(req->una_psn, 1);
}

bool vb_completer_move(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const struct vb_sq *sq = &wired->qp->sq;

	for (uint32_t i = sq->next;
	     i != req->begun && vb_psn_diff(req->acked_psn, req->una_psn) > 0; i++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, i);
		uint32_t end = vb_psn_add(wqe->psn, wqe->psn_count);

		if (!wqe->psn_count || vb_psn_diff(req->una_psn, end) >= 0)
			continue;
		if (!vb_wr_reads(wqe->opcode))
			req->una_psn = vb_psn_diff(req->acked_psn, end) >= 0 ? end : req->acked_psn;
		else
			answers_pass(req, end);
		if (req->una_psn != end)
			return !vb_wr_reads(wqe->opcode);
	}
	return true;
}

bool vb_completer_acknowledge(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;
	uint32_t before = req->una_psn;
	bool whole;

	if (vb_psn_diff(psn, req->acked_psn) >= 0)
		req->acked_psn = vb_psn_add(psn, 1);
	whole = vb_completer_move(wired);
	vb_completer_progressed(wired, (uint32_t)vb_psn_diff(req->una_psn, before));
	return whole;
}

static void answer_ask(struct vb_wired *wired, bool again)
{
	struct vb_requester *req = &wired->req;

	if (vb_requester_una_reads(wired)) {
		req->parts_due = true;
		vb_roce_todo(wired);
	} else if (req->repair.known) {
		vb_repair_packet(wired, req->una_psn);
	} else if (!again) {
		vb_requester_lost(wired, 1);
		vb_requester_go_back(wired, req->una_psn);
	}
}

/* READs ask for the missing part. Requests that have one answer are sent again. */
void vb_completer_answer_lost(struct vb_wired *wired)
{
	const bool again = wired->req.recovering;

	wired->req.recovering = true;
	wired->counters.implied_nak += !again;
	answer_ask(wired, again);
}

/* --- ACK and NAK --- */

/* Tries count after vb_rnr_grace_ns only: a receiver may have had no CPU to post a receive. */
static void nak_rnr(struct vb_wired *wired, uint32_t psn, uint8_t timer)
{
	struct vb_requester *req = &wired->req;
	uint8_t most = wired->qp->attr.rnr_retry;
	uint64_t now_ns = wired->roce->now_ns;

	if (psn != req->una_psn || req->rnr_ns)
		return;
	VB_PROBE(wait, wired->qp->ibv.qp_num, VB_PEND_RNR);
	wired->counters.rnr_naks++;
	vb_no_receive_tell(wired->qp->ibv.qp_num);
	if (!req->rnr_cautious)
		req->rnr_since_ns = now_ns;
	vb_requester_explain_wait(wired, VB_WHY_NO_RECEIVE, req->rnr_since_ns);
	if (now_ns >= req->rnr_since_ns + vb_rnr_grace_ns() && most != VB_RNR_RETRY_FOREVER &&
	    req->rnr_tries++ >= most) {
		vb_completer_fail(wired, VB_WHY_NO_RECEIVE);
		return;
	}
	probe_end(wired);
	req->rnr_cautious = true;
	vb_requester_go_back(wired, psn);
	req->rnr_ns = now_ns + vb_rnr_timer_ns(timer);
	vb_timer_set(&wired->roce->timers, &wired->timer, req->rnr_ns);
}

static void nak_out_of_sequence(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;

	if (psn != req->una_psn || req->rnr_ns)
		return;
	if (req->repair.known) {
		wired->counters.nak_sequence++;
		vb_repair_packet(wired, psn);
		return;
	}
	/* The peer reports the same gap again, before the repetition can have arrived. */
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
	probe_end(wired);
	vb_requester_lost(wired, 1);
	vb_requester_go_back(wired, psn);
	vb_repair_learn(wired);
	vb_requester_rearm(wired);
}

static void nak_refused(struct vb_wired *wired, uint8_t syndrome)
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

bool vb_completer_expects(const struct vb_requester *req, uint32_t psn)
{
	return vb_psn_diff(psn, req->una_psn) >= 0 && vb_psn_diff(psn, req->sent_psn) < 0;
}

static void nak_take(struct vb_wired *wired, uint8_t syndrome, uint32_t psn)
{
	uint8_t kind = syndrome & VB_SYNDROME_KIND;

	if (!vb_completer_acknowledge(wired, vb_psn_add(psn, VB_PSN_MASK))) {
		vb_completer_answer_lost(wired);
		return;
	}
	/* The answer before has completed all WQEs, or has failed: there is nothing to refuse. */
	if (wired->qp->sq.next == wired->req.begun || psn != wired->req.una_psn)
		return;
	if (kind == VB_SYNDROME_RNR)
		nak_rnr(wired, psn, syndrome & VB_SYNDROME_VALUE);
	else if (syndrome == VB_NAK_SEQUENCE)
		nak_out_of_sequence(wired, psn);
	else if (kind == VB_SYNDROME_NAK)
		nak_refused(wired, syndrome);
}

/* --- refusals that may be forged --- */

static bool nak_ends_qp(uint8_t syndrome)
{
	return (syndrome & VB_SYNDROME_KIND) == VB_SYNDROME_NAK && syndrome != VB_NAK_SEQUENCE;
}

/* True: psn is the first packet of a message, or a request for a piece of a READ. */
static bool psn_begins_request(const struct vb_wired *wired, uint32_t psn)
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

/* The peer has completed the messages of its last answer, and at most all messages since. */
static bool msn_is_likely(const struct vb_wired *wired, uint32_t msn)
{
	const uint32_t more = wired->req.begun - wired->qp->sq.next + VB_RD_ATOMIC_MAX;

	return ((msn - wired->req.msn) & VB_PSN_MASK) <= more;
}

/*
 * A forger that knows the addresses and the QPN needs to guess only a PSN that is under way, and
 * the window of a long message has many. So a NAK counts at once only where most true ones are: at
 * the beginning of a request, with an MSN that is possible. Another NAK is doubted, and kept. A
 * doubted NAK is true if no ACK comes for its PSN, and the peer repeats the NAK or stays silent
 * after a repetition.
 */
static bool nak_is_credible(const struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_requester *req = &wired->req;

	if (req->probing && req->doubted == packet->syndrome && req->doubted_psn == packet->psn)
		return true;
	return msn_is_likely(wired, packet->msn) && psn_begins_request(wired, packet->psn);
}

bool vb_completer_believe(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const uint8_t syndrome = req->doubted;

	req->doubted = 0;
	if (syndrome)
		nak_take(wired, syndrome, req->doubted_psn);
	return vb_qp_state(wired->qp) == IBV_QPS_ERR;
}

static void nak_judge(struct vb_wired *wired, const struct vb_packet *packet)
{
	if (nak_ends_qp(packet->syndrome) && !nak_is_credible(wired, packet)) {
		wired->counters.naks_doubted++;
		wired->req.doubted = packet->syndrome;
		wired->req.doubted_psn = packet->psn;
		return;
	}
	nak_take(wired, packet->syndrome, packet->psn);
}

/* The two ends may have begun with different numbers: the peer misses packets that never were. */
static void strange_note(struct vb_requester *req, const struct vb_packet *packet)
{
	if (packet->syndrome != VB_NAK_SEQUENCE)
		return;
	req->strange_nak = true;
	req->strange_psn = packet->psn;
}

void vb_completer_ack(struct vb_wired *wired, const struct vb_packet *packet)
{
	if (!vb_completer_expects(&wired->req, packet->psn)) {
		wired->counters.late_answers++;
		strange_note(&wired->req, packet);
		return;
	}
	if ((packet->syndrome & VB_SYNDROME_KIND) != VB_SYNDROME_ACK) {
		nak_judge(wired, packet);
		return;
	}
	wired->req.msn = packet->msn;
	if (!vb_completer_acknowledge(wired, packet->psn))
		vb_completer_answer_lost(wired);
}

/* A report of gaps is believed if it was asked for. */
void vb_completer_gaps(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_requester *req = &wired->req;
	struct vb_gaps gaps;

	if ((!req->repair.asks && !req->repair.known) || req->rnr_ns ||
	    !vb_gaps_parse(packet->psn, packet->payload, packet->payload_length, &gaps) ||
	    vb_psn_diff(gaps.psn, req->una_psn) < 0 ||
	    vb_psn_diff(gaps.end_psn, req->sent_psn) > 0) {
		wired->counters.late_answers++;
		return;
	}
	req->msn = packet->msn;
	if (!vb_completer_acknowledge(wired, vb_psn_add(gaps.psn, VB_PSN_MASK)))
		vb_completer_answer_lost(wired);
	if (wired->qp->sq.next != req->begun)
		vb_repair_report(wired, &gaps);
}
