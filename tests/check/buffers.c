/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers of posted work. The line with the mark is the one that the report must name. */
#include <string.h>

#include "cases.h"

int post_send_from(struct rig *rig, uint64_t wr_id, char *at, size_t length, unsigned flags)
{
	struct ibv_sge sge = rig_sge(rig, at, length);
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = flags };

	return ibv_post_send(rig->a, &wr, &bad);
}

int post_send(struct rig *rig, uint64_t wr_id, size_t length, unsigned flags)
{
	return post_send_from(rig, wr_id, rig->out, length, flags);
}

int post_recv(struct rig *rig, uint64_t wr_id, char *at, size_t length)
{
	struct ibv_sge sge = rig_sge(rig, at, length);
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(rig->b, &wr, &bad);
}

/* --- send-changed --- */

static void wrong_send_changed(struct rig *rig)
{
	post_recv(rig, 1, rig->in, BUFFER);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED); /* <- */
	strcpy(rig->out, "next message");
	rig_wait_for(rig->cq, 2);
}

static void right_send_changed(struct rig *rig)
{
	post_recv(rig, 1, rig->in, BUFFER);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
	strcpy(rig->out, "next message");
}

/* An unsignaled send is complete when a later one is. */
static void wrong_send_unsignaled(struct rig *rig)
{
	post_recv(rig, 1, rig->in, BUFFER);
	post_recv(rig, 2, rig->spare, BUFFER);
	post_send(rig, 3, 64, 0); /* <- */
	strcpy(rig->out, "next message");
	post_send(rig, 4, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 3);
}

/* Inline data is copied by the post. */
static void right_send_unsignaled(struct rig *rig)
{
	struct wish wish = WISH;

	wish.cap.max_inline_data = 64;
	rig_renew(rig, rig->cq, &wish);
	post_recv(rig, 1, rig->in, BUFFER);
	post_recv(rig, 2, rig->spare, BUFFER);
	post_send(rig, 3, 64, IBV_SEND_INLINE);
	strcpy(rig->out, "next message");
	post_send(rig, 4, 64, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 3);
}

/* One byte, in the middle of much. */
static void wrong_send_large(struct rig *rig)
{
	post_recv(rig, 1, rig->large_in, LARGE);
	post_send_from(rig, 2, rig->large_out, LARGE, IBV_SEND_SIGNALED); /* <- */
	rig->large_out[30001]++;
	rig_wait_for(rig->cq, 2);
}

static void right_send_large(struct rig *rig)
{
	post_recv(rig, 1, rig->large_in, LARGE);
	post_send_from(rig, 2, rig->large_out, LARGE, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
	rig->large_out[30001]++;
}

/* --- recv-written --- */

static void wrong_recv_written(struct rig *rig)
{
	post_recv(rig, 1, rig->in, BUFFER); /* <- */
	memset(rig->in, 1, BUFFER);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

static void right_recv_written(struct rig *rig)
{
	memset(rig->in, 1, BUFFER);
	post_recv(rig, 1, rig->in, BUFFER);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

static void wrong_recv_large(struct rig *rig)
{
	post_recv(rig, 1, rig->large_in, LARGE); /* <- */
	rig->large_in[30001]++;
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

static void right_recv_large(struct rig *rig)
{
	rig->large_in[30001]++;
	post_recv(rig, 1, rig->large_in, LARGE);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

/* --- a receive that is used too early --- */

static unsigned sum_of(const char *bytes, size_t length)
{
	unsigned sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += (unsigned char)bytes[i];
	return sum;
}

static void wrong_recv_used(struct rig *rig)
{
	memset(rig->out, 1, 1024);
	post_recv(rig, 1, rig->in, BUFFER);
	post_send(rig, 2, 1024, IBV_SEND_SIGNALED);
	while (sum_of(rig->in, 1024) != 1024) /* <- */
		;
	rig_wait_for(rig->cq, 2);
}

static void right_recv_used(struct rig *rig)
{
	memset(rig->out, 1, 1024);
	post_recv(rig, 1, rig->in, BUFFER);
	post_send(rig, 2, 1024, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
	MUST(sum_of(rig->in, 1024) == 1024);
}

/* The message comes over the bytes that were written: sums would not show it. */
static void wrong_recv_used_write(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 1024);
	memset(rig->in, 0, 1024); /* <- */
	post_send(rig, 2, 1024, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

/* A neighbour of the buffer is the program's. */
static void right_recv_used_write(struct rig *rig)
{
	post_recv(rig, 1, rig->in + 64, 1024);
	memset(rig->in, 0, 64);
	memset(rig->in + 64 + 1024, 0, 64);
	post_send(rig, 2, 1024, IBV_SEND_SIGNALED);
	MUST(strlen(rig->in) == 0 && !memchr(rig->in, 1, 64));
	rig_wait_for(rig->cq, 2);
}

/* A receive of an SRQ is used again and again: after the first one, too. */
static void serve_from_srq(struct rig *rig, bool wrong)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_sge sge = rig_sge(rig, rig->in, 1024);
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	struct wish wish = WISH;

	wish.srq = ibv_create_srq(rig->pd, &attr);
	MUST(wish.srq);
	rig_renew(rig, rig->cq, &wish);
	MUST(!ibv_post_srq_recv(wish.srq, &wr, &bad));
	for (int i = 0; i < 20; i++) {
		post_send(rig, 2, 1024, IBV_SEND_SIGNALED);
		rig_wait_for(rig->cq, 2);
		if (!wrong)
			sum_of(rig->in, 1024);
		MUST(!ibv_post_srq_recv(wish.srq, &wr, &bad));
		if (wrong && i == 1)
			sum_of(rig->in, 1024); /* <- */
	}
	MUST(!ibv_destroy_qp(rig->a) && !ibv_destroy_qp(rig->b));
	rig->a = rig->b = NULL;
	MUST(!ibv_destroy_srq(wish.srq));
}

static void wrong_recv_used_srq(struct rig *rig)
{
	serve_from_srq(rig, true);
}

static void right_recv_used_srq(struct rig *rig)
{
	serve_from_srq(rig, false);
}

/* --- overlap --- */

static void wrong_overlap_receives(struct rig *rig)
{
	post_recv(rig, 1, rig->in, BUFFER);
	post_recv(rig, 2, rig->in + 64, 64); /* <- */
	post_send(rig, 3, 64, IBV_SEND_SIGNALED);
	post_send(rig, 4, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 4);
}

static void right_overlap_receives(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_recv(rig, 2, rig->in + 64, 64);
	post_send(rig, 3, 64, IBV_SEND_SIGNALED);
	post_send(rig, 4, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 4);
}

static void wrong_overlap_send(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_recv(rig, 2, rig->out, 64);          /* for later */
	post_send(rig, 3, 64, IBV_SEND_SIGNALED); /* <- */
	rig_wait_for(rig->cq, 2);
}

/* Two sends may read the same bytes. */
static void right_overlap_send(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_recv(rig, 2, rig->spare, 64);
	post_send(rig, 3, 64, IBV_SEND_SIGNALED);
	post_send(rig, 4, 32, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 4);
}

static int post_read(struct rig *rig, uint64_t wr_id, char *into)
{
	struct ibv_sge sge = rig_sge(rig, into, 64);
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_READ,
					.send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)rig->out;
	wr.wr.rdma.rkey = rig->mr->rkey;
	return ibv_post_send(rig->a, &wr, &bad);
}

static void wrong_overlap_reads(struct rig *rig)
{
	post_read(rig, 1, rig->in);
	post_read(rig, 2, rig->in + 32); /* <- */
	rig_wait_for(rig->cq, 2);
}

static void right_overlap_reads(struct rig *rig)
{
	post_read(rig, 1, rig->in);
	rig_wait(rig->cq);
	post_read(rig, 2, rig->in + 32);
	rig_wait(rig->cq);
}

/* --- key --- */

static void wrong_key(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->in, 64, rig->mr->rkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(rig->b, &wr, &bad)); /* <- */
}

static void right_key(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->in, 64, rig->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(rig->b, &wr, &bad));
}

const struct pair buffer_pairs[] = {
	{ PAIR("send-changed", send_changed) },
	{ PAIR("send-changed/unsignaled", send_unsignaled) },
	{ PAIR("send-changed/large", send_large) },
	{ PAIR("recv-written", recv_written) },
	{ PAIR("recv-written/large", recv_large) },
	{ PAIR("recv-used", recv_used) },
	{ PAIR("recv-used/write", recv_used_write) },
	{ PAIR("recv-used/srq", recv_used_srq) },
	{ PAIR("overlap", overlap_receives) },
	{ PAIR("overlap/send", overlap_send) },
	{ PAIR("overlap/reads", overlap_reads) },
	{ PAIR("key", key) },
	{ 0 },
};
