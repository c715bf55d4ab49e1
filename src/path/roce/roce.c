/* SPDX-License-Identifier: BSD-2-Clause */
/* The wired QPs: their table, their lists and their turns. */
#include "path/roce/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "path/roce/requester.h"

enum {
	ACK_HELD_NS = 4000, /* an ACK waits no longer, whatever else comes in */
	LATE_NS = 100000,   /* without a poll the service thread sends ACKs and gathered posts */
	GATHER_FLIGHT = 16, /* with so many packets under way posts gather ... */
	GATHER_POSTS = 16,  /* ... up to this number */
	FEED = 8,           /* starved QPs that get a turn at a time */
	LAST_ACKS = 3,      /* copies of the last ACK of a QP that goes */
};

int vb_roce_init(struct vb_roce *roce, struct vb_nic *nic, const struct vb_roce_sink *sink)
{
	memset(roce, 0, sizeof(*roce));
	roce->nic = nic;
	roce->sink = *sink;
	vb_list_init(&roce->todo);
	vb_list_init(&roce->acks);
	vb_list_init(&roce->gather);
	vb_list_init(&roce->starved);
	vb_share_init(&roce->share);
	for (unsigned i = 0; i < VB_WIRED_BUCKETS; i++)
		vb_list_init(&roce->wired[i]);
	return vb_tx_init(&roce->tx, roce);
}

void vb_roce_fini(struct vb_roce *roce)
{
	vb_tx_fini(&roce->tx);
	vb_timers_fini(&roce->timers);
	vb_timers_fini(&roce->gap_timers);
	for (unsigned i = 0; i < VB_WAY_CACHE; i++)
		vb_way_release(&roce->ways[i]);
}

static struct vb_list *qpn_bucket(struct vb_roce *roce, uint32_t qpn)
{
	return &roce->wired[qpn % VB_WIRED_BUCKETS];
}

struct vb_wired *vb_roce_find(struct vb_roce *roce, uint32_t qpn)
{
	vb_list_for(wired, qpn_bucket(roce, qpn), struct vb_wired, node) {
		if (wired->qp->ibv.qp_num == qpn)
			return wired;
	}
	return NULL;
}

/*
 * InfiniBand ports on two hosts of one subnet: a path MTU above the interface's MTU is cut to what
 * fits. Both ends do the same, as the interfaces of a subnet have one MTU.
 */
static uint32_t packet_size(const struct vb_qp *qp, const struct vb_way *way)
{
	const enum ibv_mtu fits = way->link_mtu ? vb_mtu_within(way->link_mtu) : IBV_MTU_4096;

	return 128u << (qp->attr.path_mtu < fits ? qp->attr.path_mtu : fits);
}

int vb_roce_adopt(struct vb_roce *roce, struct vb_qp *qp, struct vb_way *way)
{
	int err = vb_timers_reserve(&roce->timers, roce->wired_count + 1) |
		  vb_timers_reserve(&roce->gap_timers, roce->wired_count + 1);
	struct vb_wired *wired = err ? NULL : calloc(1, sizeof(*wired));

	if (!wired)
		return -ENOMEM;
	wired->qp = qp;
	wired->roce = roce;
	wired->timer.due_ns = wired->gap_timer.due_ns = wired->req.resend_ns = VB_NEVER_NS;
	vb_list_init(&wired->todo);
	vb_list_append(qpn_bucket(roce, qp->ibv.qp_num), &wired->node);
	roce->wired_count++;
	if (qp->type != IBV_QPT_UD) {
		wired->way = *way;
		wired->path_number = atomic_load(&qp->migration.path_number);
		wired->by_slot = way->kind == VB_WAY_SLOT;
		wired->holds_token = true;
		wired->req.tried = vb_qp_has_begun(qp);
		wired->mtu = packet_size(qp, way);
		wired->resp.expected_psn = qp->attr.rq_psn;
		wired->resp.ack_psn = vb_psn_add(qp->attr.rq_psn, VB_PSN_MASK);
	}
	atomic_store(&qp->wired, wired);
	return 0;
}

static void counters_add(struct vb_wired_counters *sum, const struct vb_wired_counters *counters)
{
	enum { COUNT = sizeof(*sum) / sizeof(uint64_t) };
	uint64_t sums[COUNT], values[COUNT];

	memcpy(sums, sum, sizeof(sums));
	memcpy(values, counters, sizeof(values));
	for (unsigned i = 0; i < COUNT; i++)
		sums[i] += values[i];
	memcpy(sum, sums, sizeof(sums));
}

struct vb_wired_counters vb_roce_counters(const struct vb_roce *roce)
{
	struct vb_wired_counters sum = roce->past;

	for (unsigned i = 0; i < VB_WIRED_BUCKETS; i++)
		vb_list_for(wired, &roce->wired[i], struct vb_wired, node)
			counters_add(&sum, &wired->counters);
	return sum;
}

bool vb_roce_heard_since(const struct vb_roce *roce, const union ibv_gid *host, uint64_t since_ns)
{
	for (unsigned i = 0; i < VB_WIRED_BUCKETS; i++)
		vb_list_for(wired, &roce->wired[i], struct vb_wired, node) {
			const union ibv_gid peer =
				vb_flow_gid(&wired->way.flow, wired->way.flow.dst);

			if (wired->heard_ns >= since_ns && wired->heard_ns &&
			    !memcmp(&peer, host, sizeof(peer)))
				return true;
		}
	return false;
}

/*
 * A QP that goes acknowledges its last messages again, LAST_ACKS times: if the ACK is lost, the
 * peer asks a QP that does not exist. A NAK is not repeated: the peer's QP has failed by it, and
 * may use the same QPN and PSNs again when a second NAK arrives. A message that arrived and made
 * this QP fail is acknowledged again, because its sender knows of no failure.
 */
static void ack_last(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	if (!vb_qp_reliable(wired->qp) || !resp->heard || resp->nak_due ||
	    (resp->fatal && vb_reason_row(resp->fatal)->syndrome) ||
	    resp->reply_head != resp->reply_tail)
		return;
	resp->fatal_told |= resp->fatal != VB_OK; /* the QP goes: its failure needs no report */
	wired->roce->tx.qpn = wired->qp->ibv.qp_num;
	for (unsigned i = 0; i < LAST_ACKS; i++) {
		resp->ack_due = true;
		vb_reply_run(wired);
		vb_tx_flush(&wired->roce->tx);
	}
}

void vb_roce_farewell(struct vb_roce *roce)
{
	for (unsigned i = 0; i < VB_WIRED_BUCKETS; i++)
		vb_list_for(wired, &roce->wired[i], struct vb_wired, node)
			ack_last(wired);
}

void vb_roce_drop(struct vb_wired *wired)
{
	struct vb_qp *qp = wired->qp;

	ack_last(wired);
	counters_add(&wired->roce->past, &wired->counters);
	/* Bursts may name the way of this QP. */
	vb_tx_flush(&wired->roce->tx);
	vb_roce_forget_sequel(wired);
	atomic_store(&qp->wired, NULL);
	vb_list_remove(&wired->node);
	vb_list_remove(&wired->todo);
	vb_roce_account(wired, 0);
	vb_timer_remove(&wired->roce->timers, &wired->timer);
	vb_timer_remove(&wired->roce->gap_timers, &wired->gap_timer);
	vb_reorder_clear(wired);
	vb_answers_clear(&wired->req.answers);
	wired->roce->wired_count--;
	vb_place_give_back(wired);
	if (wired->resp.bound)
		vb_remote_unbind(&wired->resp.own);
	vb_remote_unbind(&wired->resp.answers);
	vb_way_release(&wired->way);
	if (wired->holds_token)
		vb_qp_token_release(qp);
	free(wired);
}

static void wired_enqueue(struct vb_wired *wired, struct vb_list *list, enum vb_queued queued)
{
	vb_list_remove(&wired->todo);
	vb_list_append(list, &wired->todo);
	wired->queued = queued;
}

void vb_roce_todo(struct vb_wired *wired)
{
	if (wired->queued != VB_QUEUED_TODO)
		wired_enqueue(wired, &wired->roce->todo, VB_QUEUED_TODO);
}

void vb_roce_todo_ack(struct vb_wired *wired)
{
	if (!wired->resp.ack_due)
		wired->resp.ack_ns = wired->roce->now_ns;
	wired->resp.ack_due = true;
	if (wired->queued == VB_QUEUED_STARVED)
		vb_roce_todo(wired);
	if (wired->queued != VB_QUEUED_NOT)
		return;
	if (vb_list_empty(&wired->roce->acks))
		wired->roce->acks_ns = wired->resp.ack_ns;
	wired_enqueue(wired, &wired->roce->acks, VB_QUEUED_ACK);
}

void vb_roce_starve(struct vb_wired *wired)
{
	if (wired->queued == VB_QUEUED_NOT)
		wired_enqueue(wired, &wired->roce->starved, VB_QUEUED_STARVED);
}

void vb_roce_account(struct vb_wired *wired, uint64_t bytes)
{
	struct vb_roce *roce = wired->roce;

	roce->share.used_bytes += bytes - wired->share_bytes;
	wired->share_bytes = bytes;
	/* A few starved QPs at a time get a turn: there is no room for all of them. */
	for (unsigned i = 0;
	     i < FEED && !vb_share_full(&roce->share) && !vb_list_empty(&roce->starved); i++)
		vb_roce_todo(vb_container(roce->starved.next, struct vb_wired, todo));
}

static struct vb_wired *wired_dequeue(struct vb_list *list)
{
	struct vb_wired *wired = vb_container(list->next, struct vb_wired, todo);

	vb_list_remove(&wired->todo);
	wired->queued = VB_QUEUED_NOT;
	return wired;
}

/*
 * A program that posts one small message after the other would pay for a call to the kernel each
 * time. While enough packets are under way to keep the peer busy, posts leave together instead:
 * with the next poll, ACK or timer, or when they are GATHER_POSTS.
 */
static bool post_gathers(struct vb_wired *wired)
{
	return wired->holds_token && vb_qp_reliable(wired->qp) &&
	       vb_requester_in_flight(&wired->req) >= GATHER_FLIGHT &&
	       ++wired->gathered < GATHER_POSTS;
}

void vb_roce_post(struct vb_wired *wired)
{
	struct vb_roce *roce = wired->roce;

	if (!post_gathers(wired)) {
		vb_roce_todo(wired);
	} else if (wired->queued == VB_QUEUED_NOT) {
		if (vb_list_empty(&roce->gather))
			roce->gather_ns = roce->now_ns;
		wired_enqueue(wired, &roce->gather, VB_QUEUED_GATHER);
	}
}

bool vb_roce_urgent(const struct vb_roce *roce)
{
	return !vb_list_empty(&roce->todo);
}

void vb_roce_notify(struct vb_wired *wired)
{
	if (wired->notice.due)
		vb_path_tell(wired->qp, &wired->notice);
}

/* True: the QP has an ACK to send, nothing else, and the ACK may wait. */
static bool ack_waits(const struct vb_wired *wired)
{
	const struct vb_responder *resp = &wired->resp;

	return wired->queued == VB_QUEUED_NOT && resp->ack_due && !resp->nak_due &&
	       !resp->report_due && resp->reply_head == resp->reply_tail &&
	       wired->roce->now_ns < resp->ack_ns + ACK_HELD_NS;
}

/* True: the only answer of this turn is an ACK. */
static bool only_ack_due(const struct vb_responder *resp)
{
	return resp->ack_due && !resp->nak_due && !resp->report_due &&
	       resp->reply_head == resp->reply_tail;
}

/*
 * Requests come first: an ACK is shorter, so that it can leave behind them in the same burst, and
 * the receiver looks at an ACK that ends a burst first. An ACK in a burst of its own leaves before
 * the requests, which may answer the messages that it acknowledges.
 */
static bool wired_turn(struct vb_wired *wired, bool hold_acks)
{
	struct vb_tx *tx = &wired->roce->tx;
	uint32_t used = tx->used, flushes = tx->flushes;
	unsigned first = tx->count, requests;
	bool more = false, only_ack;

	wired->gathered = 0;
	wired->roce->tx.qpn = wired->qp->ibv.qp_num;
	if (wired->holds_token &&
	    wired->path_number !=
		    atomic_load_explicit(&wired->qp->migration.path_number, memory_order_relaxed))
		vb_roce_follow_path(wired);
	if (wired->holds_token)
		more = vb_requester_run(wired);
	requests = tx->count;
	only_ack = only_ack_due(&wired->resp);
	if (hold_acks && tx->used == used && ack_waits(wired))
		vb_roce_todo_ack(wired);
	else
		more |= vb_reply_run(wired);
	if (only_ack && requests > first && tx->count == requests + 1 && tx->flushes == flushes)
		vb_tx_advance_last(tx, first);
	if (wired->cnp_due)
		vb_reply_cnp(wired);
	vb_roce_notify(wired);
	return more;
}

static uint64_t timers_next_ns(const struct vb_roce *roce)
{
	uint64_t next_ns = vb_timers_next_ns(&roce->timers);
	uint64_t gap_ns = vb_timers_next_ns(&roce->gap_timers);

	return gap_ns < next_ns ? gap_ns : next_ns;
}

static void timers_fire(struct vb_roce *roce)
{
	struct vb_timer *timer;

	if (timers_next_ns(roce) > roce->now_ns)
		return;
	while ((timer = vb_timers_pop(&roce->timers, roce->now_ns))) {
		struct vb_wired *wired = vb_container(timer, struct vb_wired, timer);

		vb_requester_timer(wired);
		vb_roce_todo(wired);
	}
	while ((timer = vb_timers_pop(&roce->gap_timers, roce->now_ns)))
		vb_responder_gap_timer(vb_container(timer, struct vb_wired, gap_timer));
}

/* True: ACKs may wait. A stream of packets must not hold them for ever. */
static bool acks_wait(const struct vb_roce *roce, bool hold_acks)
{
	return vb_list_empty(&roce->acks) ||
	       (hold_acks && roce->now_ns < roce->acks_ns + ACK_HELD_NS);
}

bool vb_roce_at_rest(const struct vb_roce *roce, bool hold_acks)
{
	return vb_list_empty(&roce->todo) && vb_list_empty(&roce->gather) &&
	       acks_wait(roce, hold_acks) && !roce->tx.count && timers_next_ns(roce) > roce->now_ns;
}

bool vb_roce_turn(struct vb_roce *roce, bool hold_acks)
{
	unsigned turns = 0;

	if (!roce->unread)
		timers_fire(roce);
	while (!acks_wait(roce, hold_acks))
		vb_roce_todo(vb_container(roce->acks.next, struct vb_wired, todo));
	while (!vb_list_empty(&roce->gather))
		vb_roce_todo(vb_container(roce->gather.next, struct vb_wired, todo));
	if (vb_list_empty(&roce->todo)) {
		vb_tx_flush(&roce->tx);
		return false;
	}
	/* Inside the hazard no thread takes away the memory of WQEs and receives. */
	vb_hazard_enter(roce->thread, roce->nic->self->head_slot);
	for (; turns < VB_TURN_QPS && !vb_list_empty(&roce->todo); turns++) {
		struct vb_wired *wired = wired_dequeue(&roce->todo);

		if (wired_turn(wired, hold_acks))
			vb_roce_todo(wired);
	}
	vb_hazard_leave(roce->thread);
	vb_tx_flush(&roce->tx);
	return !vb_list_empty(&roce->todo);
}

uint64_t vb_roce_next_ns(const struct vb_roce *roce)
{
	uint64_t next_ns = timers_next_ns(roce);

	if (!vb_list_empty(&roce->todo))
		return 0;
	if (!vb_list_empty(&roce->acks) && next_ns > roce->acks_ns + LATE_NS)
		next_ns = roce->acks_ns + LATE_NS;
	if (!vb_list_empty(&roce->gather) && next_ns > roce->gather_ns + LATE_NS)
		next_ns = roce->gather_ns + LATE_NS;
	return next_ns;
}

const char *vb_drop_name(enum vb_packet_drop drop)
{
	static const char *const names[VB_PACKET_DROPS] = {
		[VB_PACKET_DROP_MALFORMED] = "malformed",
		[VB_PACKET_DROP_ICRC] = "icrc",
		[VB_PACKET_DROP_UNKNOWN_QP] = "unknown_qp",
		[VB_PACKET_DROP_TRANSPORT] = "wrong_transport",
		[VB_PACKET_DROP_STATE] = "qp_state",
		[VB_PACKET_DROP_PKEY] = "pkey",
		[VB_PACKET_DROP_ADDRESS] = "address",
		[VB_PACKET_DROP_QKEY] = "qkey",
		[VB_PACKET_DROP_SEQUENCE] = "sequence",
		[VB_PACKET_DROP_LENGTH] = "length",
		[VB_PACKET_DROP_RECEIVE] = "no_receive",
		[VB_PACKET_DROP_ACCESS] = "access",
		[VB_PACKET_DROP_OVERFLOW] = "overflow",
	};

	return drop < VB_PACKET_DROPS ? names[drop] : "?";
}
