/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester waits for answers, goes back when answers report a loss or do not come, gives
 * up. */
#include <errno.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "net/gid.h"
#include "path/roce/requester.h"

enum {
	BACKOFF_MAX_NS = 1000000000,
	PUT_OFF_NS = 1000000,
	PUT_OFF_MAX = 200,
	TRIES_MIN = 8,              /* within the patience ... */
	TRIES_MAX = 64,             /* ... and once they are that far apart, no further ones */
	WAITS_MIN = 4,              /* the patience has so many first waits */
	GIVE_UP_MIN_NS = 200000000, /* a peer in software answers only when it gets a CPU */
	LATE_NS = 10000000,         /* a timer that comes later than this had no CPU */
	/* neither backoff_max_ns nor give_up_ns is sooner */
	BACKOFF_FREE_NS = GIVE_UP_MIN_NS / TRIES_MAX,
};

/* What timeout and retry_cnt say. */
static uint64_t patience_asked_ns(const struct vb_wired *wired)
{
	uint64_t patience_ns = vb_qp_patience_ns(wired->qp);

	return patience_ns < GIVE_UP_MIN_NS ? (uint64_t)GIVE_UP_MIN_NS : patience_ns;
}

/*
 * The QP's timeout may be shorter than the way is: each try has the time to succeed. Answers of a
 * host whose CPUs are busy may take longer and longer: so several waits of the length that round
 * trips ask for now have the time, too. A silence may have counted as a round trip. So the shortest
 * one of the connection tells the way, and the waits are bounded.
 */
static uint64_t patience_least_ns(const struct vb_wired *wired)
{
	const struct vb_congestion *congestion = &wired->req.congestion;
	uint64_t tries_ns = (wired->qp->attr.retry_cnt + 1u) * congestion->way_ns;
	uint64_t waits_ns = WAITS_MIN * vb_congestion_patience_ns(congestion, wired->roce->now_ns);
	uint64_t most_ns = WAITS_MIN * patience_asked_ns(wired);

	waits_ns = waits_ns < most_ns ? waits_ns : most_ns;
	return tries_ns > waits_ns ? tries_ns : waits_ns;
}

uint64_t vb_requester_patience_ns(const struct vb_wired *wired)
{
	uint64_t patience_ns = patience_asked_ns(wired), least_ns = patience_least_ns(wired);

	return patience_ns < least_ns ? least_ns : patience_ns;
}

static uint64_t give_up_ns(const struct vb_wired *wired)
{
	uint64_t patience_ns = vb_requester_patience_ns(wired);

	return patience_ns == VB_NEVER_NS ? VB_NEVER_NS : wired->req.stalled_ns + patience_ns;
}

void vb_requester_set_timer(struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;
	uint64_t due_ns = req->rnr_ns ? req->rnr_ns : req->resend_ns;

	if (req->pace_ns && req->pace_ns < due_ns)
		due_ns = req->pace_ns;
	vb_timer_set(&wired->roce->timers, &wired->timer, due_ns);
}

static void wait_for_answer(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t last_ns = give_up_ns(wired);

	req->resend_ns = wired->roce->now_ns + req->backoff_ns;
	if (req->resend_ns > last_ns)
		req->resend_ns = last_ns;
	vb_requester_set_timer(wired);
}

/* A way that loses packets, between hosts that wait for a CPU, may seem longer than it is. One loss
 * must not use up the patience. */
static uint64_t backoff_tries_ns(const struct vb_wired *wired)
{
	uint64_t part_ns = patience_asked_ns(wired) / TRIES_MIN;
	uint64_t least_ns = 2 * wired->req.congestion.rtt_min_ns + LATE_NS;

	return part_ns > least_ns ? part_ns : least_ns;
}

/* The QP's timeout; but one below the round trip, or a small part of the patience, would only fill
 * the network with repetitions. */
static uint64_t backoff_max_ns(const struct vb_wired *wired)
{
	uint64_t tries_ns = backoff_tries_ns(wired);
	uint64_t least_ns =
		vb_congestion_patience_most_ns(&wired->req.congestion, wired->roce->now_ns);
	uint64_t most_ns = vb_qp_timeout_ns(wired->qp);

	if (least_ns < patience_asked_ns(wired) / TRIES_MAX)
		least_ns = patience_asked_ns(wired) / TRIES_MAX;
	if (most_ns < least_ns)
		most_ns = least_ns;
	if (most_ns > tries_ns)
		most_ns = tries_ns;
	return most_ns < BACKOFF_MAX_NS ? most_ns : BACKOFF_MAX_NS;
}

static void set_backoff(struct vb_wired *wired, uint64_t backoff_ns)
{
	uint64_t most_ns = backoff_max_ns(wired);

	wired->req.backoff_ns = backoff_ns < most_ns ? backoff_ns : most_ns;
}

/*
 * The answer is known before the patience ends. A host sends few ICMP messages, about one a second:
 * so the first of all packets to a peer asks for it, and later the first one that is sent again.
 */
static void host_ask(struct vb_wired *wired)
{
	const struct vb_roce *roce = wired->roce;

	if (vb_config_explain() && roce->sink.knock && !wired->heard_ns)
		roce->sink.knock(roce->sink.arg, &wired->way);
}

/* Silence begins now. With a peer nearby the first wait is shorter than any limit: each message
 * passes here. */
static void begin_wait(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;
	uint64_t backoff_ns = vb_congestion_patience_now_ns(&req->congestion, now_ns);

	req->stalled_ns = now_ns;
	req->put_off = 0;
	if (!req->asked_host) {
		req->asked_host = true;
		host_ask(wired);
	}
	if (backoff_ns <= BACKOFF_FREE_NS) {
		req->backoff_ns = backoff_ns;
		req->resend_ns = now_ns + backoff_ns;
		vb_requester_set_timer(wired);
	} else {
		set_backoff(wired, backoff_ns);
		wait_for_answer(wired);
	}
}

void vb_requester_rearm(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	vb_requester_account(wired);
	if (req->una_psn == req->sent_psn) {
		req->resend_ns = VB_NEVER_NS;
		vb_requester_set_timer(wired);
		return;
	}
	begin_wait(wired);
}

/* The window becomes one packet, and all packets that are not acknowledged are sent again. */
static void start_over(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	vb_congestion_timeout(&req->congestion, wired->roce->now_ns);
	vb_share_lost(&wired->roce->share, wired->roce->now_ns);
	/* The lost end of a READ's answer shows in no later one: only going back asks for it. */
	if (req->repair.known && !vb_requester_una_reads(wired))
		vb_repair_probe(wired, req->una_psn);
	else
		vb_requester_go_back(wired, req->una_psn);
}

/*
 * The last packets of all may be lost, and then no later one tells of it. So the first question
 * costs nothing: it is one packet, and the answer tells the rest. False: there is no such question.
 */
static bool ask_once(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	/* Without a round trip nobody knows how long the way is: no answer can be expected. */
	req->loss_open = req->congestion.rtt_ns;
	if (vb_requester_una_reads(wired)) {
		req->parts_due = req->parts_silent = true;
		vb_roce_todo(wired);
		return true;
	}
	if (req->repair.known)
		vb_repair_probe(wired, req->una_psn);
	return req->repair.known;
}

void vb_requester_explain_wait(struct vb_wired *wired, enum vb_reason reason, uint64_t since_ns)
{
	struct vb_report report = { 0 };

	if (wired->req.told_ns == since_ns || wired->roce->now_ns - since_ns < VB_LONG_WAIT_NS)
		return;
	wired->req.told_ns = since_ns;
	vb_path_explain_wait(wired->qp, reason, &report);
}

/* The ICMP messages about the host, in words; a firewall may have sent them. */
static const char *network_words(const struct vb_wired *wired)
{
	const struct vb_roce *roce = wired->roce;
	const int err =
		roce->sink.knock_error ? roce->sink.knock_error(roce->sink.arg, &wired->way) : 0;

	if (err == ECONNREFUSED)
		return "by ICMP its host refuses UDP port 4791: no process there has it (one gets "
		       "it when its first QP reaches RTR), or a firewall refuses it";
	if (err)
		return "by ICMP its host cannot be reached, or a firewall forbids it";
	return "nothing comes from its host either, and no ICMP: the host is off, a firewall drops "
	       "UDP port 4791, or the QP does not exist there or is not in RTR; its process may "
	       "explain it";
}

/* The peer answers, but another QP than this one. */
static bool is_stray(const struct vb_wired *wired)
{
	const struct vb_roce *roce = wired->roce;

	return !wired->heard_ns && roce->stray.ns && roce->stray.ns >= wired->req.stalled_ns &&
	       vb_gid_equal(&roce->stray.host, &wired->qp->av.dgid);
}

/* The reasons for silence that the packets of other QPs leave. */
static void silence_explain(const struct vb_wired *wired)
{
	const struct vb_requester *req = &wired->req;
	const struct vb_qp *qp = wired->qp;
	const bool host = vb_roce_heard_since(wired->roce, &qp->av.dgid, req->stalled_ns);

	if (!vb_config_explain())
		return;
	if (is_stray(wired)) {
		vb_explain_note(
			"QP 0x%06x: QP 0x%06x has never answered; answers come from its host for "
			"QP 0x%06x, which this process does not have: the peer may be connected to "
			"that number",
			qp->ibv.qp_num, qp->attr.dest_qp_num, wired->roce->stray.qpn);
		return;
	}
	if (req->strange_nak && req->una_psn == (qp->attr.sq_psn & VB_PSN_MASK))
		vb_explain_note("QP 0x%06x: QP 0x%06x answers that it expects PSN %u (its rq_psn), "
				"this QP began with PSN %u (its sq_psn)",
				qp->ibv.qp_num, qp->attr.dest_qp_num, req->strange_psn,
				qp->attr.sq_psn);
	else
		vb_explain_note("QP 0x%06x: QP 0x%06x %s%s; %s", qp->ibv.qp_num,
				qp->attr.dest_qp_num,
				qp->attr.dest_qp_num == qp->ibv.qp_num
					? "(dest_qp_num is the number of this QP itself) "
					: "",
				wired->heard_ns ? "has answered before" : "has never answered",
				host ? "its host answers other QPs: the QP does not exist there, "
				       "is not in RTR, or expects another PSN, P_Key or address; "
				       "its process may explain it"
				     : network_words(wired));
}

static void answer_overdue(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const bool first = !req->probing;

	wired->counters.timeouts++;
	req->overdue = req->overdue_psn == req->una_psn ? req->overdue + 1 : 1;
	req->overdue_psn = req->una_psn;
	vb_requester_explain_wait(wired, VB_WHY_PEER_SILENT, req->stalled_ns);
	if (req->probing && vb_completer_believe(wired))
		return;
	if (first) {
		host_ask(wired);
		req->probing = true;
		req->probe_psn = req->sent_psn;
		vb_congestion_alarm(&req->congestion);
	}
	req->recovering = false;
	req->loss_open = false;
	if (!first || !ask_once(wired))
		start_over(wired);
	req->back_ns = wired->roce->now_ns;
	set_backoff(wired, 2 * req->backoff_ns);
	wait_for_answer(wired);
}

static bool peer_ended(const struct vb_wired *wired)
{
	return wired->way.peer && atomic_load(&wired->way.peer->state) == VB_PEER_GONE;
}

/* The answer may be among packets that are not read yet. But a stream of packets may have no
 * end. */
static void give_up(struct vb_wired *wired)
{
	if (vb_completer_believe(wired))
		return;
	if (!wired->roce->behind || wired->req.put_off++ >= PUT_OFF_MAX) {
		silence_explain(wired);
		vb_completer_fail(wired, VB_WHY_PEER_SILENT);
		return;
	}
	wired->req.resend_ns = wired->roce->now_ns + PUT_OFF_NS;
	vb_requester_set_timer(wired);
}

/* While this process had no CPU it neither repeated packets nor read answers. That time is no
 * silence of the peer. */
static void late_timer_forgive(struct vb_requester *req, uint64_t now_ns)
{
	uint64_t late_ns = now_ns - req->resend_ns;

	if (late_ns > LATE_NS)
		req->stalled_ns += late_ns;
}

void vb_requester_timer(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;
	enum ibv_qp_state state = vb_qp_state(wired->qp);

	if (req->pace_ns <= now_ns)
		req->pace_ns = 0;
	/* The QP has failed, and its WQEs are going to be flushed. */
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	if (req->rnr_ns) {
		if (now_ns < req->rnr_ns) {
			vb_requester_set_timer(wired);
			return;
		}
		req->rnr_ns = 0;
		vb_requester_rearm(wired);
		return;
	}
	if (req->resend_ns == VB_NEVER_NS)
		return;
	if (now_ns < req->resend_ns) {
		vb_requester_set_timer(wired);
		return;
	}
	late_timer_forgive(req, now_ns);
	if (peer_ended(wired))
		vb_completer_fail(wired, VB_WHY_PEER_ENDED);
	else if (now_ns >= give_up_ns(wired))
		give_up(wired);
	else
		answer_overdue(wired);
}

void vb_requester_lost(struct vb_wired *wired, uint32_t packets)
{
	if (vb_congestion_lost(&wired->req.congestion, packets, wired->roce->now_ns))
		vb_share_lost(&wired->roce->share, wired->roce->now_ns);
}

/* --- going back --- */

/* Moves the cursor to the WQE that next_psn is in. */
static void cursor_place(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;
	const struct vb_sq *sq = &wired->qp->sq;

	for (req->cursor = sq->next; req->cursor != req->begun; req->cursor++) {
		const struct vb_wqe *wqe = vb_sq_wqe(sq, req->cursor);

		if (wqe->psn_count &&
		    vb_psn_diff(req->next_psn, vb_psn_add(wqe->psn, wqe->psn_count)) < 0)
			break;
	}
}

void vb_requester_go_back(struct vb_wired *wired, uint32_t psn)
{
	struct vb_requester *req = &wired->req;

	req->next_psn = psn;
	req->timing = false;
	req->unasked = 0;
	req->back_ns = wired->roce->now_ns;
	vb_requester_forget_reads(req, psn);
	vb_repair_forget(&req->repair);
	cursor_place(wired);
	vb_requester_account(wired);
	vb_roce_todo(wired);
}

/* Requests with an answer of their own were forgotten when the requester went back. */
static bool awaits_answers(const struct vb_wired *wired)
{
	for (uint32_t i = wired->qp->sq.next; i != wired->req.begun; i++)
		if (vb_wr_reads(vb_sq_wqe(&wired->qp->sq, i)->opcode))
			return true;
	return false;
}

void vb_requester_go_on(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (vb_psn_diff(req->next_psn, req->sent_psn) >= 0 || awaits_answers(wired))
		return;
	req->next_psn = req->sent_psn;
	cursor_place(wired);
	vb_requester_account(wired);
}
