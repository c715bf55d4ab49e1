/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions, and the messages of flow control and shutdown. Under lock. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

enum { POLL_BATCH = 16 };

void vb_rs_break(struct vb_rs *rs, int error)
{
	if (rs->state != VB_RS_CONNECTED)
		return;
	rs->state = VB_RS_BROKEN;
	rs->error = error;
	vb_rs_notify(rs, NULL);
}

/* The peer breaks the protocol. The connection ends on both sides. */
static void violated(struct vb_rs *rs, const char *what)
{
	if (rs->state != VB_RS_CONNECTED)
		return;
	vb_explain_work("rsocket: QP %u: the peer's %s breaks the protocol; the connection ends",
			rs->id->qp->qp_num, what);
	vb_rs_break(rs, EPROTO);
	rdma_disconnect(rs->id);
}

int vb_rs_post(struct vb_rs *rs, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return -ibv_post_send(rs->id->qp, wr, &bad);
}

static int post_message(struct vb_rs *rs, uint32_t message, struct ibv_sge *sge,
			const struct vb_rs_sge *target)
{
	struct vb_rs_stream *stream = rs->stream;
	struct ibv_send_wr wr = {
		.wr_id = vb_rs_wr_id(VB_RS_WORK_CONTROL, 0),
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(message),
	};
	int err;

	if (sge) {
		wr.sg_list = sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = target->addr;
		wr.wr.rdma.rkey = target->key;
		if (sge->length <= stream->inline_size)
			wr.send_flags |= IBV_SEND_INLINE;
	}
	stream->control_free--;
	stream->posted++;
	err = vb_rs_post(rs, &wr);
	if (err) {
		stream->control_free++;
		stream->posted--;
		vb_rs_break(rs, -err);
	}
	return err;
}

int vb_rs_post_control(struct vb_rs *rs, enum vb_rs_control control)
{
	if (!rs->stream->control_free)
		return -EAGAIN;
	return post_message(rs, vb_rs_message(VB_RS_CONTROL, control), NULL, NULL);
}

bool vb_rs_all_sent(struct vb_rs *rs)
{
	return rs->state != VB_RS_CONNECTED || !rs->stream->posted;
}

static void post_grant(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;
	const struct vb_rs_grant grant = vb_rs_rx_grant(&stream->rx);
	const uint32_t message = vb_rs_message(VB_RS_SGL, grant.operand);
	uint8_t *entry = stream->control_buffer + stream->control_next * VB_RS_SGE_SIZE;
	struct ibv_sge sge = { (uintptr_t)entry, VB_RS_SGE_SIZE, stream->send_mr->lkey };
	struct vb_rs_sge window = { .key = stream->recv_mr->rkey, .length = stream->rx.half };
	struct vb_rs_sge slot = stream->peer.sgl;

	if (!grant.has_window) {
		post_message(rs, message, NULL, NULL);
		return;
	}
	window.addr = (uintptr_t)stream->recv_buffer + grant.offset;
	vb_rs_sge_emit(&window, stream->peer.big_endian, entry);
	stream->control_next = (stream->control_next + 1) % VB_RS_CONTROL_COUNT;
	slot.addr += (uint64_t)stream->peer_slot * VB_RS_SGE_SIZE;
	stream->peer_slot = (stream->peer_slot + 1) % stream->peer.sgl.length;
	post_message(rs, message, &sge, &slot);
}

static void on_control(struct vb_rs *rs, uint32_t operand)
{
	switch (operand) {
	case VB_RS_DISCONNECT:
		rs->peer_shut = true;
		rs->state = VB_RS_DISCONNECTED;
		vb_rs_notify(rs, NULL);
		break;
	case VB_RS_SHUTDOWN:
		/* The state stays CONNECTED: this side may still have data or a message to send. */
		rs->peer_shut = true;
		vb_rs_notify(rs, NULL);
		break;
	case VB_RS_KEEPALIVE:
	default: /* a control message of a later version */
		break;
	}
}

static void on_message(struct vb_rs *rs, uint32_t message)
{
	struct vb_rs_stream *stream = rs->stream;
	const uint32_t operand = vb_rs_message_operand(message);

	switch (vb_rs_message_op(message)) {
	case VB_RS_DATA:
		if (vb_rs_rx_data(&stream->rx, operand))
			violated(rs, "message about data");
		return;
	case VB_RS_SGL:
		if (vb_rs_tx_grant(&stream->tx, operand, stream->table, vb_rs_host_big_endian()))
			violated(rs, "grant of credits or buffers");
		return;
	case VB_RS_IOMAP:
		if (operand >= rs->options.iomap_count || vb_rs_rx_message(&stream->rx))
			violated(rs, "message about a mapping");
		return;
	case VB_RS_CONTROL:
		on_control(rs, operand);
		return;
	}
	violated(rs, "message");
}

static void on_receive(struct vb_rs *rs, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		vb_rs_break(rs, ECONNRESET);
		return;
	}
	rs->stream->receives++;
	if (rs->state != VB_RS_CONNECTED)
		return;
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		on_message(rs, ntohl(wc->imm_data));
	else
		violated(rs, "message without immediate data");
}

static void on_sent(struct vb_rs *rs, const struct ibv_wc *wc)
{
	struct vb_rs_stream *stream = rs->stream;

	stream->posted--;
	if (wc->wr_id >> 32 == VB_RS_WORK_CONTROL) {
		stream->control_free++;
	} else {
		stream->sq_free++;
		stream->send_used -= (uint32_t)wc->wr_id;
	}
	if (wc->status != IBV_WC_SUCCESS)
		vb_rs_break(rs, ECONNRESET);
}

static void poll_cq(struct vb_rs *rs)
{
	struct ibv_wc wc[POLL_BATCH];
	int count;

	do {
		count = ibv_poll_cq(rs->cq, POLL_BATCH, wc);
		for (int i = 0; i < count; i++) {
			if (wc[i].wr_id >> 32 == VB_RS_WORK_RECEIVE)
				on_receive(rs, &wc[i]);
			else
				on_sent(rs, &wc[i]);
		}
	} while (count == POLL_BATCH);
	if (count < 0)
		vb_rs_break(rs, EIO);
}

static void post_receives(struct vb_rs *rs)
{
	struct ibv_recv_wr wr[POLL_BATCH], *bad;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < POLL_BATCH; i++)
		wr[i].next = i + 1 < POLL_BATCH ? &wr[i + 1] : NULL;
	while (rs->stream->receives && rs->state == VB_RS_CONNECTED) {
		const uint32_t count =
			rs->stream->receives < POLL_BATCH ? rs->stream->receives : POLL_BATCH;

		wr[count - 1].next = NULL;
		if (ibv_post_recv(rs->id->qp, wr, &bad)) {
			vb_rs_break(rs, EIO);
			return;
		}
		rs->stream->receives -= count;
	}
}

void vb_rs_progress(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;

	if (!vb_rs_polls_cq(rs))
		return;
	if (rs->type == SOCK_DGRAM) {
		vb_rs_datagram_progress(rs);
		return;
	}
	poll_cq(rs);
	if (stream->receives)
		post_receives(rs);
	if (vb_rs_rx_grant_due(&stream->rx) && stream->control_free &&
	    rs->state == VB_RS_CONNECTED && !rs->peer_shut && !stream->said_disconnect)
		post_grant(rs);
}
