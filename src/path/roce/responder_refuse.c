/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that the responder of RC refuses for good (the QP fails), or for now. */
#include <stdio.h>

#include "abi/flush.h"
#include "base/config.h"
#include "exec/served.h"
#include "net/gid.h"
#include "nic/far_words.h"
#include "nic/key_words.h"
#include "nic/tm.h"
#include "path/roce/responder.h"

void vb_responder_nak(struct vb_wired *wired, uint8_t syndrome, uint32_t psn)
{
	wired->resp.nak_due = syndrome;
	wired->resp.nak_psn = psn;
	vb_roce_todo(wired);
}

uint32_t vb_responder_resources(const struct vb_responder *resp)
{
	uint32_t used = 0;

	for (uint32_t i = resp->reply_head; i != resp->reply_tail; i++)
		used += !resp->replies[i % VB_REPLIES].repeated;
	return used;
}

/* The room of the receive that the message under way goes into. */
static uint32_t receive_room(const struct vb_remote *own)
{
	uint32_t index = own->many ? own->taken : own->next_recv;

	return own->cells[index & own->mask].posted_length;
}

static void report_fill(const struct vb_wired *wired, const struct vb_packet *packet,
			struct vb_report *report)
{
	const struct vb_responder *resp = &wired->resp;

	switch (report->reason) {
	case VB_WHY_RECV_SHORT:
		report->length = (uint64_t)resp->offset + packet->payload_length;
		report->have = resp->tm.tag ? resp->tm.tag->length : receive_room(&resp->own);
		break;
	case VB_WHY_RECV_KEY:
		report->want = resp->own.many ? resp->own.taken : resp->own.next_recv;
		break;
	case VB_WHY_READ_DEPTH:
		report->want = vb_responder_resources(resp) + 1;
		report->have = atomic_load(&wired->qp->entry->max_dest_rd_atomic);
		break;
	case VB_WHY_SRQ_UNKNOWN:
	case VB_WHY_SRQ_DOMAIN:
		report->have = packet->srqn;
		break;
	case VB_WHY_MASKED_ALIGN:
		report->want = packet->dma_length;
		break;
	case VB_WHY_PACKET_LENGTH:
		report->length = packet->payload_length;
		report->want = wired->mtu;
		break;
	default:
		break;
	}
}

static const struct {
	const char *name;
	unsigned access; /* that it needs at the target */
} requests[] = {
	[VB_FAMILY_SEND] = { "SEND", 0 },
	[VB_FAMILY_WRITE] = { "WRITE", IBV_ACCESS_REMOTE_WRITE },
	[VB_FAMILY_READ_REQUEST] = { "READ", IBV_ACCESS_REMOTE_READ },
	[VB_FAMILY_ATOMIC] = { "ATOMIC", IBV_ACCESS_REMOTE_ATOMIC },
	[VB_FAMILY_FLUSH] = { "FLUSH", IBV_ACCESS_FLUSH_GLOBAL },
	[VB_FAMILY_ATOMIC_WRITE] = { "ATOMIC_WRITE", IBV_ACCESS_REMOTE_WRITE },
	[VB_FAMILY_CNP] = { NULL, 0 },
	[VB_FAMILY_MASKED] = { "extended ATOMIC", IBV_ACCESS_REMOTE_ATOMIC },
};

void vb_responder_explain(const struct vb_wired *wired, const struct vb_remote *target,
			  enum vb_family family, const struct vb_report *report)
{
	char sentence[VB_PATH_WORDS], peer[VB_FAR_WORDS] = "";
	struct vb_report_words words = { .peer = peer, .request = requests[family].name };

	if (vb_config_explain())
		vb_far_words(wired->qp, NULL, peer);
	if (vb_path_words(target, report, requests[family].access, sentence))
		words.sentence = sentence;
	vb_report_refusal(report, &words);
}

static struct vb_report packet_report(const struct vb_wired *wired, const struct vb_packet *packet,
				      enum vb_reason reason)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);

	return (struct vb_report){
		.reason = reason,
		.qpn = wired->qp->attr.dest_qp_num,
		.peer_qpn = wired->qp->ibv.qp_num,
		.key = row->headers & VB_HEADER_IETH ? packet->invalidate_rkey : packet->rkey,
		.addr = packet->va,
		.length = row->family == VB_FAMILY_ATOMIC ? 8
			  : row->headers & VB_HEADER_RETH ? packet->dma_length
							  : packet->payload_length,
	};
}

static void refusal_explain(const struct vb_wired *wired, const struct vb_packet *packet,
			    enum vb_reason reason)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_report report = packet_report(wired, packet, reason);

	report_fill(wired, packet, &report);
	vb_responder_explain(wired,
			     vb_qp_is_xrc(wired->qp) && row->family != VB_FAMILY_SEND &&
					     row->family != VB_FAMILY_WRITE
				     ? &wired->resp.answers
				     : &wired->resp.own,
			     row->family, &report);
}

/* Of a datagram: the process that has sent it to the socket of this one, or the host. */
static const char *source_words(const struct vb_arrival *arrival, char text[VB_FAR_WORDS])
{
	const union ibv_gid src = vb_flow_gid(arrival->flow, arrival->flow->src);
	char gid[VB_GID_TEXT];

	vb_peer_words(arrival->peer, text);
	if (!*text)
		snprintf(text, VB_FAR_WORDS, " (at %s)", vb_gid_print(&src, gid));
	return text;
}

void vb_responder_explain_drop(struct vb_wired *wired, const struct vb_packet *packet,
			       const struct vb_arrival *arrival, enum vb_reason reason,
			       uint64_t have)
{
	struct vb_report report = packet_report(wired, packet, reason);
	char peer[VB_FAR_WORDS];
	const struct vb_report_words words = {
		.sentence = reason == VB_WHY_DROP_SHORT ? VB_DATAGRAM_SHORT : NULL,
		.peer = peer,
		.request = "datagram",
	};

	if (!vb_config_explain() || wired->resp.drops_told[reason])
		return;
	wired->resp.drops_told[reason] = true;
	if (!arrival) {
		report_fill(wired, packet, &report);
		vb_responder_explain(wired, &wired->resp.own, vb_opcode_row(packet->opcode)->family,
				     &report);
		return;
	}
	report.qpn = packet->src_qpn;
	report.have = have;
	report.want = packet->qkey;
	source_words(arrival, peer);
	vb_report_refusal(&report, &words);
}

static void refusal_count(struct vb_wired *wired, enum vb_family family)
{
	if (family == VB_FAMILY_READ_REQUEST)
		vb_served_refused(wired->qp->entry, wired->qp->lent, VB_SERVED_READ);
	else if (family == VB_FAMILY_WRITE)
		vb_served_refused(wired->qp->entry, wired->qp->lent, VB_SERVED_WRITE);
}

void vb_responder_refuse(struct vb_wired *wired, const struct vb_packet *packet,
			 enum vb_reason reason)
{
	const struct vb_opcode_row *row = vb_opcode_row(packet->opcode);
	struct vb_responder *resp = &wired->resp;
	bool consumes = row->family == VB_FAMILY_SEND || row->headers & VB_HEADER_IMM;

	resp->fatal = reason;
	resp->fatal_spoils = consumes;
	refusal_count(wired, row->family);
	refusal_explain(wired, packet, reason);
	vb_responder_nak(wired, vb_reason_row(reason)->syndrome, packet->psn);
}

void vb_responder_fail_behind(struct vb_wired *wired, const struct vb_packet *packet,
			      enum vb_reason reason)
{
	struct vb_responder *resp = &wired->resp;

	resp->fatal = reason;
	resp->fatal_spoils = true;
	refusal_explain(wired, packet, reason);
	vb_responder_executed(wired, packet, 1);
	vb_roce_todo_ack(wired);
}

/* A NAK acknowledges SENDs and WRITEs before it. READs before it stay without an answer. */
void vb_responder_refuse_again(struct vb_wired *wired, const struct vb_packet *packet)
{
	const enum vb_family family = vb_opcode_row(packet->opcode)->family;
	const struct vb_responder *resp = &wired->resp;
	const uint8_t syndrome = vb_reason_row(resp->fatal)->syndrome;
	int32_t ahead = vb_psn_diff(packet->psn, syndrome ? resp->nak_psn : resp->ack_psn);

	if (!resp->fatal_told || ahead > 0 ||
	    (ahead && family != VB_FAMILY_SEND && family != VB_FAMILY_WRITE))
		return;
	if (syndrome)
		vb_responder_nak(wired, syndrome, resp->nak_psn);
	else
		vb_roce_todo_ack(wired);
}

void vb_responder_not_ready(struct vb_wired *wired, const struct vb_packet *packet)
{
	wired->resp.rnr_sent = true;
	wired->counters.rnr_sent++;
	vb_responder_nak(
		wired,
		(uint8_t)(VB_SYNDROME_RNR | (wired->qp->attr.min_rnr_timer & VB_SYNDROME_VALUE)),
		packet->psn);
}

void vb_responder_postpone(struct vb_wired *wired)
{
	wired->resp.nak_sent = true;
}
