/* SPDX-License-Identifier: BSD-2-Clause */
/* The receive that a frame goes into. */
#include <arpa/inet.h>
#include <linux/if_ether.h>

#include "exec/recv.h"
#include "path/raw/raw.h"

static void frame_drop(struct vb_qp *qp)
{
	atomic_fetch_add_explicit(&qp->lent->dropped, 1, memory_order_relaxed);
}

/* A frame as the receive gets it, in pieces: the tag may be cut out and the FCS appended. */
struct pieces {
	struct {
		const uint8_t *at;
		uint32_t length;
	} piece[3];
	unsigned count;
	uint32_t length;
	uint16_t tag; /* the tag that was cut out */
	uint8_t fcs[VB_FCS];
};

static void piece_add(struct pieces *pieces, const uint8_t *at, uint32_t length)
{
	pieces->piece[pieces->count].at = at;
	pieces->piece[pieces->count++].length = length;
	pieces->length += length;
}

/* True: the outer tag is a customer's (802.1Q). */
static bool has_customer_tag(const struct vb_frame *frame)
{
	return frame->headers.key.tagged && frame->at[VB_VLAN_OFFSET] == ETH_P_8021Q >> 8 &&
	       frame->at[VB_VLAN_OFFSET + 1] == (ETH_P_8021Q & 0xff);
}

static void frame_cut(struct pieces *pieces, const struct vb_frame *frame, uint32_t flags)
{
	uint32_t from = 0;

	pieces->count = pieces->length = pieces->tag = 0;
	if (flags & VB_RAW_STRIP_VLAN && has_customer_tag(frame)) {
		piece_add(pieces, frame->at, VB_VLAN_OFFSET);
		pieces->tag = ntohs(frame->headers.key.vlan_tag);
		from = VB_VLAN_OFFSET + VB_VLAN_TAG;
	}
	piece_add(pieces, frame->at + from, frame->length - from);
	if (flags & VB_RAW_KEEP_FCS) {
		vb_frame_fcs(frame, pieces->fcs);
		piece_add(pieces, pieces->fcs, VB_FCS);
	}
}

static void receive_fill(struct vb_remote *own, const struct vb_claim *claim,
			 const struct pieces *pieces, const struct vb_message *message)
{
	const struct vb_recv_sges *list = vb_recv_sges(own, claim);
	unsigned count = vb_recv_sge_count(own, list);
	enum vb_reason reason;
	uint32_t offset = 0;
	bool lost;

	for (unsigned i = 0; i < pieces->count; offset += pieces->piece[i++].length)
		vb_path_scatter(list->sge, count, offset, pieces->piece[i].length,
				pieces->piece[i].at);
	claim->cell->where = VB_PAYLOAD_PLACED;
	reason = vb_recv_complete(own, claim, message, VB_OK, &lost);
	if (reason)
		vb_target_fail(own, reason, false);
}

/* Called inside a hazard that names this process. False: the frame is dropped. */
static bool frame_place(struct vb_qp *qp, const struct pieces *pieces,
			const struct vb_message *message)
{
	struct vb_remote own = { .peer = qp->nic->self, .entry = qp->entry };
	struct vb_claim claim = { .fit = pieces->length };
	bool lost;

	if (!vb_gate_open(vb_qp_gate(qp)) || !vb_recv_resolve(&own) || own.rq_version & 1 ||
	    !vb_recv_claim(&own, &claim) || claim.too_short)
		return false;
	if (vb_recv_check(&own, &claim, pieces->length, false)) {
		vb_recv_complete(&own, &claim, message, VB_WHY_RECV_KEY, &lost);
		vb_target_fail(&own, VB_WHY_RECV_KEY, true);
		return false;
	}
	receive_fill(&own, &claim, pieces, message);
	return true;
}

static struct vb_qp *queue_pick(struct vb_qp *qp, const struct vb_frame *frame)
{
	const struct vb_raw_qp *raw = qp->raw;
	uint32_t hash;

	if (!raw->table)
		return qp;
	hash = vb_frame_hash(frame, raw->hash_fields, raw->hash_key);
	return raw->table->wqs[hash & (raw->table->size - 1)]->qp;
}

void vb_raw_place(struct vb_thread *thread, struct vb_qp *qp, const struct vb_frame *frame,
		  uint32_t tag, uint8_t wc_flags)
{
	struct vb_message message = {
		.imm = tag,
		.wc_opcode = IBV_WC_RECV & 0xff,
		.wc_flags = wc_flags,
	};
	struct pieces pieces;

	qp = queue_pick(qp, frame);
	frame_cut(&pieces, frame, atomic_load_explicit(&qp->raw_flags, memory_order_relaxed));
	message.length = pieces.length;
	message.slid = pieces.tag;
	vb_hazard_enter(thread, qp->nic->self->head_slot);
	if (!frame_place(qp, &pieces, &message))
		frame_drop(qp);
	vb_hazard_leave(thread);
}
