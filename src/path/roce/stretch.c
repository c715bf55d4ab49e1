/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/stretch.h"

#include "exec/rkey.h"
#include "nic/odp.h"
#include "path/roce/completer.h"

static uint32_t lower(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* --- WRITE --- */

/* True: the next packet of the message is no repetition, and no gap was before it. */
static bool is_in_order(const struct vb_responder *resp)
{
	return !resp->fatal && resp->told && !resp->nak_due && !resp->nak_sent && !resp->rnr_sent &&
	       !resp->behind && !resp->reorder.size && !resp->lateness.ns;
}

static void begin_write(struct vb_stretch *stretch, uint32_t most)
{
	struct vb_wired *wired = stretch->wired;
	struct vb_responder *resp = &wired->resp;
	struct vb_remote *own = &resp->own;
	uint64_t address;
	uint32_t count;

	if (resp->family != VB_FAMILY_WRITE || !is_in_order(resp) || !resp->bound ||
	    !own->home->self || resp->offset + wired->mtu >= resp->length ||
	    !(atomic_load(&wired->qp->entry->access) & IBV_ACCESS_REMOTE_WRITE))
		return;
	count = lower(most, (resp->length - resp->offset - 1) / wired->mtu);
	if (vb_rkey_check(own->home, &own->key_cache, own->pd, own->entry->qpn, resp->rkey,
			  resp->va + resp->offset, (uint64_t)count * wired->mtu,
			  IBV_ACCESS_REMOTE_WRITE, &address))
		return;
	stretch->to = (uint8_t *)(uintptr_t)address;
	stretch->psn = resp->expected_psn;
	stretch->left = count;
}

static bool take_write(struct vb_stretch *stretch, const struct vb_packet *packet)
{
	struct vb_wired *wired = stretch->wired;
	struct vb_responder *resp = &wired->resp;

	if (!vb_path_copy_ordered(stretch->to, packet->payload, wired->mtu))
		return false;
	stretch->to += wired->mtu;
	resp->offset += wired->mtu;
	resp->expected_psn = vb_psn_add(packet->psn, 1);
	resp->ack_psn = packet->psn;
	resp->ack_msn = resp->msn;
	if (packet->ack_request)
		vb_roce_todo_ack(wired);
	return true;
}

/* --- the answer to a READ --- */

/* True: una_psn waits for an ordinary answer, and no later one has come. */
static bool awaits_in_order(const struct vb_requester *req, const struct vb_wqe *wqe)
{
	return vb_wr_row(wqe->opcode)->family == VB_FAMILY_READ_REQUEST && wqe->psn_count > 1 &&
	       vb_psn_diff(req->una_psn, wqe->psn) > 0 && !req->answers.count && !req->probing &&
	       !req->rnr_cautious && !req->doubted && !req->parts_due;
}

static void begin_read(struct vb_stretch *stretch, uint32_t most)
{
	struct vb_wired *wired = stretch->wired;
	const struct vb_requester *req = &wired->req;
	const struct vb_sq *sq = &wired->qp->sq;
	const struct vb_wqe *wqe = vb_sq_wqe(sq, sq->next);
	struct vb_report report;
	uint32_t at, asked;

	if (sq->next == req->begun || !wqe->psn_count || !awaits_in_order(req, wqe))
		return;
	at = (uint32_t)vb_psn_diff(req->una_psn, wqe->psn);
	asked = (uint32_t)vb_psn_diff(req->sent_psn, req->una_psn);
	if (at + 1 >= wqe->psn_count ||
	    vb_path_check_sges(wired->qp, wqe, IBV_ACCESS_LOCAL_WRITE, stretch->sge,
			       &stretch->sge_count, &report))
		return;
	stretch->offset = (uint64_t)at * wired->mtu;
	stretch->psn = req->una_psn;
	stretch->left = lower(most, lower(wqe->psn_count - 1 - at, asked));
}

static bool take_read(struct vb_stretch *stretch, const struct vb_packet *packet)
{
	const uint32_t mtu = stretch->wired->mtu;

	if (!vb_path_scatter(stretch->sge, stretch->sge_count, stretch->offset, mtu,
			     packet->payload))
		return false;
	stretch->offset += mtu;
	return true;
}

/* una_psn moves once for all of them. */
static void end_read(const struct vb_stretch *stretch)
{
	struct vb_requester *req = &stretch->wired->req;

	req->una_psn = stretch->psn;
	if (vb_psn_diff(req->acked_psn, req->una_psn) < 0)
		req->acked_psn = req->una_psn;
	vb_completer_progressed(stretch->wired, stretch->taken);
}

/* --- both --- */

void vb_stretch_begin(struct vb_stretch *stretch, struct vb_wired *wired,
		      const struct vb_packet *like, uint32_t most)
{
	const enum vb_family family = vb_opcode_row(like->opcode)->family;
	const enum ibv_qp_state state = vb_gate_state(stretch->gate = vb_qp_gate(wired->qp));

	stretch->wired = wired;
	stretch->left = stretch->taken = 0;
	stretch->answers = family == VB_FAMILY_READ_RESPONSE;
	if (most < 2 || wired->qp->type != IBV_QPT_RC || like->payload_length != wired->mtu)
		return;
	if (stretch->answers && (state == IBV_QPS_RTS || state == IBV_QPS_SQD))
		begin_read(stretch, most);
	else if (family == VB_FAMILY_WRITE && (state == IBV_QPS_RTR || state == IBV_QPS_RTS))
		begin_write(stretch, most);
}

bool vb_stretch_take(struct vb_stretch *stretch, const struct vb_packet *packet)
{
	if (!stretch->left || packet->psn != stretch->psn ||
	    vb_qp_gate(stretch->wired->qp) != stretch->gate ||
	    !(stretch->answers ? take_read(stretch, packet) : take_write(stretch, packet)))
		return false;
	stretch->psn = vb_psn_add(stretch->psn, 1);
	stretch->left--;
	stretch->taken++;
	return true;
}

void vb_stretch_end(struct vb_stretch *stretch)
{
	if (stretch->answers && stretch->taken)
		end_read(stretch);
	stretch->left = stretch->taken = 0;
}
