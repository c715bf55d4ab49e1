/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: its limits, copies to and from it, and regions in it on every path. */
#include <sys/wait.h>
#include <unistd.h>

#include "ct.h"

enum { BYTES = 8192, DM_ACCESS = CT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED };

static struct ibv_dm *alloc(struct ct *t, size_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = length };
	struct ibv_dm *dm = ibv_alloc_dm(ct_context(t->near), &attr);

	CT_TRUE(dm != NULL);
	return dm;
}

static struct ibv_mr *reg(struct ct *t, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	struct ibv_mr *mr =
		ibv_reg_dm_mr(ct_object(t->near, t->near->pd), dm, offset, length, DM_ACCESS);

	CT_TRUE(mr != NULL);
	return mr;
}

static void release(struct ibv_dm *dm, struct ibv_mr *mr)
{
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_free_dm(dm), 0);
}

/* ---- the object ------------------------------------------------------------------------------ */

static size_t max_size(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;

	CT_EQ(ibv_query_device_ex(ctx, NULL, &attr), 0);
	return attr.max_dm_size;
}

static void limits(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	size_t most = max_size(ctx);
	const struct ibv_alloc_dm_attr bad[] = {
		{ .length = 0 },
		{ .length = most + 1 },
		{ .length = SIZE_MAX },
		{ .length = 64, .comp_mask = 1 },
		{ .length = 64, .log_align_req = 32 },
	};
	struct ibv_alloc_dm_attr small = { .length = 4 };
	struct ibv_dm *dm;

	CT_TRUE(most >= 4096);
	for (int i = 0; i < CT_COUNT(bad); i++) {
		struct ibv_alloc_dm_attr attr = bad[i];

		CT_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	}
	for (int round = 0; round < 3; round++) {
		dm = alloc(t, most);
		CT_NULL(ibv_alloc_dm(ctx, &small), ENOMEM);
		CT_EQ(ibv_free_dm(dm), 0);
	}
}

/* What is free again is found again, between what is not. */
static void room_is_reused(struct ct *t)
{
	size_t part = max_size(ct_context(t->near)) / 4;
	struct ibv_dm *dm[4];

	for (int i = 0; i < 4; i++)
		dm[i] = alloc(t, part);
	for (int i = 3; i >= 0; i--) {
		uint32_t value = 0x1000u + (unsigned)i;

		CT_EQ(ibv_memcpy_to_dm(dm[i], part - 4, &value, 4), 0);
	}
	CT_EQ(ibv_free_dm(dm[1]), 0);
	CT_EQ(ibv_free_dm(dm[2]), 0);
	dm[1] = alloc(t, 2 * part);
	for (int i = 0; i < 4; i += 3) {
		uint32_t value = 0;

		CT_EQ(ibv_memcpy_from_dm(&value, dm[i], part - 4, 4), 0);
		CT_EQ(value, 0x1000 + i);
	}
	CT_EQ(ibv_free_dm(dm[0]), 0);
	CT_EQ(ibv_free_dm(dm[1]), 0);
	CT_EQ(ibv_free_dm(dm[3]), 0);
}

static void copies(struct ct *t)
{
	static const struct {
		uint64_t offset;
		size_t length;
	} bad[] = { { 2, 4 }, { 4, 3 }, { 100, 4 }, { 96, 8 }, { 0, 104 }, { UINT64_MAX - 3, 8 } };
	struct ibv_dm *dm = alloc(t, 100);
	uint8_t out[100], in[100] = { 0 };

	for (unsigned i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i + 1);
	CT_EQ(ibv_memcpy_to_dm(dm, 0, out, sizeof(out)), 0);
	CT_EQ(ibv_memcpy_from_dm(in, dm, 0, sizeof(in)), 0);
	CT_EQ(memcmp(in, out, sizeof(in)), 0);
	CT_EQ(ibv_memcpy_from_dm(in, dm, 96, 4), 0);
	CT_EQ(in[0], 97);
	CT_EQ(ibv_memcpy_to_dm(dm, 100, out, 0), 0);
	for (int i = 0; i < CT_COUNT(bad); i++) {
		CT_ERROR(ibv_memcpy_to_dm(dm, bad[i].offset, out, bad[i].length), EINVAL);
		CT_ERROR(ibv_memcpy_from_dm(in, dm, bad[i].offset, bad[i].length), EINVAL);
	}
	CT_EQ(ibv_free_dm(dm), 0);
}

static void registering(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_context *other = ibv_open_device(pd->context->device);
	struct ibv_pd *strange = ibv_alloc_pd(other);
	struct ibv_dm *dm = alloc(t, 100);
	struct ibv_mr *mr;

	CT_NULL(ibv_reg_dm_mr(pd, dm, 0, 100, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dm_mr(pd, dm, 0, 104, DM_ACCESS), EINVAL);
	CT_NULL(ibv_reg_dm_mr(pd, dm, 4, 100, DM_ACCESS), EINVAL);
	CT_NULL(ibv_reg_dm_mr(pd, dm, 2, 4, DM_ACCESS), EINVAL);
	CT_NULL(ibv_reg_dm_mr(pd, dm, 0, 4, DM_ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	CT_NULL(ibv_reg_dm_mr(pd, dm, 0, 4, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE),
		EINVAL);
	CT_NULL(ibv_reg_dm_mr(strange, dm, 0, 100, DM_ACCESS), EINVAL);
	mr = reg(t, dm, 0, 100);
	CT_EQ(mr->length, 100);
	CT_ERROR(ibv_free_dm(dm), EBUSY);
	/* It can change its rights and its domain, but not its place. */
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &dm, 4, 0),
	      IBV_REREG_MR_ERR_CMD);
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, CT_ACCESS_ALL),
	      IBV_REREG_MR_ERR_CMD);
	CT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ZERO_BASED),
	      0);
	CT_ERROR(ibv_free_dm(dm), EBUSY);
	release(dm, mr);
	CT_EQ(ibv_dealloc_pd(strange), 0);
	CT_EQ(ibv_close_device(other), 0);
}

/* A child copies to and from what its parent allocated, and allocates for itself. */
static int in_child(struct ibv_context *ctx, struct ibv_dm *dm)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *own;
	uint32_t value;

	if (ibv_memcpy_from_dm(&value, dm, 0, 4) || value != 0xfeed)
		return 1;
	value = 0xbeef;
	if (ibv_memcpy_to_dm(dm, 4, &value, 4))
		return 2;
	own = ibv_alloc_dm(ctx, &attr);
	if (!own || ibv_memcpy_to_dm(own, 0, &value, 4) || ibv_free_dm(own))
		return 3;
	return ibv_free_dm(dm) ? 4 : 0; /* only its copy */
}

static void shared_with_children(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, 64);
	uint32_t value = 0xfeed;
	int status = -1;
	pid_t pid;

	CT_EQ(ibv_memcpy_to_dm(dm, 0, &value, 4), 0);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		alarm(CT_DEADLINE_MS / 1000);
		_exit(in_child(ct_context(t->near), dm));
	}
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_TRUE(WIFEXITED(status));
	CT_EQ(WEXITSTATUS(status), 0);
	CT_EQ(ibv_memcpy_from_dm(&value, dm, 4, 4), 0);
	CT_EQ(value, 0xbeef);
	CT_EQ(ibv_free_dm(dm), 0);
}

/* What its parent had registered does not keep a child from freeing the same part of the memory. */
static int reuse_in_child(struct ibv_context *ctx, int parent_is_done)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm;
	char word;

	if (read(parent_is_done, &word, 1) != 1)
		return 1;
	dm = ibv_alloc_dm(ctx, &attr);
	return !dm ? 2 : ibv_free_dm(dm) ? 3 : 0;
}

static void children_count_their_own(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, 64);
	struct ibv_mr *mr = reg(t, dm, 0, 64);
	int done[2], status = -1;
	pid_t pid;

	CT_EQ(pipe(done), 0);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		alarm(CT_DEADLINE_MS / 1000);
		_exit(reuse_in_child(ct_context(t->near), done[0]));
	}
	release(dm, mr);
	CT_EQ(write(done[1], "x", 1), 1);
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	close(done[0]);
	close(done[1]);
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* Into device memory, and out of it again, through another region that begins inside. */
static void messages(struct ct *t)
{
	static const uint32_t sizes[] = { 8, 24, 200, 1000, 4000 };
	struct ibv_dm *dm = alloc(t, BYTES);
	struct ibv_mr *mr = reg(t, dm, 0, BYTES), *inner = reg(t, dm, 64, BYTES - 64);
	struct ct_link l, in;
	uint32_t head;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	head = ct_headroom(&l);
	for (int i = 0; i < CT_COUNT(sizes); i++) {
		uint32_t size = sizes[i] < ct_message_max(&l) ? sizes[i] : ct_message_max(&l);
		struct ibv_sge to = { 128, size + head, mr->lkey };
		struct ibv_sge from = { 64 + head, size, inner->lkey };
		struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad;
		struct ibv_send_wr send = ct_wr(&l, IBV_WR_SEND, 3, &from, 1);

		ct_fill(t->far, 4096, size, i);
		CT_EQ(ct_post_recv(&in.b, &recv, &bad), 0);
		ct_send(&in, 2, 4096, size);
		ct_sent(&in, 2, IBV_WC_SUCCESS);
		ct_got(&in, 1, IBV_WC_SUCCESS);
		ct_fill(t->far, 4096 - head, size + head, 99);
		ct_recv(&l.b, 4, 4096 - head, size + head);
		ct_post(&l.a, &send);
		ct_sent(&l, 3, IBV_WC_SUCCESS);
		ct_got(&l, 4, IBV_WC_SUCCESS);
		ct_same(t->far, 4096, size, i);
	}
	CT_EQ(ibv_dereg_mr(inner), 0);
	release(dm, mr);
}

static void remote_access(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, BYTES);
	struct ibv_mr *mr = reg(t, dm, 4096, 4096);
	struct ibv_sge sge = ct_sge(t->far, 0, 4000);
	struct ct_link l, in;
	struct ibv_send_wr wr;
	uint8_t bytes[4000], there[256];

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	ct_fill(t->far, 0, 4000, 7);
	wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_aim(&wr, 96, mr->rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	CT_EQ(ibv_memcpy_from_dm(bytes, dm, 4096 + 96, sizeof(bytes)), 0);
	ct_peek_bytes(t->far, 0, sizeof(there), there);
	CT_EQ(memcmp(bytes, there, sizeof(there)), 0);
	ct_fill(t->far, 0, 4000, 8);
	wr = ct_wr(&in, IBV_WR_RDMA_READ, 2, &sge, 1);
	ct_aim(&wr, 96, mr->rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 2, IBV_WC_SUCCESS);
	ct_same(t->far, 0, 4000, 7);
	release(dm, mr);
}

static void atomics(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, 64);
	struct ibv_mr *mr = reg(t, dm, 0, 64);
	struct ibv_sge sge = ct_sge(t->far, 0, 8), own = { 8, 8, mr->lkey };
	struct ct_link l, in;
	struct ibv_send_wr wr;
	uint64_t value[2] = { 40, 0 };

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	CT_EQ(ibv_memcpy_to_dm(dm, 0, value, sizeof(value)), 0);
	wr = ct_wr(&in, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, 1);
	ct_aim(&wr, 0, mr->rkey);
	wr.wr.atomic.compare_add = 2;
	ct_post(&in.a, &wr);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, 0), 40);
	/* And with the answer in device memory. */
	ct_poke(t->far, 4096, 42);
	wr = ct_wr(&l, IBV_WR_ATOMIC_CMP_AND_SWP, 2, &own, 1);
	ct_aim(&wr, t->far->mr.addr + 4096, t->far->mr.rkey);
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 77;
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	CT_EQ(ct_peek(t->far, 4096), 77);
	CT_EQ(ibv_memcpy_from_dm(value, dm, 0, sizeof(value)), 0);
	CT_EQ(value[0], 42);
	CT_EQ(value[1], 42);
	release(dm, mr);
}

static void outside_locally(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, 4096);
	struct ibv_mr *mr = reg(t, dm, 0, 1024);
	struct ibv_sge sge = { 1020, 8, mr->lkey };
	struct ct_link l;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &sge, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_LOC_PROT_ERR);
	release(dm, mr);
}

static void outside_remotely(struct ct *t)
{
	struct ibv_dm *dm = alloc(t, 4096);
	struct ibv_mr *mr = reg(t, dm, 0, 1024);
	struct ibv_sge sge = ct_sge(t->far, 0, 8);
	struct ct_link l, in;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	wr = ct_wr(&in, IBV_WR_RDMA_READ, 1, &sge, 1);
	ct_aim(&wr, 1020, mr->rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 1, IBV_WC_REM_ACCESS_ERR);
	ct_event(t->near, IBV_EVENT_QP_ACCESS_ERR, l.a.handle);
	release(dm, mr);
}

const struct ct_case ct_dm_cases[] = {
	{ "alloc_dm gives out max_dm_size, and refuses what is not possible", limits, CT_SOLO },
	{ "device memory that was freed is given out again", room_is_reused, CT_SOLO },
	{ "copies to and from device memory are in multiples of 4, inside of it", copies, CT_SOLO },
	{ "regions of device memory are zero-based, inside of it, and keep it", registering,
	  CT_SOLO },
	{ "a forked child uses its parent's device memory", shared_with_children, CT_SOLO },
	{ "regions of its parent do not keep a child's device memory", children_count_their_own,
	  CT_SOLO },
	{ "device memory receives and sends", messages, CT_RC | CT_UC | CT_UD },
	{ "device memory is written and read by rkey", remote_access, CT_RC },
	{ "atomics on device memory, and answers in it", atomics, CT_RC },
	{ "an element outside of a region of device memory is LOC_PROT_ERR", outside_locally,
	  CT_RC },
	{ "an address outside of a region of device memory is refused", outside_remotely, CT_RC },
	{ 0 },
};
