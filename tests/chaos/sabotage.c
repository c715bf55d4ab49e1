/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded, it breaks the library's promises on purpose, so that `self-check` can show that the
 * chaos tests notice. SABOTAGE in the environment says how:
 *
 *   repeat   now and then a completion is reported twice
 *   lose     ... or never
 *   swap     two completions change places
 *   corrupt  a byte of a message changes before it is sent
 *   flush    a success is reported as flushed
 *   leak     every QP costs a file descriptor for ever
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 300 };

static int (*real_poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int (*real_post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static const char *how = "";
static unsigned polled, posted;

static bool is_how(const char *name)
{
	return !strcmp(how, name);
}

static int spoil(int count, int room, struct ibv_wc *wc)
{
	if (is_how("repeat") && count < room) {
		wc[count] = wc[count - 1];
		return count + 1;
	}
	if (is_how("lose")) {
		memmove(wc, wc + 1, (size_t)(count - 1) * sizeof(*wc));
		return count - 1;
	}
	if (is_how("swap") && count > 1 && !((wc[0].wr_id ^ wc[1].wr_id) >> 63)) {
		struct ibv_wc first = wc[0];

		wc[0] = wc[1];
		wc[1] = first;
	}
	if (is_how("flush"))
		wc[0].status = IBV_WC_WR_FLUSH_ERR;
	return count;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int count = real_poll(cq, room, wc);

	if (count <= 0)
		return count;
	polled += (unsigned)count;
	if (polled < PERIOD)
		return count;
	/* Swapping needs two: wait for the next occasion. */
	if (!is_how("swap") || (count > 1 && !((wc[0].wr_id ^ wc[1].wr_id) >> 63)))
		polled = 0;
	return spoil(count, room, wc);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_sge *sge = wr->sg_list;

	if (is_how("corrupt") && wr->opcode == IBV_WR_SEND && ++posted % PERIOD == 0)
		((uint8_t *)(uintptr_t)sge->addr)[sge->length - 1] ^= 0x10;
	return real_post(qp, wr, bad);
}

/* Not declared with its version: as a preloaded library it answers for every version. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
	__attribute__((visibility("default")));
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open_device)(struct ibv_device *) = dlsym(RTLD_NEXT, __func__);
	struct ibv_context *ctx = open_device(device);

	if (!ctx)
		return NULL;
	how = getenv("SABOTAGE") ? getenv("SABOTAGE") : "";
	real_poll = ctx->ops.poll_cq;
	real_post = ctx->ops.post_send;
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.post_send = post_send;
	return ctx;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
	__attribute__((visibility("default")));
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *) =
		dlsym(RTLD_NEXT, __func__);

	if (is_how("leak") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
		return NULL;
	return create_qp(pd, attr);
}
