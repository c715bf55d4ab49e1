/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into the client, it breaks the library's promises on purpose, so that
 * `transfer-self-check` can show that transfer notices. SABOTAGE in the environment says how; each
 * strikes once, at a work request in the middle of the run:
 *
 *   flip      a byte of what is sent differs
 *   shift     a WRITE goes one byte too far
 *   short     a message lacks its last byte
 *   skip      a WRITE is done, but empty
 *   twice     an atomic is applied twice
 *   never     an atomic is not applied, though it says so
 *   imm       the immediate differs
 *   spill     a READ brings a byte too many
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { STRIKE_AT = 40 };

static int (*real_post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static const char *how = "";
static unsigned fitting;

static bool is_how(const char *name)
{
	return !strcmp(how, name);
}

static bool is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

/* Can this work request be spoiled in this way? */
static bool fits(const struct ibv_send_wr *wr)
{
	bool has_bytes = wr->num_sge && wr->sg_list[wr->num_sge - 1].length > 8;
	bool is_write = wr->opcode == IBV_WR_RDMA_WRITE;

	if (is_how("twice") || is_how("never"))
		return is_atomic(wr);
	if (is_how("imm"))
		return wr->opcode == IBV_WR_SEND_WITH_IMM;
	if (is_how("spill"))
		return has_bytes && wr->opcode == IBV_WR_RDMA_READ;
	if (is_how("short"))
		return has_bytes && is_send(wr);
	if (is_how("shift") || is_how("skip"))
		return has_bytes && is_write;
	return is_how("flip") && has_bytes && (is_send(wr) || is_write);
}

static void spoil(struct ibv_send_wr *wr)
{
	static uint8_t other[1 << 20];
	struct ibv_sge *last = wr->num_sge ? &wr->sg_list[wr->num_sge - 1] : NULL;

	if (is_how("twice"))
		wr->wr.atomic.compare_add *= 2;
	else if (is_how("never"))
		wr->wr.atomic.compare_add = 0;
	else if (is_how("imm"))
		wr->imm_data ^= 1;
	else if (is_how("spill"))
		last->length++;
	else if (is_how("short"))
		last->length--;
	else if (is_how("shift"))
		wr->wr.rdma.remote_addr++;
	else if (is_how("skip"))
		wr->num_sge = 0;
	else if (is_how("flip") && last->length <= sizeof(other)) {
		/* Inline, from another place: the source stays as it was. */
		memcpy(other, (void *)(uintptr_t)last->addr, last->length);
		other[last->length / 2] ^= 1;
		last->addr = (uintptr_t)other;
		wr->send_flags |= IBV_SEND_INLINE;
	}
}

static bool can_strike(const struct ibv_send_wr *wr)
{
	uint32_t bytes = 0;

	if (!fits(wr))
		return false;
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return !is_how("flip") || bytes <= 64;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (struct ibv_send_wr *at = wr; at; at = at->next)
		if (can_strike(at) && ++fitting == STRIKE_AT)
			spoil(at);
	return real_post(qp, wr, bad);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
	__attribute__((visibility("default")));
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open_device)(struct ibv_device *) = dlsym(RTLD_NEXT, __func__);
	struct ibv_context *ctx = open_device(device);

	if (!ctx)
		return NULL;
	how = getenv("SABOTAGE") ? getenv("SABOTAGE") : "";
	real_post = ctx->ops.post_send;
	ctx->ops.post_send = post_send;
	return ctx;
}
