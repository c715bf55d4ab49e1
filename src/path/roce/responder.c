/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of RC: requests in sequence, gaps, duplicates, and what is refused. */
#include "exec/atomic.h"
#include "exec/flush.h"
#include "exec/recv.h"
#include "exec/rkey.h"
#include "nic/tm.h"
#include "path/roce/roce.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { ATOMIC_TRIES = 1000, RESIZE_TRIES = 1000 };

bool vb_responder_follow(struct vb_wired *wired, bool waits)
{
	for (unsigned i = 0; i < RESIZE_TRIES; i++) {
		if (vb_recv_follow(&wired->resp.own))
			return true;
		if (!waits)
			break;
		/* Who resizes waits until nobody is inside. */
		vb_hazard_leave(wired->roce->thread);
		sched_yield();
		vb_hazard_enter(wired->roce->thread, wired->roce->nic->self->head_slot);
	}
	return false;
}

bool vb_responder_bind(struct vb_wired *wired)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *own = &resp->own;

	if (vb_qp_is_xrc(wired->qp))
		return vb_responder_bind_xrc(wired);
	/* Its SRQ is being resized: RC is asked again, the others' message would be lost. */
	if (resp->bound)
		return vb_responder_follow(wired, !vb_qp_reliable(wired->qp));
	own->peer = wired->roce->nic->self;
	own->entry = wired->qp->entry;
	if (!vb_recv_resolve(own)) {
		own->peer = NULL;
		return false;
	}
	vb_peer_get(own->peer);
	own->keeps_head = wired->qp->type == IBV_QPT_UC;
	own->next_recv = own->keeps_head ? atomic_load(&own->rq->head) : 0;
	resp->bound = true;
	return true;
}

/* --- refusing --- */

static void nak(struct vb_wired *wired, uint8_t syndrome, uint32_t psn)
{
	wired->resp.nak_due = syndrome;
	wired->resp.nak_psn = psn;
	vb_roce_todo(wired);
}

static uint32_t resources_used(const struct vb_responder *resp)
{
	uint32_t used = 0;

	for (uint32_t i = resp->reply_head; i != resp->reply_tail; i++)
		used += !resp->replies[i % VB_REPLIES].repeated;
	return used;
}

/* Of the receive that the message at hand is for. */
static uint32_t room(const struct vb_remote *own)
{
	uint32_t index = own->many ? own->taken : own->next_recv;

	return own->cells[index & own->mask].posted_length;
}

static void fill_in(const struct vb_wired *wired, const struct vb_packet *packet,
		    struct vb_report *report)
{
	const struct vb_responder *resp = &wired->resp;

	switch (report->reason) {
	case VB_RECV_SHORT:
		report->length = (uint64_t)resp->offset + packet->payload_length;
		report->have = resp->tm.tag ? resp->tm.tag->length : room(&resp->own);
		break;
	case VB_READ_DEPTH:
		report->want = resources_used(resp) + 1;
		report->have = atomic_load(&wired->qp->entry->max_dest_rd_atomic);
		break;
	case VB_PACKET_LENGTH:
		report->length = packet->payload_length;
		report->want = wired->mtu;
		break;
	default:
		break;
	}
}

static void explain(const struct vb_wired *wired, const struct vb_packet *packet,
		    enum vb_reason reason)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_report report = {
		.reason = reason,
		.qpn = wired->qp->attr.dest_qp_num,
		.peer_qpn = wired->qp->ibv.qp_num,
		.key = packet->rkey,
		.addr = packet->va,
		.length = row->family == VB_FAMILY_ATOMIC ? 8 :
			  row->headers & VB_HEADER_RETH	  ? packet->dma_length :
							    packet->payload_length,
	};

	fill_in(wired, packet, &report);
	vb_report_refusal(&report);
}

/* The QP fails once everything before was answered and the NAK is out. */
static void refuse(struct vb_wired *wired, const struct vb_packet *packet, enum vb_reason reason)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	bool consumes = row->family == VB_FAMILY_SEND || row->headers & VB_HEADER_IMM;

	resp->fatal = reason;
	resp->fatal_spoils = consumes;
	explain(wired, packet, reason);
	nak(wired, vb_reason_row(reason)->syndrome, packet->psn);
}

/* A NAK acknowledges SENDs and WRITEs before it. READs it does not, and nothing else will. */
void vb_responder_refuse_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	const enum vb_family family = vb_opcode_row(packet->opcode)->family;
	const struct vb_responder *resp = &wired->resp;
	int32_t ahead = vb_psn_diff(packet->psn, resp->nak_psn);

	if (!resp->fatal_told || ahead > 0 ||
	    (ahead && family != VB_FAMILY_SEND && family != VB_FAMILY_WRITE))
		return;
	nak(wired, vb_reason_row(resp->fatal)->syndrome, resp->nak_psn);
}

static void receiver_not_ready(struct vb_wired *wired, const struct vb_packet *packet)
{
	wired->resp.rnr_sent = true;
	wired->counters.rnr_sent++;
	nak(wired, (uint8_t)(VB_SYNDROME_RNR | (wired->qp->attr.min_rnr_timer & VB_SYNDROME_VALUE)),
	    packet->psn);
}

/* Nothing is wrong, but it cannot be done this moment: as if it were lost, with what follows it.
 * To ask for it again at once would use up the requester's retries. */
static void postpone(struct vb_wired *wired)
{
	wired->resp.nak_sent = true;
}

/* --- requests that write --- */

static void executed(struct vb_wired *wired, const struct vb_packet *packet, uint32_t psns)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	bool more = row->place == VB_PLACE_FIRST || row->place == VB_PLACE_MIDDLE;

	resp->expected_psn = vb_psn_add(resp->expected_psn, psns);
	resp->family = more ? row->family : VB_FAMILY_UNKNOWN;
	resp->msn += !more;
	if (row->family == VB_FAMILY_SEND || row->family == VB_FAMILY_WRITE) {
		resp->ack_psn = packet->psn;
		resp->ack_msn = resp->msn;
	} else {
		resp->ack_due = false; /* its own answer acknowledges what came before it */
	}
}

static void place(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	enum vb_reason reason;

	if (row->family == VB_FAMILY_WRITE &&
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_WRITE)) {
		refuse(wired, packet, VB_QP_RIGHT);
		return;
	}
	reason = row->family == VB_FAMILY_SEND ? vb_place_send(wired, packet) :
						 vb_place_write(wired, packet);
	if (reason == VB_NO_RECEIVE) {
		receiver_not_ready(wired, packet);
		return;
	}
	if (reason) {
		refuse(wired, packet, reason);
		return;
	}
	executed(wired, packet, 1);
	if (packet->ack_request)
		vb_roce_todo_ack(wired);
}

/* --- requests that read --- */

static enum vb_reason check_read(struct vb_wired *wired, const struct vb_packet *packet,
				 unsigned access, uint64_t length, uint64_t *address)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *memory = vb_responder_memory(wired);

	*address = 0;
	if (!(atomic_load(&wired->qp->entry->access) & access))
		return VB_QP_RIGHT;
	if (resources_used(resp) >= atomic_load(&wired->qp->entry->max_dest_rd_atomic))
		return VB_READ_DEPTH;
	if (length > VB_MSG_MAX)
		return VB_PACKET_LENGTH;
	if (access == IBV_ACCESS_REMOTE_ATOMIC && packet->va & 7)
		return VB_ATOMIC_ALIGN;
	if (!length) /* no bytes: the key is not looked at */
		return VB_OK;
	return vb_rkey_check(memory->home, &memory->key_cache, memory->pd, memory->entry->qpn,
			     packet->rkey, packet->va, length, access, address);
}

static uint32_t answer_packets(const struct vb_wired *wired, uint32_t length)
{
	return length ? (uint32_t)(((uint64_t)length + wired->mtu - 1) / wired->mtu) : 1;
}

static struct vb_reply read_reply(const struct vb_wired *wired, const struct vb_packet *packet)
{
	return (struct vb_reply){
		.psn = packet->psn,
		.count = answer_packets(wired, packet->dma_length),
		.rkey = packet->rkey,
		.srqn = packet->srqn,
		.va = packet->va,
		.length = packet->dma_length,
		.msn = wired->resp.msn,
	};
}

static void read_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_reply reply;
	uint64_t address;
	enum vb_reason reason = check_read(wired, packet, IBV_ACCESS_REMOTE_READ,
					   packet->dma_length, &address);

	if (reason) {
		refuse(wired, packet, reason);
		return;
	}
	executed(wired, packet, answer_packets(wired, packet->dma_length));
	reply = read_reply(wired, packet);
	vb_reply_push(&wired->resp, &reply);
	vb_roce_todo(wired);
}

static void save(struct vb_responder *resp, const struct vb_packet *packet, uint64_t original)
{
	resp->saved[resp->saved_next++ % VB_RD_ATOMIC_MAX] = (struct vb_saved_atomic){
		.psn = packet->psn,
		.opcode = packet->opcode,
		.used = true,
		.original = original,
	};
}

static void atomic_reply(struct vb_wired *wired, uint32_t psn, uint64_t original, bool repeated)
{
	const struct vb_reply reply = {
		.psn = psn,
		.count = 1,
		.atomic = true,
		.repeated = repeated,
		.msn = wired->resp.msn,
		.original = original,
	};

	if (!vb_reply_push(&wired->resp, &reply))
		vb_roce_count(wired->roce, VB_DROP_OVERFLOW);
	vb_roce_todo(wired);
}

/* Another process of this host may be at it for a moment; who waits too long is asked again. */
static int apply(struct vb_wired *wired, const struct vb_atomic *op, uint64_t address,
		 uint64_t *original)
{
	int err = -EAGAIN;

	for (unsigned i = 0; i < ATOMIC_TRIES && err == -EAGAIN; i++)
		err = vb_atomic_apply(vb_responder_memory(wired)->home, address, op, original);
	return err;
}

static void atomic_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	bool compare = (packet->opcode & ~VB_TRANSPORT_MASK) == VB_OP_COMPARE_SWAP;
	const struct vb_atomic op = {
		.compare_swap = compare,
		.compare_add = compare ? packet->compare : packet->swap_add,
		.swap = packet->swap_add,
	};
	uint64_t address, original = 0;
	enum vb_reason reason = check_read(wired, packet, IBV_ACCESS_REMOTE_ATOMIC, 8, &address);
	int err;

	if (reason) {
		refuse(wired, packet, reason);
		return;
	}
	err = apply(wired, &op, address, &original);
	if (err == -EAGAIN) {
		postpone(wired);
		return;
	}
	if (err) {
		refuse(wired, packet, VB_REMOTE_MEMORY);
		return;
	}
	executed(wired, packet, 1);
	save(&wired->resp, packet, original);
	atomic_reply(wired, packet->psn, original, false);
}

/* --- requests that are answered by a READ response without bytes --- */

static void empty_reply(struct vb_wired *wired, const struct vb_packet *packet, bool repeated)
{
	const struct vb_reply reply = {
		.psn = packet->psn,
		.count = 1,
		.repeated = repeated,
		.msn = wired->resp.msn,
	};

	if (!vb_reply_push(&wired->resp, &reply))
		vb_roce_count(wired->roce, VB_DROP_OVERFLOW);
	vb_roce_todo(wired);
}

static enum vb_reason check_atomic_write(struct vb_wired *wired, const struct vb_packet *packet,
					 uint64_t *address)
{
	if (packet->dma_length != VB_ATOMIC_WRITE_LENGTH)
		return VB_PACKET_LENGTH;
	if (packet->va & 7)
		return VB_ATOMIC_ALIGN;
	return check_read(wired, packet, IBV_ACCESS_REMOTE_WRITE, packet->dma_length, address);
}

static void atomic_write_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_atomic op = { .write = true };
	uint64_t address, original;
	enum vb_reason reason = check_atomic_write(wired, packet, &address);
	int err;

	if (reason) {
		refuse(wired, packet, reason);
		return;
	}
	memcpy(&op.swap, packet->payload, sizeof(op.swap));
	err = apply(wired, &op, address, &original);
	if (err == -EAGAIN) {
		postpone(wired);
		return;
	}
	if (err) {
		refuse(wired, packet, VB_REMOTE_MEMORY);
		return;
	}
	executed(wired, packet, 1);
	empty_reply(wired, packet, false);
}

static void flush_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_remote *memory = vb_responder_memory(wired);
	const struct vb_flush flush = {
		.feth = packet->flush,
		.rkey = packet->rkey,
		.va = packet->va,
		.length = packet->dma_length,
		.qp_access = atomic_load(&wired->qp->entry->access),
	};
	enum vb_reason reason;

	if (resources_used(&wired->resp) >= atomic_load(&wired->qp->entry->max_dest_rd_atomic))
		reason = VB_READ_DEPTH;
	else
		reason = vb_flush_apply(memory->home, &memory->key_cache, memory->pd,
					memory->entry->qpn, &flush);
	if (reason) {
		refuse(wired, packet, reason);
		return;
	}
	executed(wired, packet, 1);
	empty_reply(wired, packet, false);
}

/* --- duplicates --- */

/* The rest of an answer that is still going out has become useless: the requester starts over. */
static bool restart(struct vb_responder *resp, struct vb_reply *reply)
{
	for (uint32_t i = resp->reply_head; i != resp->reply_tail; i++) {
		struct vb_reply *at = &resp->replies[i % VB_REPLIES];
		int32_t into = vb_psn_diff(reply->psn, at->psn);

		if (at->atomic || into < 0 || (uint32_t)into >= at->count)
			continue;
		reply->repeated = at->repeated;
		*at = *reply;
		return true;
	}
	return false;
}

static void read_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *memory = vb_responder_memory(wired);
	struct vb_reply reply = read_reply(wired, packet);
	uint64_t address;

	if (vb_qp_is_xrc(wired->qp) && vb_responder_aim(wired, memory, packet->srqn))
		return;
	/* It was allowed once. If it is not any more, silence is the answer. */
	if (packet->dma_length > VB_MSG_MAX ||
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_READ) ||
	    (packet->dma_length &&
	     vb_rkey_check(memory->home, &memory->key_cache, memory->pd, memory->entry->qpn,
			   packet->rkey, packet->va, packet->dma_length, IBV_ACCESS_REMOTE_READ, &address)))
		return;
	reply.repeated = true;
	/* A repeated request asks for no more than was executed. */
	if (vb_psn_diff(vb_psn_add(packet->psn, reply.count), resp->expected_psn) > 0)
		return;
	if (!restart(resp, &reply) && !vb_reply_push(resp, &reply))
		vb_roce_count(wired->roce, VB_DROP_OVERFLOW);
	vb_roce_todo(wired);
}

static void atomic_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_responder *resp = &wired->resp;

	/* The newest first: PSNs come round, and an old one may have the same. */
	for (uint32_t i = 1; i <= VB_RD_ATOMIC_MAX; i++) {
		const struct vb_saved_atomic *saved =
			&resp->saved[(resp->saved_next - i) % VB_RD_ATOMIC_MAX];

		if (saved->used && saved->psn == packet->psn && saved->opcode == packet->opcode) {
			atomic_reply(wired, packet->psn, saved->original, true);
			return;
		}
	}
}

static void duplicate(struct vb_wired *wired, const struct vb_packet *packet)
{
	wired->counters.duplicates++;
	switch ((enum vb_family)vb_opcode_row(packet->opcode)->family) {
	case VB_FAMILY_READ_REQUEST:
		read_again(wired, packet);
		break;
	case VB_FAMILY_ATOMIC:
		atomic_again(wired, packet);
		break;
	case VB_FAMILY_ATOMIC_WRITE: /* done once; only the answer was lost */
	case VB_FAMILY_FLUSH:
		empty_reply(wired, packet, true);
		break;
	default:
		vb_roce_todo_ack(wired);
	}
}

/* --- sequence --- */

static bool continues(const struct vb_responder *resp, const struct vb_opcode_row *row)
{
	bool begins = row->place != VB_PLACE_MIDDLE && row->place != VB_PLACE_LAST;

	if (resp->family == VB_FAMILY_UNKNOWN)
		return begins;
	return !begins && row->family == resp->family;
}

static void gap(struct vb_wired *wired, uint32_t psn)
{
	struct vb_responder *resp = &wired->resp;
	bool told = resp->nak_due == VB_NAK_SEQUENCE;

	if (!told || vb_psn_diff(psn, resp->gap_psn) > 0)
		resp->gap_psn = psn;
	wired->counters.out_of_sequence++;
	vb_roce_count(wired->roce, VB_DROP_SEQUENCE);
	/* One NAK per gap; behind an RNR NAK none at all. */
	if (resp->nak_sent || resp->rnr_sent)
		return;
	resp->nak_sent = true;
	nak(wired, VB_NAK_SEQUENCE, resp->expected_psn);
}

/* What was missing came late, before the NAK for it is out: it is about the next, or about nothing. */
static void narrow_gap(struct vb_responder *resp)
{
	if (resp->nak_due != VB_NAK_SEQUENCE)
		return;
	resp->nak_psn = resp->expected_psn;
	resp->nak_sent = vb_psn_diff(resp->gap_psn, resp->expected_psn) >= 0;
	if (!resp->nak_sent)
		resp->nak_due = 0;
}

/* XRC: finds the SRQ. False: refused, or to be asked again. */
static bool aim(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	bool places = row->family == VB_FAMILY_SEND || row->family == VB_FAMILY_WRITE;
	struct vb_responder *resp = &wired->resp;
	enum vb_reason reason;

	if (resp->family != VB_FAMILY_UNKNOWN && packet->srqn != resp->own.srqn)
		reason = VB_OUT_OF_SEQUENCE;
	else
		reason = vb_responder_aim(wired, places ? &resp->own : &resp->answers,
					  packet->srqn);
	if (reason && vb_reason_row(reason)->target_fails)
		refuse(wired, packet, reason);
	else if (reason)
		postpone(wired);
	return !reason;
}

static void request(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);

	if (!continues(&wired->resp, row)) {
		refuse(wired, packet, VB_OUT_OF_SEQUENCE);
		return;
	}
	if (!vb_place_fits(wired, packet)) {
		refuse(wired, packet, VB_PACKET_LENGTH);
		return;
	}
	if (vb_qp_is_xrc(wired->qp) && !aim(wired, packet))
		return;
	switch ((enum vb_family)row->family) {
	case VB_FAMILY_SEND:
	case VB_FAMILY_WRITE:
		place(wired, packet);
		break;
	case VB_FAMILY_READ_REQUEST:
		read_request(wired, packet);
		break;
	case VB_FAMILY_ATOMIC:
		atomic_request(wired, packet);
		break;
	case VB_FAMILY_ATOMIC_WRITE:
		atomic_write_request(wired, packet);
		break;
	case VB_FAMILY_FLUSH:
		flush_request(wired, packet);
		break;
	default:
		refuse(wired, packet, VB_OUT_OF_SEQUENCE);
	}
}

void vb_responder_reliable(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_responder *resp = &wired->resp;
	int32_t ahead = vb_psn_diff(packet->psn, resp->expected_psn);

	if (resp->fatal)
		return;
	if (ahead > 0) {
		gap(wired, packet->psn);
		return;
	}
	if (!vb_responder_bind(wired)) {
		postpone(wired);
		return;
	}
	if (ahead < 0) {
		duplicate(wired, packet);
		return;
	}
	resp->nak_sent = resp->rnr_sent = false;
	if ((resp->nak_due & VB_SYNDROME_KIND) == VB_SYNDROME_RNR)
		resp->nak_due = 0; /* was not out yet, and is decided anew */
	resp->heard = true;
	request(wired, packet);
	narrow_gap(resp);
}
