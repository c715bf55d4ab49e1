/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a stream: QP, CQ, buffers, and the tables that the peer writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsocket/rsocket.h"

/* Receives beyond the credits, for messages that need no credit. */
enum { SPARE_RECEIVES = 2 * VB_RS_CONTROL_COUNT };

/* Untouched pages cost no memory. NULL: no memory. */
static uint8_t *map_pages(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

static size_t send_bytes(const struct vb_rs_stream *stream)
{
	return stream->send_size + VB_RS_CONTROL_COUNT * VB_RS_SGE_SIZE;
}

static size_t table_bytes(const struct vb_rs *rs)
{
	return VB_RS_SGL_COUNT * VB_RS_SGE_SIZE + rs->options.iomap_count * VB_RS_IOMAP_SIZE;
}

static int create_cq(struct vb_rs *rs)
{
	const struct vb_rs_options *options = &rs->options;

	rs->channel = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->channel)
		return -errno;
	if (fcntl(rs->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	rs->cq = ibv_create_cq(rs->id->verbs, options->sq_size + options->rq_size + SPARE_RECEIVES,
			       rs, rs->channel, 0);
	return rs->cq ? 0 : -errno;
}

static void limit_queues(struct vb_rs *rs)
{
	struct ibv_device_attr attr;
	uint16_t max;

	if (ibv_query_device(rs->id->verbs, &attr))
		return;
	max = attr.max_qp_wr > VB_RS_QUEUE_MAX ? VB_RS_QUEUE_MAX : (uint16_t)attr.max_qp_wr;
	if (rs->options.sq_size > max)
		rs->options.sq_size = max;
	if (rs->options.rq_size > max - SPARE_RECEIVES)
		rs->options.rq_size = (uint16_t)(max - SPARE_RECEIVES);
}

static int create_qp(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;
	struct ibv_qp_init_attr attr = {
		.qp_context = rs,
		.send_cq = rs->cq,
		.recv_cq = rs->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = rs->options.sq_size,
			 .max_recv_wr = rs->options.rq_size + SPARE_RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = rs->options.inline_size },
	};
	int result = rdma_create_qp(rs->id, NULL, &attr);

	/* Asking for more inline data than the device has must not fail. */
	while (result && errno == EINVAL && attr.cap.max_inline_data) {
		attr.cap.max_inline_data /= 2;
		result = rdma_create_qp(rs->id, NULL, &attr);
	}
	if (result)
		return -errno;
	stream->inline_size = attr.cap.max_inline_data;
	return 0;
}

static int create_buffers(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;
	const size_t recv_size = rs->options.receive_size & ~1u;

	stream->send_size = rs->options.send_size;
	stream->send_buffer = map_pages(send_bytes(stream));
	stream->recv_buffer = map_pages(recv_size);
	stream->table = map_pages(table_bytes(rs));
	if (!stream->send_buffer || !stream->recv_buffer || !stream->table)
		return -ENOMEM;
	stream->control_buffer = stream->send_buffer + stream->send_size;
	stream->send_mr = ibv_reg_mr(rs->id->pd, stream->send_buffer, send_bytes(stream),
				     IBV_ACCESS_LOCAL_WRITE);
	stream->recv_mr = ibv_reg_mr(rs->id->pd, stream->recv_buffer, recv_size,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	stream->table_mr = ibv_reg_mr(rs->id->pd, stream->table, table_bytes(rs),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return stream->send_mr && stream->recv_mr && stream->table_mr ? 0 : -errno;
}

static int post_first_receives(struct vb_rs *rs)
{
	for (int i = 0; i < rs->options.rq_size + SPARE_RECEIVES; i++) {
		struct ibv_recv_wr wr = { 0 }, *bad;
		int err = ibv_post_recv(rs->id->qp, &wr, &bad);

		if (err)
			return -err;
	}
	return 0;
}

int vb_rs_endpoint_create(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;
	int err;

	if (!stream) {
		stream = rs->stream = calloc(1, sizeof(*stream));
		if (!stream)
			return -ENOMEM;
	}
	vb_list_init(&stream->mappings);
	vb_list_init(&stream->keepalive_node);
	limit_queues(rs);
	err = create_cq(rs);
	err = err ? err : create_qp(rs);
	err = err ? err : create_buffers(rs);
	err = err ? err : post_first_receives(rs);
	if (err)
		return err;
	vb_rs_rx_init(&stream->rx, rs->options.receive_size & ~1u, rs->options.rq_size);
	stream->sq_free = rs->options.sq_size - VB_RS_CONTROL_COUNT;
	stream->control_free = VB_RS_CONTROL_COUNT;
	return 0;
}

void vb_rs_endpoint_describe(const struct vb_rs *rs, uint8_t bytes[VB_RS_CONN_SIZE])
{
	const struct vb_rs_stream *stream = rs->stream;
	const struct vb_rs_conn conn = {
		.big_endian = vb_rs_host_big_endian(),
		.credits = rs->options.rq_size,
		.iomap_count = rs->options.iomap_count,
		.sgl = { (uintptr_t)stream->table, stream->table_mr->rkey, VB_RS_SGL_COUNT },
		.data = { (uintptr_t)stream->recv_buffer, stream->recv_mr->rkey, stream->rx.half },
	};

	vb_rs_conn_emit(&conn, bytes);
}

void vb_rs_endpoint_start(struct vb_rs *rs, const struct vb_rs_conn *peer)
{
	struct vb_rs_stream *stream = rs->stream;

	stream->peer = *peer;
	stream->peer_slot = 1 % peer->sgl.length;
	vb_rs_tx_init(&stream->tx, peer);
}

static void unmap_pages(struct ibv_mr *mr, uint8_t *pages, size_t size)
{
	if (mr)
		ibv_dereg_mr(mr);
	if (pages)
		munmap(pages, size);
}

void vb_rs_endpoint_destroy(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;

	if (!stream)
		return;
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	/* All events that were taken are acknowledged, and no thread takes more. */
	if (rs->cq)
		ibv_destroy_cq(rs->cq);
	if (rs->channel)
		ibv_destroy_comp_channel(rs->channel);
	rs->cq = NULL;
	rs->channel = NULL;
	rs->armed = false;
	vb_rs_mappings_free(rs);
	unmap_pages(stream->send_mr, stream->send_buffer, send_bytes(stream));
	unmap_pages(stream->recv_mr, stream->recv_buffer, rs->options.receive_size & ~1u);
	unmap_pages(stream->table_mr, stream->table, table_bytes(rs));
	free(stream->mapping_used);
	free(stream);
	rs->stream = NULL;
}
