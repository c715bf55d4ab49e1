/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of QPs that work on this device, or on this host. */
#include <arpa/inet.h>
#include <string.h>

#include "cases.h"

static void pair_of(struct rig *rig, const struct wish *wish)
{
	MUST(!ibv_destroy_qp(rig->a) && !ibv_destroy_qp(rig->b));
	rig->a = rig_qp(rig, rig->cq, wish);
	rig->b = rig_qp(rig, rig->cq, wish);
}

/* --- timer --- */

static void wrong_timeout(struct rig *rig)
{
	struct wish wish = WISH;

	wish.timeout = 0;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish); /* <- */
}

static void right_timeout(struct rig *rig)
{
	struct wish wish = WISH;

	wish.timeout = 14;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish);
}

static void wrong_short(struct rig *rig)
{
	struct wish wish = WISH;

	wish.rnr_retry = 3;
	wish.min_rnr_timer = 1;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish); /* <- */
}

static void right_short(struct rig *rig)
{
	struct wish wish = WISH;

	wish.rnr_retry = 3;
	wish.min_rnr_timer = 12;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish);
}

/* --- route --- */

static union ibv_gid elsewhere(void)
{
	union ibv_gid gid = { .raw = { 0 } };

	gid.raw[10] = gid.raw[11] = 0xff;
	inet_pton(AF_INET, "198.51.100.7", gid.raw + 12);
	return gid;
}

static void wrong_route(struct rig *rig)
{
	union ibv_gid to = elsewhere();
	struct wish wish = WISH;

	wish.to = &to;
	wish.hop_limit = 1;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish); /* <- */
}

static void right_route(struct rig *rig)
{
	union ibv_gid to = elsewhere();
	struct wish wish = WISH;

	wish.to = &to;
	wish.hop_limit = 64;
	pair_of(rig, &wish);
	rig_connect(rig, rig->a, rig->b, &wish);
}

/* --- limit --- */

static void wrong_limit(struct rig *rig)
{
	struct wish wish = WISH;

	wish.cap.max_send_sge = 16;
	MUST(!ibv_destroy_qp(rig->a));
	rig->a = rig_qp(rig, rig->cq, &wish); /* <- */
}

static void right_limit(struct rig *rig)
{
	struct ibv_device_attr device;
	struct wish wish = WISH;

	MUST(!ibv_query_device(rig->context, &device));
	wish.cap.max_send_sge = device.max_sge < 16 ? (uint32_t)device.max_sge : 16;
	MUST(!ibv_destroy_qp(rig->a));
	rig->a = rig_qp(rig, rig->cq, &wish);
}

static void read_once(struct rig *rig)
{
	struct ibv_sge sge = rig_sge(rig, rig->in, 64);
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_READ,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)rig->out, rig->mr->rkey } };

	MUST(!ibv_post_send(rig->a, &wr, &bad)); /* <- */
	rig_wait_for(rig->cq, 1);
}

static void wrong_limit_reads(struct rig *rig)
{
	struct wish wish = WISH;

	wish.max_rd_atomic = 0;
	rig_renew(rig, rig->cq, &wish);
	read_once(rig);
}

static void right_limit_reads(struct rig *rig)
{
	struct wish wish = WISH;

	wish.max_rd_atomic = 1;
	rig_renew(rig, rig->cq, &wish);
	read_once(rig);
}

const struct pair attribute_pairs[] = {
	{ PAIR("timer", timeout) }, { PAIR("timer/rnr", short) },         { PAIR("route", route) },
	{ PAIR("limit", limit) },   { PAIR("limit/reads", limit_reads) }, { 0 },
};
