/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending a stream: bytes are copied into the send buffer, and from there into the peer's window.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/cancel.h"
#include "rsocket/cursor.h"
#include "rsocket/rsocket.h"

enum {
	LOW_WATER = 2048,   /* bytes of the send buffer; less room is not worth a wake-up */
	FIRST_PIECE = 2048, /* of a long send: with a small piece the peer begins early */
	LARGEST_PIECE = 65536,
	INLINE_MAX = 512,
};

bool vb_rs_can_send(struct vb_rs *rs)
{
	const struct vb_rs_stream *stream = rs->stream;
	const uint32_t low = stream->send_size / 2 < LOW_WATER ? stream->send_size / 2 : LOW_WATER;

	return stream->sq_free && stream->send_size - stream->send_used >= low &&
	       vb_rs_tx_room(&stream->tx);
}

static bool send_decided(struct vb_rs *rs)
{
	return rs->state != VB_RS_CONNECTED || rs->write_shut || rs->closed || vb_rs_can_send(rs);
}

/* 0, or the error of a send. */
static int send_error(struct vb_rs *rs)
{
	int error;

	if (rs->closed)
		return -EBADF;
	switch (rs->state) {
	case VB_RS_CONNECTED:
		return rs->write_shut ? -EPIPE : 0;
	case VB_RS_DISCONNECTED:
		if (rs->write_shut || rs->reset_told)
			return -EPIPE;
		rs->reset_told = true;
		return -ECONNRESET;
	case VB_RS_FAILED:
	case VB_RS_BROKEN:
		error = rs->error;
		rs->error = 0;
		return error ? -error : -EPIPE;
	case VB_RS_RESOLVING:
	case VB_RS_CONNECTING:
	case VB_RS_ACCEPTING:
		return -EAGAIN;
	case VB_RS_INIT:
	case VB_RS_BOUND:
	case VB_RS_LISTENING:
		break;
	}
	return -ENOTCONN;
}

/* The next message. */
struct piece {
	uint32_t size;
	bool is_inline;
	uint8_t *buffer; /* in the send buffer, unless inline */
	struct vb_rs_sge target;
};

static uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Takes a work request, a credit, and room in the window and in the send buffer. */
static struct piece reserve_piece(struct vb_rs *rs, size_t left, uint32_t size_max)
{
	struct vb_rs_stream *stream = rs->stream;
	const uint32_t contiguous = stream->send_size - stream->send_head;
	struct piece piece = { .size = left < size_max ? (uint32_t)left : size_max };

	piece.size = min(piece.size, vb_rs_tx_room(&stream->tx));
	piece.is_inline = piece.size <= min(stream->inline_size, INLINE_MAX);
	if (!piece.is_inline) {
		piece.size = min(piece.size, stream->send_size - stream->send_used);
		piece.size = min(piece.size, contiguous);
		piece.buffer = stream->send_buffer + stream->send_head;
		stream->send_used += piece.size;
		stream->send_head = (stream->send_head + piece.size) % stream->send_size;
	}
	stream->sq_free--;
	stream->posted++;
	piece.target = vb_rs_tx_take(&stream->tx, piece.size);
	return piece;
}

/* Without the lock: only the sending thread posts data, so pieces stay in order. */
static int post_piece(struct vb_rs *rs, const struct piece *piece, struct vb_cursor *from)
{
	uint8_t small[INLINE_MAX];
	uint8_t *bytes = piece->is_inline ? small : piece->buffer;
	struct ibv_sge sge = { (uintptr_t)bytes, piece->size, rs->stream->send_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = vb_rs_wr_id(VB_RS_WORK_DATA, piece->is_inline ? 0 : piece->size),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | (piece->is_inline ? IBV_SEND_INLINE : 0),
		.imm_data = htonl(vb_rs_message(VB_RS_DATA, piece->size)),
		.wr.rdma = { piece->target.addr, piece->target.key },
	};

	vb_cursor_read(from, bytes, piece->size);
	return vb_rs_post(rs, &wr);
}

/* Under lock, by the sending thread. */
static ssize_t send_stream(struct vb_rs *rs, struct vb_cursor *from, uint64_t deadline_ns)
{
	const size_t total = from->left;
	uint32_t size_max = FIRST_PIECE;
	int err = 0;

	while (from->left && !err) {
		struct piece piece;

		err = send_error(rs);
		if (!err && !vb_rs_can_send(rs)) {
			err = vb_rs_wait_in(rs, &rs->out, send_decided, deadline_ns);
			err = err ? err : send_error(rs);
		}
		if (err)
			break;
		piece = reserve_piece(rs, from->left, size_max);
		pthread_mutex_unlock(&rs->lock);
		err = post_piece(rs, &piece, from);
		pthread_mutex_lock(&rs->lock);
		if (err)
			vb_rs_break(rs, -err);
		if (size_max < LARGEST_PIECE)
			size_max *= 2;
	}
	return from->left < total ? (ssize_t)(total - from->left) : err;
}

/* Under lock, by the sending thread. */
static ssize_t send_whole(struct vb_rs *rs, struct vb_cursor *from, uint64_t deadline_ns)
{
	ssize_t result = vb_rs_wait_in(rs, &rs->out, vb_rs_connect_decided, deadline_ns);

	if (!result)
		result = send_error(rs);
	if (!result)
		result = vb_rs_announce_mappings(rs, deadline_ns);
	return result ? result : send_stream(rs, from, deadline_ns);
}

ssize_t vb_rs_sendv(struct vb_rs *rs, const struct iovec *iov, int count, int flags)
{
	struct vb_cursor from;
	struct vb_undo undo;
	uint64_t deadline_ns;
	ssize_t result = vb_cursor_init(&from, iov, count);

	if (result)
		return result;
	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	vb_rs_lock(rs);
	deadline_ns =
		vb_rs_deadline(rs->nonblock || (flags & MSG_DONTWAIT), rs->options.send_timeout_ns);
	result = vb_rs_begin(rs, &rs->out, deadline_ns);
	if (!result) {
		vb_undo_push(&undo, vb_rs_undo_out, rs);
		result = send_whole(rs, &from, deadline_ns);
		vb_undo_pop(&undo);
		vb_rs_end(rs, &rs->out);
	}
	pthread_mutex_unlock(&rs->lock);
	return result;
}
