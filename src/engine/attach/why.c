/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/why.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attach/describe.h"
#include "engine/wire/wire_impl.h"
#include "exec/reason.h"
#include "nic/call_wait.h"
#include "nic/ledger.h"
#include "nic/qp_ext.h"
#include "path/complete.h"
#include "path/roce/requester.h"

/* The records so far; some QPs may appear, or come to the wire, meanwhile. */
struct listing {
	struct vb_why_record *records;
	uint32_t count, room;
};

static struct vb_why_record *add_record(struct listing *listing, enum vb_waits_kind kind,
					uint32_t id)
{
	struct vb_why_record *record;

	if (listing->count == listing->room)
		return NULL;
	record = &listing->records[listing->count++];
	*record = (struct vb_why_record){ .kind = kind, .id = id };
	return record;
}

static uint32_t cq_number(const struct vb_cq *cq)
{
	return cq ? (uint32_t)(cq->shared_offset / 64) : 0;
}

static uint32_t receives_posted(struct vb_qp *qp)
{
	const struct vb_rq *rq = qp->rq;

	if (!rq)
		return 0;
	return rq->many ? vb_rq_held(rq)
			: __atomic_load_n(&rq->tail, __ATOMIC_RELAXED) -
				  (uint32_t)atomic_load(&rq->head);
}

/* The count of everything that ever completed, was consumed or was posted. */
static uint64_t qp_progress(struct vb_qp *qp, uint32_t tail)
{
	const struct vb_rq *rq = qp->rq;
	uint64_t received = !rq        ? 0
			    : rq->many ? atomic_load(&rq->consumed)
				       : atomic_load(&rq->head);

	return atomic_load(&qp->sq.done) + tail + atomic_load(&qp->sq.offset) +
	       atomic_load(&qp->sq.retired) + (received << 32) +
	       (rq ? __atomic_load_n(&rq->tail, __ATOMIC_RELAXED) : 0);
}

static void words_write(struct vb_qp *qp, struct vb_report *report, struct vb_why_record *record)
{
	struct vb_report_words words = { .peer = "" };

	report->qpn = qp->ibv.qp_num;
	report->peer_qpn = qp->attr.dest_qp_num;
	if (report->reason == VB_WHY_PEER_NOT_READY)
		words.sentence = "QP {p} has not reached RTR";
	else if (report->reason == VB_WHY_PEER_OTHER_DEST)
		words.sentence = "QP {p} is connected to another QP";
	else if (report->reason == VB_WHY_PEER_OTHER_PSN)
		words.sentence = "QP {p} expects another PSN (its rq_psn is not the sq_psn here)";
	else if (report->reason == VB_WHY_NO_RECEIVE)
		words.sentence = "no receive was posted at QP {p} (rnr_retry is {h})";
	vb_report_write(report, &words, record->words, sizeof(record->words));
}

/* A wait on the local path. The fields are read while another thread may write them: hints. */
static void add_pend(struct vb_qp *qp, struct vb_why_record *record)
{
	static const uint8_t waits[] = {
		[VB_PEND_NONE] = VB_WAIT_NOT,    [VB_PEND_UNREADY] = VB_WAIT_PEER,
		[VB_PEND_RNR] = VB_WAIT_RECEIVE, [VB_PEND_WIRE] = VB_WAIT_BUSY,
		[VB_PEND_BUSY] = VB_WAIT_BUSY,   [VB_PEND_DELAYED] = VB_WAIT_RULE,
		[VB_PEND_LOST] = VB_WAIT_RULE,   [VB_PEND_CQE] = VB_WAIT_CQE,
		[VB_PEND_ATTACH] = VB_WAIT_PEER
	};
	const struct vb_pend *pend = &qp->pend;
	struct vb_report report = { .reason = pend->reason };

	record->wait = waits[atomic_load(&pend->why)];
	record->since_ns = pend->since_ns;
	record->give_up_ns = record->wait == VB_WAIT_PEER ? pend->give_up_ns : 0;
	record->tries = pend->rnr_tries;
	if (record->wait == VB_WAIT_PEER)
		words_write(qp, &report, record);
}

/* A wait on the wire; under the lock of the lane. */
static void add_wired(const struct vb_wired *wired, struct vb_why_record *record)
{
	const struct vb_requester *req = &wired->req;
	const uint64_t patience_ns = vb_requester_patience_ns(wired);

	record->on_wire = true;
	if (!req->started || req->una_psn == req->sent_psn)
		return;
	record->in_flight = (uint32_t)vb_psn_diff(req->sent_psn, req->una_psn);
	record->window = vb_congestion_window(&req->congestion);
	if (req->rnr_cautious) {
		record->wait = VB_WAIT_RECEIVE;
		record->since_ns = req->rnr_since_ns;
		record->tries = req->rnr_tries;
		return;
	}
	record->wait = VB_WAIT_ANSWER;
	record->since_ns = req->stalled_ns;
	record->give_up_ns =
		patience_ns == VB_NEVER_NS ? VB_WHY_NEVER : req->stalled_ns + patience_ns;
	record->tries = req->overdue_psn == req->una_psn ? req->overdue : 0;
}

static void add_failure(struct vb_qp *qp, struct vb_why_record *record)
{
	const struct vb_failure failure = qp->failure;
	struct vb_report report = { .reason = failure.reason,
				    .have = qp->attr.rnr_retry,
				    .want = qp->attr.retry_cnt + 1u };
	char words[sizeof(record->words)];

	if (!failure.since_ns || failure.reason >= VB_REASON_COUNT)
		return;
	if (failure.reason == VB_WHY_PEER_SILENT)
		report.want = vb_qp_patience_ns(qp) / 1000000;
	record->failed_ns = failure.since_ns;
	if (failure.reason == VB_WHY_INJECTED_FATAL) {
		snprintf(record->words, sizeof(record->words), "a fault rule failed its device");
		return;
	}
	if (failure.status == VB_FAILURE_OF_PEER) {
		snprintf(record->words, sizeof(record->words),
			 "it refused a request of its peer: %s", vb_reason_brief(failure.reason));
		return;
	}
	words_write(qp, &report, record);
	memcpy(words, record->words, sizeof(words));
	snprintf(record->words, sizeof(record->words), "%s wr_id %llu failed: %.140s",
		 vb_opcode_words(failure.opcode), (unsigned long long)failure.wr_id, words);
}

static void add_peer(const struct vb_qp *qp, struct vb_why_record *record)
{
	if (qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET ||
	    record->state == IBV_QPS_RESET || record->state == IBV_QPS_INIT)
		return;
	record->dest_qpn = qp->attr.dest_qp_num;
	record->dest_local = qp->av.local;
	memcpy(record->dest_gid, qp->av.dgid.raw, sizeof(record->dest_gid));
}

/* A wait of a cross-channel QP, on any path. Under the send queue's lock: a post replaces operands.
 * False: it waits for something else. */
static bool add_cross(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_why_record *record)
{
	struct vb_ledger_gap gap;

	if (qp->slow_sends & VB_SENDS_MANAGED &&
	    (uint32_t)atomic_load(&qp->sq.done) == vb_qp_sends_end(qp)) {
		record->wait = VB_WAIT_ENABLE;
		return true;
	}
	if (wqe->opcode != VB_WR_CQE_WAIT)
		return false;
	gap = vb_ledger_gap(vb_wqe_cross(wqe)->ledger, vb_wqe_cross(wqe)->index);
	record->wait = VB_WAIT_CQE;
	record->since_ns = qp->pend.since_ns;
	if (gap.cq)
		snprintf(record->words, sizeof(record->words), "%u more completion%s of CQ %u",
			 gap.missing, gap.missing == 1 ? "" : "s", gap.cq);
	else
		snprintf(record->words, sizeof(record->words), "a CQ that was destroyed");
	return true;
}

/* The oldest work request. */
static void add_send(struct vb_qp *qp, struct vb_why_record *record)
{
	const struct vb_wired *wired = atomic_load(&qp->wired);
	const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, (uint32_t)atomic_load(&qp->sq.done));
	bool cross;

	vb_spin_lock(&qp->sq.lock);
	record->wr_id = wqe->wr_id;
	record->opcode = wqe->opcode;
	cross = record->state == IBV_QPS_RTS && add_cross(qp, wqe, record);
	vb_spin_unlock(&qp->sq.lock);
	if (cross)
		record->on_wire = wired && qp->type != IBV_QPT_UD;
	else if (wired && qp->type != IBV_QPT_UD)
		add_wired(wired, record);
	else if (record->state == IBV_QPS_RTS)
		add_pend(qp, record);
}

/* Under the lock of the QP's lane, if that is open. */
static void add_qp(struct listing *listing, struct vb_qp *qp)
{
	struct vb_why_record *record = add_record(listing, VB_WAITS_QP, qp->ibv.qp_num);
	uint32_t tail;

	if (!record)
		return;
	vb_spin_lock(&qp->sq.lock);
	tail = qp->sq.tail;
	vb_spin_unlock(&qp->sq.lock);
	record->type = qp->type;
	record->state = (uint8_t)vb_qp_state(qp);
	record->progress = qp_progress(qp, tail);
	record->sends = tail - (uint32_t)atomic_load(&qp->sq.done);
	record->receives = receives_posted(qp);
	record->send_cq = cq_number(qp->send_cq);
	record->recv_cq = cq_number(qp->recv_cq);
	record->rnr_retry = qp->attr.rnr_retry;
	record->timeout = qp->attr.timeout;
	record->retry_cnt = qp->attr.retry_cnt;
	add_peer(qp, record);
	if (record->state == IBV_QPS_ERR || record->state == IBV_QPS_SQE)
		add_failure(qp, record);
	if (record->sends && qp->sq.slots)
		add_send(qp, record);
}

static void add_cq(struct listing *listing, struct vb_cq *cq)
{
	struct vb_why_record *record = add_record(listing, VB_WAITS_CQ, cq_number(cq));

	if (!record)
		return;
	record->depth = (uint32_t)cq->ibv.cqe;
	record->polls = atomic_load(&cq->empty_polls);
	record->armed = atomic_load(&cq->shared->armed) != 0;
	/* A thread that polls has the lock, and takes the completions. */
	if (vb_spin_try(&cq->poll_lock)) {
		record->count = vb_cq_waiting(cq) + vb_ledger_count(cq);
		record->progress = vb_cq_taken(cq);
		vb_spin_unlock(&cq->poll_lock);
	}
}

static void add_calls(struct listing *listing)
{
	for (int i = 0; i < VB_CALL_WAITS; i++) {
		const struct vb_call_wait wait = vb_call_wait_at(i);
		struct vb_why_record *record =
			wait.call ? add_record(listing, VB_WAITS_CALL, wait.object) : NULL;

		if (!record)
			continue;
		record->count = wait.count;
		record->since_ns = wait.since_ns;
		snprintf(record->call, sizeof(record->call), "%s", wait.call);
		snprintf(record->words, sizeof(record->words), "%s", wait.for_);
	}
}

/* "192.0.2.7 port 7471" */
static void address_write(const uint8_t address[28], char *text, size_t size)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	char words[INET6_ADDRSTRLEN] = "an unknown address";

	if (v4->sin_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, words, sizeof(words));
	else if (v4->sin_family == AF_INET6)
		inet_ntop(AF_INET6, &v6->sin6_addr, words, sizeof(words));
	snprintf(text, size, "%s port %u", words, ntohs(v4->sin_port)); /* both have it there */
}

static void add_ids(struct listing *listing, const struct vb_describe_record *ids, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct vb_why_record *record =
			ids[i].cm_wait ? add_record(listing, VB_WAITS_ID, ids[i].id) : NULL;
		uint8_t dst[28] __attribute__((aligned(8)));

		if (!record)
			continue;
		record->wait = ids[i].cm_wait;
		record->progress = ids[i].cm_wait;
		record->since_ns = ids[i].since_ns;
		memcpy(dst, ids[i].dst, sizeof(dst));
		address_write(dst, record->words, sizeof(record->words));
	}
}

/* The QPs of one lane; of those that are not open: none of them is on the wire. */
static int add_lane(struct listing *listing, struct vb_nic *nic, unsigned number)
{
	struct vb_lane *lane = vb_lane_open_at(nic, number);
	int err = 0;

	if (lane)
		vb_wire_lock(lane);
	if (pthread_mutex_trylock(&nic->lock)) {
		err = -EAGAIN;
	} else {
		vb_list_for(qp, &nic->qps, struct vb_qp, node)
			if (qp->entry && atomic_load(&qp->lane) == number)
				add_qp(listing, qp);
		if (!number)
			vb_list_for(cq, &nic->cqs, struct vb_cq, node)
				if (cq != nic->xrc_cq)
					add_cq(listing, cq);
		pthread_mutex_unlock(&nic->lock);
	}
	if (lane)
		vb_wire_unlock(lane);
	return err;
}

int vb_why_list(struct vb_nic *nic, struct vb_why_record **records, uint32_t *count)
{
	struct listing listing = { .room = nic->qp_count + nic->cq_count + VB_CALL_WAITS + 64 };
	struct vb_describe_record *ids;
	uint32_t id_count;
	int err = vb_describe_ids(&ids, &id_count);

	if (err)
		return err;
	listing.room += id_count;
	listing.records = calloc(listing.room, sizeof(*listing.records));
	if (!listing.records) {
		free(ids);
		return -ENOMEM;
	}
	add_ids(&listing, ids, id_count);
	free(ids);
	for (unsigned i = 0; i < VB_LANES_MAX && !err; i++)
		err = add_lane(&listing, nic, i);
	add_calls(&listing);
	if (err) {
		free(listing.records);
		return err;
	}
	*records = listing.records;
	*count = listing.count;
	return 0;
}
