/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and objects that go too early, or never. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cases.h"

/* --- unmapped --- */

static char *map_page(void)
{
	char *page = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(page != MAP_FAILED);
	return page;
}

static void wrong_unmapped(struct rig *rig)
{
	char *page = map_page();
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	munmap(page, BUFFER); /* <- */
	ibv_dereg_mr(mr);
}

static void right_unmapped(struct rig *rig)
{
	char *page = map_page();
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	ibv_dereg_mr(mr);
	munmap(page, BUFFER);
}

static void wrong_remapped(struct rig *rig)
{
	char *page = map_page(), *moved;
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	moved = mremap(page, BUFFER, 64 * BUFFER, MREMAP_MAYMOVE | MREMAP_FIXED, /* <- */
		       mmap(NULL, 64 * BUFFER, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	ibv_dereg_mr(mr);
	munmap(moved, 64 * BUFFER);
}

static void right_remapped(struct rig *rig)
{
	char *page = map_page(), *moved;
	struct ibv_mr *mr;

	moved = mremap(page, BUFFER, 64 * BUFFER, MREMAP_MAYMOVE | MREMAP_FIXED,
		       mmap(NULL, 64 * BUFFER, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	mr = ibv_reg_mr(rig->pd, moved, BUFFER, IBV_ACCESS_LOCAL_WRITE);
	ibv_dereg_mr(mr);
	munmap(moved, 64 * BUFFER);
}

static void wrong_advised(struct rig *rig)
{
	char *page = map_page();
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	madvise(page, BUFFER, MADV_DONTNEED); /* <- */
	ibv_dereg_mr(mr);
	munmap(page, BUFFER);
}

static void right_advised(struct rig *rig)
{
	char *page = map_page();
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	madvise(page, BUFFER, MADV_WILLNEED);
	ibv_dereg_mr(mr);
	munmap(page, BUFFER);
}

/* --- freed --- */

static void wrong_freed(struct rig *rig)
{
	char *block = malloc(BUFFER);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, block, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	free(block); /* <- */
	ibv_dereg_mr(mr);
}

static void right_freed(struct rig *rig)
{
	char *block = malloc(BUFFER);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, block, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	ibv_dereg_mr(mr);
	free(block);
}

/* A neighbour in a region of whole pages may go. */
static void wrong_freed_realloc(struct rig *rig)
{
	char *block = malloc(64), *wall = malloc(64);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, block, 64, IBV_ACCESS_LOCAL_WRITE);

	block = realloc(block, 1 << 20); /* <- */
	ibv_dereg_mr(mr);
	free(block);
	free(wall);
}

static void right_freed_realloc(struct rig *rig)
{
	char *block = malloc(64), *page = (char *)((uintptr_t)block & ~(uintptr_t)(BUFFER - 1));
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, BUFFER, IBV_ACCESS_LOCAL_WRITE);

	free(block);
	ibv_dereg_mr(mr);
}

/* A region of whole pages, as caches of registrations make it. */
static struct ibv_mr *register_page(struct rig *rig, char *block)
{
	char *page = (char *)((uintptr_t)block & ~(uintptr_t)(BUFFER - 1));
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, page, 2 * BUFFER, IBV_ACCESS_LOCAL_WRITE);

	MUST(mr);
	return mr;
}

static void wrong_freed_posted(struct rig *rig)
{
	char *block = malloc(64);
	struct ibv_mr *mr = register_page(rig, block);
	struct ibv_sge sge = { (uintptr_t)block, 64, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(rig->b, &wr, &bad));
	free(block); /* <- */
	ibv_destroy_qp(rig->b);
	rig->b = NULL;
	ibv_dereg_mr(mr);
}

static void right_freed_posted(struct rig *rig)
{
	char *block = malloc(64);
	struct ibv_mr *mr = register_page(rig, block);
	struct ibv_sge sge = { (uintptr_t)block, 64, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(rig->b, &wr, &bad));
	ibv_destroy_qp(rig->b);
	rig->b = NULL;
	free(block);
	ibv_dereg_mr(mr);
}

/* --- in-flight --- */

static void wrong_in_flight(struct rig *rig)
{
	struct ibv_wc wc;

	ibv_poll_cq(rig->cq, 1, &wc);
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	ibv_destroy_qp(rig->a); /* <- */
	rig->a = NULL;
}

static void right_in_flight(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
	ibv_destroy_qp(rig->a);
	rig->a = NULL;
}

static void wrong_dereg_in_flight(struct rig *rig)
{
	struct ibv_wc wc;

	ibv_poll_cq(rig->cq, 1, &wc);
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	ibv_dereg_mr(rig->mr); /* <- */
	rig->mr = NULL;
	rig_wait_for(rig->cq, 2);
}

/* In ERR no work is under way. */
static void right_dereg_in_flight(struct rig *rig)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
	ibv_modify_qp(rig->a, &attr, IBV_QP_STATE);
	post_send(rig, 3, 64, IBV_SEND_SIGNALED);
	ibv_dereg_mr(rig->mr);
	rig->mr = NULL;
}

/* --- leak --- */

static void wrong_leak(struct rig *rig)
{
	ibv_create_cq(rig->context, 16, NULL, NULL, 0); /* <- */
}

static void right_leak(struct rig *rig)
{
	struct ibv_cq *cq = ibv_create_cq(rig->context, 16, NULL, NULL, 0);

	ibv_destroy_cq(cq);
}

/* --- destroyed --- */

static void wrong_destroyed(struct rig *rig)
{
	struct ibv_cq *cq = ibv_create_cq(rig->context, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	ibv_destroy_cq(cq);
	ibv_poll_cq(cq, 1, &wc); /* <- */
}

static void right_destroyed(struct rig *rig)
{
	struct ibv_cq *cq = ibv_create_cq(rig->context, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	ibv_poll_cq(cq, 1, &wc);
	ibv_destroy_cq(cq);
}

static void wrong_destroyed_qp(struct rig *rig)
{
	struct ibv_qp *qp = rig->a;

	ibv_destroy_qp(rig->a);
	post_send(rig, 1, 64, 0); /* <- */
	rig->a = qp == rig->a ? NULL : rig->a;
}

static void right_destroyed_qp(struct rig *rig)
{
	post_recv(rig, 1, rig->in, 64);
	post_send(rig, 2, 64, IBV_SEND_SIGNALED);
	rig_wait_for(rig->cq, 2);
}

const struct pair memory_pairs[] = {
	{ PAIR("unmapped", unmapped) },
	{ PAIR("unmapped/mremap", remapped) },
	{ PAIR("unmapped/madvise", advised) },
	{ PAIR("freed", freed) },
	{ PAIR("freed/realloc", freed_realloc) },
	{ PAIR("freed/posted", freed_posted) },
	{ PAIR("in-flight", in_flight) },
	{ PAIR("in-flight/dereg", dereg_in_flight) },
	{ PAIR("leak", leak) },
	{ PAIR("destroyed", destroyed) },
	{ PAIR("destroyed/qp", destroyed_qp) },
	{ 0 },
};
