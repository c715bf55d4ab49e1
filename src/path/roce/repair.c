/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/repair.h"

#include "nic/migrate.h"
#include "path/roce/requester.h"

enum {
	ASKS_MAX = 4,
	LEARN_MIN = 4, /* packets under way: with fewer there is nothing to gain */
	PAUSE_MIN_NS = 50000,
};

void vb_repair_forget(struct vb_repair *repair)
{
	repair->learning = false;
	repair->held = repair->first = repair->count = repair->mark_count = 0;
}

/* --- learning --- */

void vb_repair_learn(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const uint32_t out = (uint32_t)vb_psn_diff(req->sent_psn, req->next_psn);

	if (req->repair.asks >= ASKS_MAX || out < LEARN_MIN)
		return;
	req->repair.learning = true;
	req->repair.learn_psn = vb_psn_add(req->next_psn, out / 2);
}

static void marks_trim(struct vb_repair *repair, uint32_t una_psn)
{
	uint32_t past = 0;

	while (past < repair->mark_count && vb_psn_diff(repair->mark[past].end_psn, una_psn) <= 0)
		past++;
	repair->mark_count -= past;
	for (uint32_t i = 0; past && i < repair->mark_count; i++)
		repair->mark[i] = repair->mark[i + past];
}

void vb_repair_progressed(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	struct vb_repair *repair = &req->repair;

	repair->held = 0;
	marks_trim(repair, req->una_psn);
	if (!repair->learning)
		return;
	repair->learning = false;
	if (vb_psn_diff(req->una_psn, req->next_psn) > 0)
		repair->ask_due = true;
}

/* --- gaps --- */

/* A packet that was sent again may be reported once more before it can have arrived. */
static uint64_t pause_ns(const struct vb_wired *wired)
{
	const struct vb_congestion *c = &wired->req.congestion;
	const uint64_t quarter_ns = c->rtt_ns / 4, spread_ns = 4 * c->rtt_variation_ns;

	return c->rtt_ns + (quarter_ns > spread_ns ? quarter_ns : spread_ns) + PAUSE_MIN_NS;
}

/* The mark that covers a PSN; NULL: the PSN was not sent again. */
static struct vb_repair_mark *mark_of(struct vb_repair *repair, uint32_t psn)
{
	for (uint32_t i = 0; i < repair->mark_count; i++)
		if (vb_psn_diff(psn, repair->mark[i].end_psn) < 0)
			return &repair->mark[i];
	return NULL;
}

static void mark_add(struct vb_repair *repair, uint32_t end_psn, uint64_t now_ns)
{
	/* The oldest two become one, which counts as sent at the later time. */
	if (repair->mark_count == VB_REPAIR_MARKS) {
		for (uint32_t i = 1; i < repair->mark_count; i++)
			repair->mark[i - 1] = repair->mark[i];
		repair->mark_count--;
	}
	repair->mark[repair->mark_count++] = (struct vb_repair_mark){ end_psn, now_ns };
}

static void gap_push(struct vb_repair *repair, uint32_t psn, uint32_t end_psn)
{
	if (repair->count < VB_GAPS_MAX)
		repair->gap[repair->count++] = (struct vb_gap){ psn, end_psn };
}

/* Queues the parts of a gap that may be sent now. Returns the number of PSNs that are new. */
static uint32_t gap_queue(struct vb_wired *wired, const struct vb_gap *gap)
{
	struct vb_repair *repair = &wired->req.repair;
	const uint64_t now_ns = wired->roce->now_ns, rest_ns = pause_ns(wired);
	uint32_t psn = gap->psn, end_psn;

	for (; vb_psn_diff(psn, gap->end_psn) < 0; psn = end_psn) {
		const struct vb_repair_mark *mark = mark_of(repair, psn);

		end_psn = gap->end_psn;
		if (!mark) {
			gap_push(repair, psn, end_psn);
			return (uint32_t)vb_psn_diff(end_psn, psn);
		}
		if (vb_psn_diff(mark->end_psn, end_psn) < 0)
			end_psn = mark->end_psn;
		if (now_ns - mark->ns >= rest_ns)
			gap_push(repair, psn, end_psn);
	}
	return 0;
}

/* An ACK for a packet behind a gap comes when the gap is closed: it shows no round trip. */
static void round_trip_forget(struct vb_requester *req)
{
	const struct vb_repair *repair = &req->repair;

	if (repair->count && vb_psn_diff(req->timed_psn, repair->gap[0].psn) >= 0)
		req->timing = false;
}

/* The gaps that are queued leave now. */
static void gaps_mark(struct vb_wired *wired)
{
	struct vb_repair *repair = &wired->req.repair;
	const uint64_t now_ns = wired->roce->now_ns;

	for (uint32_t i = 0; i < repair->count; i++) {
		struct vb_repair_mark *mark = mark_of(repair, repair->gap[i].psn);

		if (mark)
			mark->ns = now_ns;
		else
			mark_add(repair, repair->gap[i].end_psn, now_ns);
	}
}

/* Returns the number of PSNs that have not been sent again before. */
static uint32_t gaps_queue(struct vb_wired *wired, const struct vb_gap *gaps, uint32_t count)
{
	struct vb_repair *repair = &wired->req.repair;
	uint32_t fresh = 0;

	repair->first = repair->count = 0;
	for (uint32_t i = 0; i < count; i++)
		fresh += gap_queue(wired, &gaps[i]);
	gaps_mark(wired);
	round_trip_forget(&wired->req);
	if (repair->count)
		vb_roce_todo(wired);
	return fresh;
}

/* The peer has told of these gaps: they are losses. */
static void gaps_repair(struct vb_wired *wired, const struct vb_gap *gaps, uint32_t count)
{
	uint32_t fresh;

	if (wired->req.repair.first != wired->req.repair.count)
		return;
	fresh = gaps_queue(wired, gaps, count);
	if (fresh)
		vb_requester_lost(wired, fresh);
}

void vb_repair_packet(struct vb_wired *wired, uint32_t psn)
{
	const struct vb_gap gap = { psn, vb_psn_add(psn, 1) };

	gaps_repair(wired, &gap, 1);
}

void vb_repair_probe(struct vb_wired *wired, uint32_t psn)
{
	struct vb_repair *repair = &wired->req.repair;
	const struct vb_gap gap = { psn, vb_psn_add(psn, 1) };

	repair->mark_count = repair->first = repair->count = 0;
	gaps_queue(wired, &gap, 1);
}

/* True: each PSN of the report has arrived, or is in a gap of the list. */
static bool all_is_listed(const struct vb_gaps *gaps)
{
	uint32_t sum = gaps->held;

	for (uint32_t i = 0; i < gaps->count; i++)
		sum += (uint32_t)vb_psn_diff(gaps->gap[i].end_psn, gaps->gap[i].psn);
	return sum == (uint32_t)vb_psn_diff(gaps->end_psn, gaps->psn);
}

/* A report tells of packets behind the gap, too: so round trips can be measured on them. */
static void round_trip_measure(struct vb_wired *wired, const struct vb_gaps *gaps)
{
	struct vb_requester *req = &wired->req;
	const uint64_t now_ns = wired->roce->now_ns;

	if (!req->timing || vb_psn_diff(req->timed_psn, gaps->end_psn) >= 0)
		return;
	if (!all_is_listed(gaps))
		return;
	req->timing = false;
	for (uint32_t i = 0; i < gaps->count; i++)
		if (vb_psn_diff(req->timed_psn, gaps->gap[i].psn) >= 0 &&
		    vb_psn_diff(req->timed_psn, gaps->gap[i].end_psn) < 0)
			return;
	vb_congestion_measured(&req->congestion, now_ns - req->timed_ns, now_ns);
}

void vb_repair_report(struct vb_wired *wired, const struct vb_gaps *gaps)
{
	struct vb_requester *req = &wired->req;
	struct vb_repair *repair = &req->repair;
	const bool more =
		!repair->known || gaps->held > repair->held || gaps->end_psn != repair->end_psn;

	repair->known = true;
	repair->learning = repair->ask_due = false;
	repair->asks = 0;
	repair->end_psn = gaps->end_psn;
	repair->held = gaps->psn == req->una_psn ? gaps->held : 0;
	round_trip_measure(wired, gaps);
	/* Packets arrive: the peer is not silent. */
	if (more)
		vb_requester_rearm(wired);
	gaps_repair(wired, gaps->gap, gaps->count);
	vb_requester_account(wired);
	if (vb_requester_due(wired))
		vb_roce_todo(wired);
}

/* --- sending --- */

static void send_ask(struct vb_wired *wired)
{
	struct vb_repair *repair = &wired->req.repair;
	const struct vb_packet packet = {
		.opcode = VB_TRANSPORT_VENDOR | VB_OP_GAPS_ASK,
		.migreq = vb_qp_migreq(wired->qp),
		.pkey = vb_qp_pkey(wired->qp),
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = wired->req.una_psn,
	};

	repair->ask_due = false;
	repair->asks++;
	vb_tx_packet(&wired->roce->tx, &wired->way, &packet);
}

/* Sends the packet with the first PSN of a gap again. False: memory is missing. */
static bool gap_send(struct vb_requester_turn *turn, struct vb_gap *gap, uint32_t index)
{
	struct vb_wired *wired = turn->wired;
	const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, index);
	struct vb_report report = { 0 };
	enum vb_reason reason;
	uint32_t count = 1;

	if (vb_wr_reads(wqe->opcode)) {
		reason = vb_requester_read_again(turn, index, gap->psn, &count, &report);
	} else {
		reason = vb_requester_memory(turn, wqe, index, &report);
		if (!reason && !vb_requester_send(turn, wqe, gap->psn, true))
			reason = VB_WHY_LOCAL_MEMORY;
	}
	gap->psn = vb_psn_add(gap->psn, count);
	if (!reason) {
		if (wired->req.congestion.gap_ns)
			vb_requester_gap_begin(wired, count);
		wired->counters.retransmits++;
		turn->budget--;
		return true;
	}
	vb_requester_go_back(wired, wqe->psn);
	vb_requester_stop(wired, reason, &report);
	return false;
}

/* Finds the WQE of a PSN from *index on; false: no WQE has it. */
static bool wqe_find(const struct vb_wired *wired, uint32_t psn, uint32_t *index)
{
	for (; *index != wired->req.begun; (*index)++) {
		const struct vb_wqe *wqe = vb_sq_wqe(&wired->qp->sq, *index);

		if (wqe->psn_count && vb_psn_diff(psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			return vb_psn_diff(psn, wqe->psn) >= 0;
	}
	return false;
}

/* A packet that is sent again fills a queue as a new one does. A probe's time runs: it is sent. */
static bool pause_is_over(struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;

	return !req->congestion.gap_ns || req->probing || vb_requester_gap_over(wired);
}

bool vb_repair_run(struct vb_requester_turn *turn)
{
	struct vb_wired *wired = turn->wired;
	struct vb_requester *req = &wired->req;
	struct vb_repair *repair = &req->repair;
	uint32_t index = wired->qp->sq.next;

	if (repair->ask_due)
		send_ask(wired);
	while (turn->budget && repair->first != repair->count) {
		struct vb_gap *gap = &repair->gap[repair->first];

		if (vb_psn_diff(gap->psn, req->una_psn) < 0)
			gap->psn = req->una_psn;
		if (vb_psn_diff(gap->psn, gap->end_psn) >= 0 ||
		    vb_psn_diff(gap->psn, req->next_psn) >= 0 ||
		    !wqe_find(wired, gap->psn, &index)) {
			repair->first++;
			continue;
		}
		if (!pause_is_over(wired) || !gap_send(turn, gap, index))
			return false;
	}
	return true;
}
