/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct placement. riomap registers memory that the peer may write, under an offset. The peer has
 * a table of such mappings, and this side writes an entry of it before its next data. riowrite is
 * the other direction: it finds the offset in the own table, which the peer has written.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cancel.h"
#include "rsocket/rsocket.h"

enum { PIECE_MAX = 65536 };

/* A free index in the peer's table, or -ENOSPC. */
static int take_index(struct vb_rs *rs)
{
	struct vb_rs_stream *stream = rs->stream;

	if (!stream->mapping_used)
		stream->mapping_used = calloc(stream->peer.iomap_count + 1u, 1);
	if (!stream->mapping_used)
		return -ENOMEM;
	for (int i = 0; i < stream->peer.iomap_count; i++) {
		if (!stream->mapping_used[i]) {
			stream->mapping_used[i] = 1;
			return i;
		}
	}
	return -ENOSPC;
}

static void mapping_free(struct vb_rs *rs, struct vb_rs_mapping *mapping)
{
	if (mapping->mr)
		ibv_dereg_mr(mapping->mr);
	if (mapping->index >= 0)
		rs->stream->mapping_used[mapping->index] = 0;
	vb_list_remove(&mapping->node);
	free(mapping);
}

void vb_rs_mappings_free(struct vb_rs *rs)
{
	vb_list_for(mapping, &rs->stream->mappings, struct vb_rs_mapping, node) {
		mapping_free(rs, mapping);
	}
}

static int map_buffer(struct vb_rs *rs, void *buffer, size_t size, bool remote, uint64_t offset)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct vb_rs_mapping *mapping = calloc(1, sizeof(*mapping));
	int err = 0;

	if (!mapping)
		return -ENOMEM;
	vb_list_append(&rs->stream->mappings, &mapping->node);
	mapping->offset = offset;
	mapping->index = -1;
	mapping->announced = !remote;
	mapping->mr = ibv_reg_mr(rs->id->pd, buffer, size, access);
	if (!mapping->mr)
		err = -errno;
	if (!err && remote) {
		mapping->index = take_index(rs);
		err = mapping->index < 0 ? mapping->index : 0;
	}
	if (err)
		mapping_free(rs, mapping);
	return err;
}

off_t vb_rs_iomap(struct vb_rs *rs, void *buffer, size_t size, int prot, int flags, off_t offset)
{
	int err;

	(void)flags; /* no flags are defined */
	if ((prot & ~PROT_WRITE) || !size || size > UINT32_MAX || offset < -1)
		return -EINVAL;
	if (offset == -1)
		offset = (off_t)(uintptr_t)buffer;
	pthread_mutex_lock(&rs->lock);
	err = rs->state == VB_RS_CONNECTED
		      ? map_buffer(rs, buffer, size, prot & PROT_WRITE, (uint64_t)offset)
		      : -ENOTCONN;
	pthread_mutex_unlock(&rs->lock);
	return err ? err : offset;
}

static struct vb_rs_mapping *find_buffer(struct vb_rs *rs, const void *buffer, size_t size)
{
	vb_list_for(mapping, &rs->stream->mappings, struct vb_rs_mapping, node) {
		if (mapping->mr && mapping->mr->addr == buffer && mapping->mr->length == size)
			return mapping;
	}
	return NULL;
}

int vb_rs_iounmap(struct vb_rs *rs, void *buffer, size_t size)
{
	struct vb_rs_mapping *mapping;
	int err = 0;

	pthread_mutex_lock(&rs->lock);
	mapping = rs->stream ? find_buffer(rs, buffer, size) : NULL;
	if (!mapping) {
		err = -EINVAL;
	} else if (mapping->index >= 0 && mapping->announced) {
		/* Writes of the peer fail from now on. The next data bring it the new entry. */
		ibv_dereg_mr(mapping->mr);
		mapping->mr = NULL;
		mapping->announced = false;
	} else {
		mapping_free(rs, mapping);
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}

/* --- telling the peer --- */

/* An entry must be contiguous: bytes at the end of the ring that are too few are skipped. */
static uint32_t short_end(const struct vb_rs_stream *stream)
{
	const uint32_t end = stream->send_size - stream->send_head;

	return end < VB_RS_IOMAP_SIZE ? end : 0;
}

static bool announce_decided(struct vb_rs *rs)
{
	const struct vb_rs_stream *stream = rs->stream;

	return rs->state != VB_RS_CONNECTED || rs->write_shut || rs->closed ||
	       (stream->sq_free && vb_rs_tx_has_credit(&stream->tx) &&
		stream->send_size - stream->send_used >= VB_RS_IOMAP_SIZE + short_end(stream));
}

static int post_entry(struct vb_rs *rs, const struct vb_rs_mapping *mapping)
{
	struct vb_rs_stream *stream = rs->stream;
	const uint32_t skipped = short_end(stream);
	const uint32_t head = skipped ? 0 : stream->send_head;
	uint8_t *bytes = stream->send_buffer + head;
	struct ibv_sge sge = { (uintptr_t)bytes, VB_RS_IOMAP_SIZE, stream->send_mr->lkey };
	struct vb_rs_iomap entry = { .offset = mapping->offset };
	struct ibv_send_wr wr = {
		.wr_id = vb_rs_wr_id(VB_RS_WORK_DATA, VB_RS_IOMAP_SIZE + skipped),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(vb_rs_message(VB_RS_IOMAP, (uint32_t)mapping->index)),
	};

	if (mapping->mr)
		entry.sge = (struct vb_rs_sge){ (uintptr_t)mapping->mr->addr, mapping->mr->rkey,
						(uint32_t)mapping->mr->length };
	vb_rs_iomap_emit(&entry, stream->peer.big_endian, bytes);
	/* The table of mappings follows the SGL. */
	wr.wr.rdma.rkey = stream->peer.sgl.key;
	wr.wr.rdma.remote_addr = stream->peer.sgl.addr +
				 (uint64_t)stream->peer.sgl.length * VB_RS_SGE_SIZE +
				 (uint64_t)mapping->index * VB_RS_IOMAP_SIZE;
	stream->send_used += VB_RS_IOMAP_SIZE + skipped;
	stream->send_head = (head + VB_RS_IOMAP_SIZE) % stream->send_size;
	stream->sq_free--;
	stream->posted++;
	vb_rs_tx_take_credit(&stream->tx);
	return vb_rs_post(rs, &wr);
}

static struct vb_rs_mapping *unannounced(struct vb_rs *rs)
{
	vb_list_for(mapping, &rs->stream->mappings, struct vb_rs_mapping, node) {
		if (!mapping->announced)
			return mapping;
	}
	return NULL;
}

/* The mapping is chosen after the wait, because another thread may unmap it meanwhile. */
static int announce_one(struct vb_rs *rs, uint64_t deadline_ns)
{
	int err = vb_rs_wait_in(rs, &rs->out, announce_decided, deadline_ns);
	struct vb_rs_mapping *mapping = unannounced(rs);

	if (err || !mapping || rs->state != VB_RS_CONNECTED || rs->write_shut || rs->closed)
		return err;
	err = post_entry(rs, mapping);
	if (err)
		vb_rs_break(rs, -err);
	mapping->announced = true;
	if (!mapping->mr)
		mapping_free(rs, mapping);
	return err;
}

int vb_rs_announce_mappings(struct vb_rs *rs, uint64_t deadline_ns)
{
	int err = 0;

	while (!err && rs->state == VB_RS_CONNECTED && !rs->write_shut && !rs->closed &&
	       unannounced(rs))
		err = announce_one(rs, deadline_ns);
	return err;
}

/* --- writing into the peer's memory --- */

/* The peer may write the table at any time, so the function works on a copy of the entry. */
static bool find_offset(struct vb_rs *rs, uint64_t offset, struct vb_rs_iomap *found)
{
	const uint8_t *entry = rs->stream->table + VB_RS_SGL_COUNT * VB_RS_SGE_SIZE;

	for (unsigned i = 0; i < rs->options.iomap_count; i++, entry += VB_RS_IOMAP_SIZE) {
		vb_rs_iomap_parse(entry, vb_rs_host_big_endian(), found);
		if (offset >= found->offset && offset - found->offset < found->sge.length)
			return true;
	}
	return false;
}

static bool write_decided(struct vb_rs *rs)
{
	const struct vb_rs_stream *stream = rs->stream;

	return rs->state != VB_RS_CONNECTED || rs->write_shut || rs->closed ||
	       (stream->sq_free && stream->send_used < stream->send_size);
}

static int write_refusal(const struct vb_rs *rs)
{
	if (rs->closed)
		return -EBADF;
	if (rs->state == VB_RS_CONNECTED)
		return rs->write_shut ? -EPIPE : 0;
	return rs->state > VB_RS_CONNECTED ? -ECONNRESET : -ENOTCONN;
}

/* One WRITE, limited by the mapping, the ring and the caller's bytes. Its length, or -errno. */
static ssize_t write_piece(struct vb_rs *rs, const uint8_t *from, size_t left, uint64_t offset)
{
	struct vb_rs_stream *stream = rs->stream;
	struct vb_rs_iomap entry;
	struct ibv_sge sge = { .lkey = stream->send_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	uint32_t size = left < PIECE_MAX ? (uint32_t)left : PIECE_MAX;
	int err;

	if (!find_offset(rs, offset, &entry))
		return -EFAULT;
	if (size > entry.sge.length - (offset - entry.offset))
		size = (uint32_t)(entry.sge.length - (offset - entry.offset));
	if (size > stream->send_size - stream->send_used)
		size = stream->send_size - stream->send_used;
	if (size > stream->send_size - stream->send_head)
		size = stream->send_size - stream->send_head;
	sge.addr = (uintptr_t)stream->send_buffer + stream->send_head;
	sge.length = size;
	memcpy(stream->send_buffer + stream->send_head, from, size);
	wr.wr_id = vb_rs_wr_id(VB_RS_WORK_DATA, size);
	wr.wr.rdma.remote_addr = entry.sge.addr + (offset - entry.offset);
	wr.wr.rdma.rkey = entry.sge.key;
	stream->send_used += size;
	stream->send_head = (stream->send_head + size) % stream->send_size;
	stream->sq_free--;
	stream->posted++;
	err = vb_rs_post(rs, &wr);
	if (err)
		vb_rs_break(rs, -err);
	return err ? err : (ssize_t)size;
}

static ssize_t write_all(struct vb_rs *rs, const uint8_t *from, size_t size, uint64_t offset,
			 uint64_t deadline_ns)
{
	size_t done = 0;
	ssize_t result = vb_rs_announce_mappings(rs, deadline_ns);

	while (!result && done < size) {
		result = vb_rs_wait_in(rs, &rs->out, write_decided, deadline_ns);
		result = result ? result : write_refusal(rs);
		if (result)
			break;
		result = write_piece(rs, from + done, size - done, offset + done);
		if (result < 0)
			break;
		done += (size_t)result;
		result = 0;
	}
	return done ? (ssize_t)done : result;
}

ssize_t vb_rs_iowrite(struct vb_rs *rs, const void *buffer, size_t size, off_t offset, int flags)
{
	struct vb_undo undo;
	uint64_t deadline_ns;
	ssize_t result;

	if (offset < 0)
		return -EINVAL;
	pthread_mutex_lock(&rs->lock);
	deadline_ns =
		vb_rs_deadline(rs->nonblock || (flags & MSG_DONTWAIT), rs->options.send_timeout_ns);
	result = vb_rs_begin(rs, &rs->out, deadline_ns);
	if (!result) {
		vb_undo_push(&undo, vb_rs_undo_out, rs);
		result = write_refusal(rs);
		if (!result)
			result = write_all(rs, buffer, size, (uint64_t)offset, deadline_ns);
		vb_undo_pop(&undo);
		vb_rs_end(rs, &rs->out);
	}
	pthread_mutex_unlock(&rs->lock);
	return result;
}
