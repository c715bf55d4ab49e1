/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the responder: READ responses and ATOMIC ACKs in order, then one ACK or NAK. */
#include <string.h>

#include "exec/recv.h"
#include "exec/rkey.h"
#include "exec/served.h"
#include "nic/migrate.h"
#include "nic/odp.h"
#include "path/roce/responder.h"

enum { CNP_PAUSE_NS = 50000 };

/* The requester waits for a repeated answer: it goes in front of answers with later PSNs. */
bool vb_reply_push(struct vb_responder *resp, const struct vb_reply *reply)
{
	uint32_t at = resp->reply_tail;

	if (at - resp->reply_head >= VB_REPLIES)
		return false;
	for (; at != resp->reply_head; at--) {
		const struct vb_reply *before = &resp->replies[(at - 1) % VB_REPLIES];

		if (vb_psn_diff(before->psn, reply->psn) <= 0)
			break;
		resp->replies[at % VB_REPLIES] = *before;
	}
	resp->replies[at % VB_REPLIES] = *reply;
	resp->reply_tail++;
	return true;
}

static struct vb_packet answer_packet(const struct vb_wired *wired, uint8_t operation, uint32_t psn)
{
	return (struct vb_packet){
		.opcode = (uint8_t)(operation |
				    (vb_qp_is_xrc(wired->qp) ? VB_TRANSPORT_XRC : VB_TRANSPORT_RC)),
		.migreq = vb_qp_migreq(wired->qp),
		.pkey = vb_qp_pkey(wired->qp),
		.dest_qpn = wired->qp->attr.dest_qp_num,
		.psn = psn,
	};
}

/* --- credits --- */

/* The code of the largest count up to messages: 2^k has 2k, 3 * 2^(k-1) has 2k + 1 (IBA table
 * 46). */
static uint8_t credit_code(uint32_t messages)
{
	unsigned power, code;

	if (messages < 2)
		return (uint8_t)messages;
	power = 31 - (unsigned)__builtin_clz(messages);
	code = 2 * power + (messages >> (power - 1) & 1);
	return (uint8_t)(code < VB_CREDITS_NONE ? code : VB_CREDITS_NONE - 1);
}

/* A shared queue has no credits to give: other QPs may take its receives first. */
static uint8_t ack_credits(const struct vb_wired *wired)
{
	const struct vb_rq *rq = wired->qp->rq;

	if (wired->qp->srq || vb_qp_is_xrc(wired->qp) || !wired->resp.bound)
		return VB_CREDITS_NONE;
	/* The tail is a hint: the posting thread moves it. */
	return credit_code(__atomic_load_n(&rq->tail, __ATOMIC_RELAXED) -
			   wired->resp.own.next_recv);
}

/* --- READ --- */

/* Finds the bytes of an answer, or copies them to room if they cannot be read in place. VB_OK, or
 * the reason why they are gone. */
static enum vb_reason read_memory(struct vb_wired *wired, const struct vb_reply *reply,
				  uint64_t offset, uint32_t length, uint8_t room[VB_MTU_MAX],
				  const uint8_t **bytes)
{
	struct vb_remote *memory = vb_responder_memory(wired);
	enum vb_reason reason = VB_OK;
	uint64_t address;

	*bytes = reply->answer;
	if (!length || __builtin_expect(reply->width, 0))
		return VB_OK;
	if (vb_qp_is_xrc(wired->qp))
		reason = vb_responder_aim(wired, memory, reply->srqn);
	if (!reason)
		reason = vb_rkey_check(memory->home, &memory->key_cache, memory->pd,
				       memory->entry->qpn, reply->rkey, reply->va + offset, length,
				       IBV_ACCESS_REMOTE_READ, &address);
	if (reason == VB_WHY_RKEY_INDIRECT) {
		*bytes = room;
		return vb_indirect_read(memory, reply->rkey, reply->va + offset, room, length);
	}
	if (reason)
		return reason;
	*bytes = (const uint8_t *)(uintptr_t)address;
	if (memory->home->self && !vb_odp_in_use())
		return VB_OK;
	*bytes = room;
	if (memory->home->self ? vb_odp_read(room, (const void *)(uintptr_t)address, length)
			       : vb_home_read(wired, address, length, room))
		return VB_OK;
	return VB_WHY_REMOTE_MEMORY;
}

static uint8_t read_operation(const struct vb_reply *reply)
{
	bool last = reply->sent + 1 == reply->count;

	if (!reply->sent)
		return last ? VB_OP_READ_RESPONSE_ONLY : VB_OP_READ_RESPONSE_FIRST;
	return last ? VB_OP_READ_RESPONSE_LAST : VB_OP_READ_RESPONSE_MIDDLE;
}

/* VB_OK, or the reason why the memory is gone since the request. */
static enum vb_reason send_read(struct vb_wired *wired, struct vb_reply *reply)
{
	uint64_t offset = (uint64_t)reply->sent * wired->mtu;
	uint32_t rest = reply->length - (uint32_t)offset;
	struct vb_packet packet =
		answer_packet(wired, read_operation(reply), vb_psn_add(reply->psn, reply->sent));
	enum vb_reason reason;
	const uint8_t *bytes;
	uint8_t *out, room[VB_MTU_MAX];

	packet.syndrome = VB_CREDITS_NONE;
	packet.msn = reply->msn & VB_PSN_MASK;
	packet.payload_length = rest < wired->mtu ? rest : wired->mtu;
	reason = read_memory(wired, reply, offset, packet.payload_length, room, &bytes);
	if (reason)
		return reason;
	out = vb_tx_begin(&wired->roce->tx, &wired->way, &packet);
	if (packet.payload_length)
		memcpy(out, bytes, packet.payload_length);
	vb_tx_end(&wired->roce->tx);
	reply->sent++;
	if (reply->sent == reply->count && reply->counts)
		vb_served_done(wired->qp->entry, wired->qp->lent, VB_SERVED_READ,
			       reply->counts_bytes);
	return VB_OK;
}

/*
 * The packets behind the last one that are in the middle of the answer as well. No thread takes the
 * memory away while this one is inside its hazard: one look at the key does for all of them.
 * Returns their number; what is not plain is left to send_read.
 */
static unsigned send_read_sequels(struct vb_wired *wired, struct vb_reply *reply, unsigned budget)
{
	const struct vb_remote *memory = &wired->resp.own;
	const uint32_t middle = reply->count - 1 - reply->sent;
	const unsigned most = middle < budget ? middle : budget;
	struct vb_tx *tx = &wired->roce->tx;
	uint64_t address;
	unsigned count = 0;
	uint8_t *out;

	if (!most || reply->width || vb_qp_is_xrc(wired->qp) || !memory->home->self ||
	    vb_odp_in_use() ||
	    vb_rkey_check(wired->resp.own.home, &wired->resp.own.key_cache, memory->pd,
			  memory->entry->qpn, reply->rkey,
			  reply->va + (uint64_t)reply->sent * wired->mtu,
			  (uint64_t)most * wired->mtu, IBV_ACCESS_REMOTE_READ, &address))
		return 0;
	for (; count < most; count++, address += wired->mtu) {
		out = vb_tx_next(tx, vb_psn_add(reply->psn, reply->sent));
		if (!out)
			break;
		memcpy(out, (const void *)(uintptr_t)address, wired->mtu);
		vb_tx_end(tx);
		reply->sent++;
	}
	return count;
}

static void send_atomic(struct vb_wired *wired, struct vb_reply *reply)
{
	struct vb_packet packet = answer_packet(wired, VB_OP_ATOMIC_ACKNOWLEDGE, reply->psn);

	packet.syndrome = VB_CREDITS_NONE;
	packet.msn = reply->msn & VB_PSN_MASK;
	packet.original = reply->original;
	vb_tx_packet(&wired->roce->tx, &wired->way, &packet);
	reply->sent++;
}

/* --- ACK and NAK --- */

static void send_ack(struct vb_wired *wired, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	struct vb_packet packet = answer_packet(wired, VB_OP_ACKNOWLEDGE, psn);

	packet.syndrome = syndrome;
	packet.msn = msn & VB_PSN_MASK;
	vb_tx_packet(&wired->roce->tx, &wired->way, &packet);
}

/* The last answer is out: a QP that waited for that fails now. */
static void qp_fail(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	if (__builtin_expect(!resp->fatal || resp->fatal_told, 1))
		return;
	resp->fatal_told = true;
	/* The receive fails together with the QP: no poller sees it fail on a QP that goes on. */
	vb_target_fail(&resp->own, resp->fatal,
		       resp->fatal_spoils && vb_place_spoil(wired, resp->fatal));
}

static void send_ack_or_nak(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	if (resp->nak_due)
		send_ack(wired, resp->nak_due, resp->nak_psn, resp->msn);
	else
		send_ack(wired, ack_credits(wired), resp->ack_psn, resp->ack_msn);
	resp->nak_due = 0;
	resp->ack_due = false; /* a NAK acknowledges as well */
	qp_fail(wired);
}

/* All gaps in one packet, behind the ACK or NAK. */
static void send_report(struct vb_wired *wired)
{
	uint8_t payload[VB_GAPS_LENGTH_MAX];
	struct vb_packet packet = { 0 };
	struct vb_gaps gaps;

	if (!vb_responder_report(wired, &gaps))
		return;
	packet = answer_packet(wired, 0, gaps.psn);
	packet.opcode = VB_TRANSPORT_VENDOR | VB_OP_GAPS;
	packet.syndrome = ack_credits(wired);
	packet.msn = wired->resp.msn & VB_PSN_MASK;
	packet.payload_length = vb_gaps_emit(&gaps, payload);
	memcpy(vb_tx_begin(&wired->roce->tx, &wired->way, &packet), payload, packet.payload_length);
	vb_tx_end(&wired->roce->tx);
}

static void read_explain(const struct vb_wired *wired, const struct vb_reply *reply,
			 enum vb_reason reason)
{
	uint64_t offset = (uint64_t)reply->sent * wired->mtu;
	const struct vb_report report = {
		.reason = reason,
		.qpn = wired->qp->attr.dest_qp_num,
		.peer_qpn = wired->qp->ibv.qp_num,
		.key = reply->rkey,
		.addr = reply->va + offset,
		.length = reply->length - offset,
	};

	vb_responder_explain(wired,
			     vb_qp_is_xrc(wired->qp) ? &wired->resp.answers : &wired->resp.own,
			     VB_FAMILY_READ_REQUEST, &report);
}

static void read_fail(struct vb_wired *wired, const struct vb_reply *reply, enum vb_reason reason)
{
	struct vb_responder *resp = &wired->resp;

	read_explain(wired, reply, reason);
	vb_served_refused(wired->qp->entry, wired->qp->lent, VB_SERVED_READ);
	resp->nak_due = vb_reason_row(reason)->syndrome;
	resp->nak_psn = vb_psn_add(reply->psn, reply->sent);
	resp->fatal = reason;
	resp->fatal_spoils = false;
	resp->reply_head = resp->reply_tail;
}

/* A QP in ERR reads no memory: neither data nor a NAK follows. */
static void reads_stop(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;

	if (resp->reply_head != resp->reply_tail &&
	    vb_gate_state(vb_qp_gate(wired->qp)) == IBV_QPS_ERR)
		resp->reply_head = resp->reply_tail;
}

bool vb_reply_run(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;
	unsigned budget = VB_TURN_PACKETS;

	reads_stop(wired);
	while (resp->reply_head != resp->reply_tail && budget) {
		struct vb_reply *reply = &resp->replies[resp->reply_head % VB_REPLIES];
		enum vb_reason reason = VB_OK;

		if (reply->atomic)
			send_atomic(wired, reply);
		else
			reason = send_read(wired, reply);
		if (reason && !reply->repeated && vb_reason_row(reason)->target_fails) {
			read_fail(wired, reply, reason);
			break;
		}
		/* No answer: the requester asks again. */
		if (reason)
			reply->sent = reply->count;
		budget--;
		if (!reason && !reply->atomic && reply->sent < reply->count)
			budget -= send_read_sequels(wired, reply, budget);
		if (reply->sent == reply->count)
			resp->reply_head++;
	}
	if (resp->reply_head != resp->reply_tail)
		return true;
	if (resp->nak_due || resp->ack_due)
		send_ack_or_nak(wired);
	if (resp->report_due)
		send_report(wired);
	return false;
}

void vb_reply_cnp(struct vb_wired *wired)
{
	struct vb_packet packet = {
		.opcode = VB_TRANSPORT_CNP | VB_OP_CNP,
		.migreq = vb_qp_migreq(wired->qp),
		.becn = true,
		.pkey = vb_qp_pkey(wired->qp),
		.dest_qpn = wired->qp->attr.dest_qp_num,
	};

	wired->cnp_due = false;
	if (wired->cnp_ns && wired->roce->now_ns - wired->cnp_ns < CNP_PAUSE_NS)
		return;
	wired->cnp_ns = wired->roce->now_ns;
	wired->counters.cnp_sent++;
	vb_tx_packet(&wired->roce->tx, &wired->way, &packet);
}
