/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gaps in the requests of RC: packets behind them, NAKs, reports.
 *
 * A NAK waits until as many packets have come behind the gap as the tolerance says, or for a short
 * time.
 *
 * A NAK is all that RoCEv2 has. A requester that has asked for reports (wire/gaps.h) gets them as
 * well. It gets NAKs, too: the question may have been forged, and any other requester needs them.
 */
#include "base/clock.h"
#include "path/roce/responder.h"

enum {
	TOLERANCE_NS = 33000, /* time per packet of the tolerance */
	REPORT_PAUSE_NS = 20000,
	REPORT_PSN_NS = 64, /* the list of gaps costs time for each PSN behind the first of them */
};

static void gap_wait(struct vb_wired *wired, uint64_t due_ns)
{
	if (due_ns < wired->gap_timer.due_ns)
		vb_timer_set(&wired->roce->gap_timers, &wired->gap_timer, due_ns);
}

static void gap_expect(struct vb_wired *wired)
{
	gap_wait(wired,
		 wired->roce->now_ns +
			 (uint64_t)vb_tolerance_packets(&wired->resp.tolerance) * TOLERANCE_NS);
}

static void nak_sequence(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	/* One NAK per gap, and no NAK behind an RNR NAK. */
	if (resp->nak_sent || resp->rnr_sent || resp->fatal)
		return;
	resp->nak_sent = true;
	vb_told_add(&resp->missing, resp->expected_psn);
	vb_responder_nak(wired, VB_NAK_SEQUENCE, resp->expected_psn);
}

static void report_request(struct vb_wired *wired, bool young)
{
	struct vb_responder *resp = &wired->resp;

	if (!resp->asked || resp->fatal || !vb_reorder_open(wired))
		return;
	resp->report_young |= young;
	if (wired->roce->now_ns < resp->report_ns) {
		gap_wait(wired, resp->report_ns);
		return;
	}
	resp->report_due = true;
	vb_roce_todo(wired);
}

/* --- packets --- */

/* One report may be wrong about many packets at once: they show one thing. */
void vb_responder_gap_repeated(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;

	if (!vb_told_take(&resp->missing, packet->psn) || !resp->missing.fresh)
		return;
	resp->missing.fresh = false;
	vb_tolerance_needless(&resp->tolerance);
}

static void packet_keep(struct vb_wired *wired, const struct vb_packet *packet)
{
	const uint32_t psns = vb_responder_psns(wired, packet);

	switch (psns > VB_KEPT_AHEAD_MAX
			? VB_KEEP_FULL
			: vb_reorder_keep(wired, packet, vb_psn_add(packet->psn, psns))) {
	case VB_KEEP_DONE:
		break;
	case VB_KEEP_DUPLICATE:
		wired->counters.duplicates++;
		vb_responder_gap_repeated(wired, packet);
		break;
	case VB_KEEP_FULL:
		vb_roce_count(wired->roce, VB_PACKET_DROP_SEQUENCE);
		break;
	}
}

void vb_responder_gap(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;

	wired->counters.out_of_sequence++;
	if (resp->rnr_sent) {
		vb_roce_count(wired->roce, VB_PACKET_DROP_SEQUENCE);
		return;
	}
	packet_keep(wired, packet);
	resp->behind++;
	if (resp->behind >= vb_tolerance_packets(&resp->tolerance)) {
		nak_sequence(wired);
		report_request(wired, false);
	} else if (packet->ack_request) {
		report_request(wired, false);
	}
	gap_expect(wired);
}

void vb_responder_gap_moved(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	vb_tolerance_calm(&resp->tolerance, 1);
	/* The missing packet came before its NAK is out: the NAK is for the next gap, if at all. */
	if (resp->nak_due == VB_NAK_SEQUENCE) {
		resp->nak_psn = resp->expected_psn;
		resp->nak_sent = resp->reorder.count >= vb_tolerance_packets(&resp->tolerance);
		if (!resp->nak_sent)
			resp->nak_due = 0;
	}
	if (!resp->behind && !resp->reorder.size)
		return;
	resp->behind = 0;
	vb_reorder_tidy(wired);
	vb_timer_set(&wired->roce->gap_timers, &wired->gap_timer, VB_NEVER_NS);
	if (vb_reorder_open(wired))
		gap_expect(wired);
}

void vb_responder_gap_timer(struct vb_wired *wired)
{
	if (!wired->resp.behind && !vb_reorder_open(wired))
		return;
	nak_sequence(wired);
	report_request(wired, true);
}

/* --- reports --- */

void vb_responder_asked(struct vb_wired *wired)
{
	wired->resp.asked = true;
	report_request(wired, true);
}

static void gaps_tell(struct vb_told *told, const struct vb_gaps *gaps)
{
	for (uint32_t i = 0; i < gaps->count; i++) {
		const struct vb_gap *gap = &gaps->gap[i];

		for (uint32_t k = 0; k < VB_TOLD_MAX; k++) {
			const uint32_t psn = vb_psn_add(gap->psn, k);

			if (psn == gap->end_psn)
				break;
			vb_told_add(told, psn);
		}
	}
}

bool vb_responder_report(struct vb_wired *wired, struct vb_gaps *gaps)
{
	struct vb_responder *resp = &wired->resp;

	resp->report_due = false;
	if (!vb_reorder_open(wired))
		return false;
	vb_reorder_gaps(wired, resp->report_young ? 1 : vb_tolerance_packets(&resp->tolerance),
			gaps);
	resp->report_young = false;
	if (!gaps->count)
		return false;
	gaps_tell(&resp->missing, gaps);
	resp->report_ns = wired->roce->now_ns + REPORT_PAUSE_NS +
			  (uint64_t)vb_psn_diff(gaps->end_psn, gaps->psn) * REPORT_PSN_NS;
	return true;
}
