/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests with an answer of their own: READ, ATOMIC, ATOMIC WRITE, FLUSH, and duplicates. */
#include <errno.h>
#include <string.h>

#include "exec/atomic.h"
#include "exec/flush.h"
#include "exec/rkey.h"
#include "path/roce/responder.h"

enum { ATOMIC_TRIES = 1000 };

/* --- requests that read --- */

/* Rights, resources and key of a request for length bytes. */
static enum vb_reason memory_check(struct vb_wired *wired, const struct vb_packet *packet,
				   unsigned access, uint64_t length, uint64_t *address)
{
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *memory = vb_responder_memory(wired);

	*address = 0;
	if (!(atomic_load(&wired->qp->entry->access) & access))
		return VB_WHY_QP_RIGHT;
	if (vb_responder_resources(resp) >= atomic_load(&wired->qp->entry->max_dest_rd_atomic))
		return VB_WHY_READ_DEPTH;
	if (length > VB_MSG_MAX)
		return VB_WHY_PACKET_LENGTH;
	if (!length) /* without bytes the key is ignored */
		return VB_OK;
	return vb_rkey_check(memory->home, &memory->key_cache, memory->pd, memory->entry->qpn,
			     packet->rkey, packet->va, length, access, address);
}

static enum vb_reason atomic_check(struct vb_wired *wired, const struct vb_packet *packet,
				   uint64_t *address)
{
	enum vb_reason reason = memory_check(wired, packet, IBV_ACCESS_REMOTE_ATOMIC,
					     packet->va & 7 ? 0 : 8, address);

	/* An aligned address may stand for unaligned memory, if the region begins unaligned. */
	return !reason && (packet->va | *address) & 7 ? VB_WHY_ATOMIC_ALIGN : reason;
}

static uint32_t answer_packets(const struct vb_wired *wired, uint32_t length)
{
	return length ? (uint32_t)(((uint64_t)length + wired->mtu - 1) / wired->mtu) : 1;
}

uint32_t vb_responder_psns(const struct vb_wired *wired, const struct vb_packet *packet)
{
	if (vb_opcode_row(packet->opcode)->family != VB_FAMILY_READ_REQUEST)
		return 1;
	return answer_packets(wired, packet->dma_length);
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
	enum vb_reason reason =
		memory_check(wired, packet, IBV_ACCESS_REMOTE_READ, packet->dma_length, &address);

	if (reason == VB_WHY_RKEY_INDIRECT)
		reason = vb_indirect_check(vb_responder_memory(wired), packet->rkey, packet->va,
					   packet->dma_length, IBV_ACCESS_REMOTE_READ);
	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	vb_responder_executed(wired, packet, answer_packets(wired, packet->dma_length));
	reply = read_reply(wired, packet);
	reply.counts = true;
	reply.counts_bytes = packet->dma_length;
	vb_reply_push(&wired->resp, &reply);
	vb_roce_todo(wired);
}

static void atomic_save(struct vb_responder *resp, const struct vb_packet *packet,
			uint64_t original)
{
	resp->saved[resp->saved_next++ % VB_RD_ATOMIC_MAX] = (struct vb_saved_atomic){
		.psn = packet->psn,
		.opcode = packet->opcode,
		.used = true,
		.original = original,
	};
}

/* Queues the answer of a request that was executed, now or before. */
static void reply_give(struct vb_wired *wired, const struct vb_reply *reply)
{
	if (!vb_reply_push(&wired->resp, reply))
		vb_roce_count(wired->roce, VB_PACKET_DROP_OVERFLOW);
	vb_roce_todo(wired);
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

	reply_give(wired, &reply);
}

/* False: the atomic was not executed. */
static bool atomic_tried(struct vb_wired *wired, const struct vb_packet *packet, int err)
{
	if (err == -EAGAIN)
		vb_responder_postpone(wired);
	else if (err)
		vb_responder_refuse(wired, packet, VB_WHY_REMOTE_MEMORY);
	else
		vb_responder_executed(wired, packet, 1);
	return !err;
}

/*
 * Another process of this host may execute an atomic at this moment. After ATOMIC_TRIES the request
 * is dropped, and the requester tries again. False: the atomic was not executed.
 */
static bool atomic_apply(struct vb_wired *wired, const struct vb_packet *packet,
			 const struct vb_atomic *op, uint64_t address, uint64_t *original)
{
	int err = -EAGAIN;

	for (unsigned i = 0; i < ATOMIC_TRIES && err == -EAGAIN; i++)
		err = vb_atomic_apply(vb_responder_memory(wired)->home, address, NULL, op,
				      original);
	return atomic_tried(wired, packet, err);
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
	enum vb_reason reason = atomic_check(wired, packet, &address);

	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	if (!atomic_apply(wired, packet, &op, address, &original))
		return;
	atomic_save(&wired->resp, packet, original);
	atomic_reply(wired, packet->psn, original, false);
}

/* --- extended ATOMICs: a READ response brings the bytes --- */

static void masked_reply(struct vb_wired *wired, const struct vb_packet *packet,
			 const uint8_t *answer, bool repeated)
{
	struct vb_reply reply = {
		.psn = packet->psn,
		.count = 1,
		.repeated = repeated,
		.msn = wired->resp.msn,
		.width = (uint8_t)packet->dma_length,
		.length = packet->dma_length,
	};

	memcpy(reply.answer, answer, reply.width);
	reply_give(wired, &reply);
}

static void masked_save(struct vb_responder *resp, const struct vb_packet *packet,
			const uint8_t *answer)
{
	struct vb_saved_atomic *saved = &resp->saved[resp->saved_next++ % VB_RD_ATOMIC_MAX];

	*saved = (struct vb_saved_atomic){
		.psn = packet->psn,
		.opcode = packet->opcode,
		.used = true,
		.width = (uint8_t)packet->dma_length,
	};
	memcpy(saved->answer, answer, saved->width);
}

static enum vb_reason masked_check(struct vb_wired *wired, const struct vb_packet *packet,
				   struct vb_masked *op, uint64_t *address)
{
	enum vb_reason reason;

	if (!vb_masked_parse((packet->opcode & ~VB_TRANSPORT_MASK) == VB_OP_MASKED_COMPARE_SWAP,
			     packet->dma_length, packet->payload, packet->payload_length, op))
		return VB_WHY_PACKET_LENGTH;
	if (packet->va & (op->width - 1u))
		return VB_WHY_MASKED_ALIGN;
	reason = memory_check(wired, packet, IBV_ACCESS_REMOTE_ATOMIC, op->width, address);
	return !reason && *address & (op->width - 1u) ? VB_WHY_MASKED_ALIGN : reason;
}

static void masked_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	uint8_t answer[VB_MASKED_BYTES_MAX];
	struct vb_masked op;
	uint64_t address;
	enum vb_reason reason = masked_check(wired, packet, &op, &address);
	int err = -EAGAIN;

	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	for (unsigned i = 0; i < ATOMIC_TRIES && err == -EAGAIN; i++)
		err = vb_masked_apply(vb_responder_memory(wired)->home, address, NULL, &op, answer);
	if (!atomic_tried(wired, packet, err))
		return;
	masked_save(&wired->resp, packet, answer);
	masked_reply(wired, packet, answer, false);
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

	reply_give(wired, &reply);
}

static enum vb_reason atomic_write_check(struct vb_wired *wired, const struct vb_packet *packet,
					 uint64_t *address)
{
	enum vb_reason reason;

	if (packet->dma_length != VB_ATOMIC_WRITE_LENGTH)
		return VB_WHY_PACKET_LENGTH;
	if (packet->va & 7)
		return VB_WHY_ATOMIC_ALIGN;
	reason = memory_check(wired, packet, IBV_ACCESS_REMOTE_WRITE, packet->dma_length, address);
	return !reason && *address & 7 ? VB_WHY_ATOMIC_ALIGN : reason;
}

static void atomic_write_request(struct vb_wired *wired, const struct vb_packet *packet)
{
	struct vb_atomic op = { .write = true };
	uint64_t address, original;
	enum vb_reason reason = atomic_write_check(wired, packet, &address);

	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	memcpy(&op.swap, packet->payload, sizeof(op.swap));
	if (!atomic_apply(wired, packet, &op, address, &original))
		return;
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

	if (vb_responder_resources(&wired->resp) >=
	    atomic_load(&wired->qp->entry->max_dest_rd_atomic))
		reason = VB_WHY_READ_DEPTH;
	else
		reason = vb_flush_apply(memory->home, &memory->key_cache, memory->pd,
					memory->entry->qpn, &flush);
	if (reason) {
		vb_responder_refuse(wired, packet, reason);
		return;
	}
	vb_responder_executed(wired, packet, 1);
	empty_reply(wired, packet, false);
}

/* --- duplicates --- */

/*
 * The requester starts over: the rest of an answer that is still going out is useless. But a part
 * that ends before the answer does is all that was lost of it, and the rest is still wanted.
 */
static bool reply_restart(struct vb_responder *resp, struct vb_reply *reply)
{
	for (uint32_t i = resp->reply_head; i != resp->reply_tail; i++) {
		struct vb_reply *at = &resp->replies[i % VB_REPLIES];
		int32_t into = vb_psn_diff(reply->psn, at->psn);

		if (at->atomic || into < 0 || (uint32_t)into >= at->count)
			continue;
		if ((uint32_t)into + reply->count < at->count)
			return false;
		reply->repeated = at->repeated;
		reply->counts = at->counts;
		reply->counts_bytes = at->counts_bytes;
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
	enum vb_reason reason = VB_OK;
	uint64_t address;

	if (vb_qp_is_xrc(wired->qp) && vb_responder_aim(wired, memory, packet->srqn))
		return;
	/* The request was allowed once. If it is not any more, it gets no answer. */
	if (packet->dma_length > VB_MSG_MAX ||
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_READ))
		return;
	if (packet->dma_length)
		reason = vb_rkey_check(memory->home, &memory->key_cache, memory->pd,
				       memory->entry->qpn, packet->rkey, packet->va,
				       packet->dma_length, IBV_ACCESS_REMOTE_READ, &address);
	if (reason == VB_WHY_RKEY_INDIRECT)
		reason = vb_indirect_check(memory, packet->rkey, packet->va, packet->dma_length,
					   IBV_ACCESS_REMOTE_READ);
	if (reason)
		return;
	reply.repeated = true;
	/* A repeated request asks for no more than was executed before. */
	if (vb_psn_diff(vb_psn_add(packet->psn, reply.count), resp->expected_psn) > 0)
		return;
	if (!reply_restart(resp, &reply) && !vb_reply_push(resp, &reply))
		vb_roce_count(wired->roce, VB_PACKET_DROP_OVERFLOW);
	vb_roce_todo(wired);
}

static void atomic_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	const struct vb_responder *resp = &wired->resp;

	/* The search begins at the newest: PSNs wrap, and an old atomic may have the same PSN. */
	for (uint32_t i = 1; i <= VB_RD_ATOMIC_MAX; i++) {
		const struct vb_saved_atomic *saved =
			&resp->saved[(resp->saved_next - i) % VB_RD_ATOMIC_MAX];

		if (!saved->used || saved->psn != packet->psn || saved->opcode != packet->opcode)
			continue;
		if (!saved->width)
			atomic_reply(wired, packet->psn, saved->original, true);
		else if (saved->width == packet->dma_length)
			masked_reply(wired, packet, saved->answer, true);
		return;
	}
}

void vb_responder_answer(struct vb_wired *wired, const struct vb_packet *packet)
{
	switch ((enum vb_family)vb_opcode_row(packet->opcode)->family) {
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
	case VB_FAMILY_MASKED:
		masked_request(wired, packet);
		break;
	default:
		vb_responder_refuse(wired, packet, VB_WHY_OUT_OF_SEQUENCE);
	}
}

void vb_responder_answer_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	switch ((enum vb_family)vb_opcode_row(packet->opcode)->family) {
	case VB_FAMILY_READ_REQUEST:
		read_again(wired, packet);
		break;
	case VB_FAMILY_ATOMIC:
	case VB_FAMILY_MASKED:
		atomic_again(wired, packet);
		break;
	case VB_FAMILY_ATOMIC_WRITE: /* executed before; only the answer was lost */
	case VB_FAMILY_FLUSH:
		empty_reply(wired, packet, true);
		break;
	default:
		break;
	}
}
