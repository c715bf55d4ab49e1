/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gaps in the requests of RC: packets behind them, NAKs, reports.
 *
 * A NAK waits until the gap is old (lateness.h).
 *
 * A NAK is all that RoCEv2 has. A requester that has asked for reports (wire/gaps.h) gets them as
 * well. It gets NAKs, too: the question may have been forged, and any other requester needs them. A
 * report that lists no gap, because all of them are young, says that packets arrive.
 */
#include "base/clock.h"
#include "path/roce/responder.h"

enum {
	REPORT_PAUSE_NS = 10000,
	REPORT_PSN_NS = 64, /* the list of gaps costs time for each PSN behind the first of them */
};

static void gap_wait(struct vb_wired *wired, uint64_t due_ns)
{
	if (due_ns < wired->gap_timer.due_ns)
		vb_timer_set(&wired->roce->gap_timers, &wired->gap_timer, due_ns);
}

static void gap_expect(struct vb_wired *wired)
{
	gap_wait(wired, wired->roce->now_ns + vb_lateness_wait_ns(&wired->resp.lateness));
}

static void nak_sequence(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	/* One NAK per gap, and no NAK behind an RNR NAK. */
	if (resp->nak_sent || resp->rnr_sent || resp->fatal)
		return;
	resp->nak_sent = true;
	vb_lateness_told(&resp->lateness, resp->expected_psn);
	vb_responder_nak(wired, VB_NAK_SEQUENCE, resp->expected_psn);
}

static void report_request(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	if (!resp->asked || resp->fatal || !vb_reorder_open(wired))
		return;
	if (wired->roce->now_ns < resp->report_ns) {
		gap_wait(wired, resp->report_ns);
		return;
	}
	resp->report_due = true;
	vb_roce_todo(wired);
}

/* --- packets --- */

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
		vb_lateness_twice(&wired->resp.lateness, packet->psn, packet->ack_request);
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
	if (!resp->heard)
		vb_responder_explain_psn(wired, packet->psn);
	if (resp->rnr_sent) {
		vb_roce_count(wired->roce, VB_PACKET_DROP_SEQUENCE);
		return;
	}
	vb_responder_gap_filled(wired, packet);
	packet_keep(wired, packet);
	resp->behind_ns = wired->roce->now_ns;
	if (!resp->behind++)
		resp->gap_ns = resp->behind_ns;
	if (resp->behind >= vb_lateness_packets(&resp->lateness)) {
		nak_sequence(wired);
		report_request(wired);
	} else if (packet->ack_request) {
		report_request(wired);
	}
	gap_expect(wired);
}

void vb_responder_gap_filled(struct vb_wired *wired, const struct vb_packet *packet)
{
	const uint32_t end_psn = vb_psn_add(packet->psn, vb_responder_psns(wired, packet));
	const uint64_t since_ns = vb_reorder_ns(wired, end_psn);

	if (since_ns)
		vb_lateness_filled(&wired->resp.lateness, packet->psn,
				   wired->roce->now_ns - since_ns, packet->ack_request);
}

void vb_responder_gap_moved(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	vb_lateness_calm(&resp->lateness);
	/* The missing packet came before its NAK is out: the NAK is for the next gap, if at all. */
	if (resp->nak_due == VB_NAK_SEQUENCE) {
		resp->nak_psn = resp->expected_psn;
		resp->nak_sent = resp->reorder.count >= vb_lateness_packets(&resp->lateness);
		if (!resp->nak_sent)
			resp->nak_due = 0;
	}
	if (!resp->behind && !resp->reorder.size)
		return;
	resp->behind = 0;
	vb_reorder_tidy(wired);
	vb_timer_set(&wired->roce->gap_timers, &wired->gap_timer, VB_NEVER_NS);
	if (!vb_reorder_open(wired))
		return;
	resp->gap_ns = wired->roce->now_ns;
	gap_expect(wired);
	report_request(wired);
}

/* The timer serves a report that waits as well. Gaps that later packets showed become old later. */
void vb_responder_gap_timer(struct vb_wired *wired)
{
	const struct vb_responder *resp = &wired->resp;
	const uint64_t wait_ns = vb_lateness_wait_ns(&resp->lateness);

	if (!resp->behind && !vb_reorder_open(wired))
		return;
	if (wired->roce->now_ns >= resp->gap_ns + wait_ns)
		nak_sequence(wired);
	else
		gap_wait(wired, resp->gap_ns + wait_ns);
	report_request(wired);
	if (resp->behind_ns + wait_ns > wired->roce->now_ns)
		gap_wait(wired, resp->behind_ns + wait_ns);
}

/* --- reports --- */

void vb_responder_asked(struct vb_wired *wired)
{
	wired->resp.asked = true;
	report_request(wired);
}

static void gaps_tell(struct vb_lateness *late, const struct vb_gaps *gaps)
{
	for (uint32_t i = 0; i < gaps->count; i++) {
		const struct vb_gap *gap = &gaps->gap[i];

		for (uint32_t k = 0; k < VB_TOLD_MAX; k++) {
			const uint32_t psn = vb_psn_add(gap->psn, k);

			if (psn == gap->end_psn)
				break;
			vb_lateness_told(late, psn);
		}
	}
}

bool vb_responder_report(struct vb_wired *wired, struct vb_gaps *gaps)
{
	struct vb_responder *resp = &wired->resp;

	resp->report_due = false;
	if (!vb_reorder_open(wired))
		return false;
	vb_reorder_gaps(wired, vb_lateness_packets(&resp->lateness),
			wired->roce->now_ns - vb_lateness_wait_ns(&resp->lateness), gaps);
	gaps_tell(&resp->lateness, gaps);
	resp->report_ns = wired->roce->now_ns + REPORT_PAUSE_NS +
			  (uint64_t)vb_psn_diff(gaps->end_psn, gaps->psn) * REPORT_PSN_NS;
	return true;
}
