/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration with a struct, DMA handles, buffers of the library, dma-bufs of device memory. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/verbs.h"
#include "ct.h"

enum { BYTES = 10000, LOCAL = IBV_ACCESS_LOCAL_WRITE };

/* ---- DMA handles ----------------------------------------------------------------------------- */

static uint32_t own_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (uint32_t)cpu;
}

static void dma_handles(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	struct ibv_dmah_init_attr none = { 0 };
	struct ibv_dmah_init_attr all = {
		.comp_mask = 7, .cpu_id = own_cpu(), .ph = 3, .tph_mem_type = IBV_TPH_MEM_TYPE_PM
	};
	struct ibv_dmah_init_attr bits = { .comp_mask = 8 };
	struct ibv_dmah_init_attr hint = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 4 };
	struct ibv_dmah_init_attr type = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
					   .tph_mem_type = 2 };
	struct ibv_dmah_init_attr cpu = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID,
					  .cpu_id = UINT32_MAX };
	struct ibv_dmah *first = ibv_alloc_dmah(ctx, &none), *second = ibv_alloc_dmah(ctx, &all);

	CT_TRUE(first && second && first->context == ctx);
	CT_NULL(ibv_alloc_dmah(ctx, &bits), EINVAL);
	CT_NULL(ibv_alloc_dmah(ctx, &hint), EINVAL);
	CT_NULL(ibv_alloc_dmah(ctx, &type), EINVAL);
	CT_NULL(ibv_alloc_dmah(ctx, &cpu), EPERM);
	cpu.cpu_id = 100000; /* more than any machine has */
	CT_NULL(ibv_alloc_dmah(ctx, &cpu), EPERM);
	CT_NULL(ibv_alloc_dmah(NULL, &none), EINVAL);
	CT_EQ(ibv_dealloc_dmah(first), 0);
	CT_ERROR(ibv_dealloc_dmah(first), ENOENT);
	CT_ERROR(ibv_dealloc_dmah(NULL), ENOENT);
	CT_EQ(ibv_dealloc_dmah(second), 0);
}

/* ---- ibv_reg_mr_ex --------------------------------------------------------------------------- */

static struct ibv_mr *reg(struct ibv_pd *pd, struct vb_abi_mr_init_attr attr)
{
	return ibv_reg_mr_ex(pd, (void *)&attr);
}

#define ATTR(mask, ...) \
	((struct vb_abi_mr_init_attr){ .access = LOCAL, .comp_mask = (mask), __VA_ARGS__ })

static void by_struct(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	static char memory[BYTES];
	struct ibv_dmah_init_attr none = { 0 };
	struct ibv_dmah *dmah = ibv_alloc_dmah(pd->context, &none);
	bool no_dmabufs = access("/dev/udmabuf", F_OK);
	const uint64_t addr = IBV_REG_MR_MASK_ADDR, iova = IBV_REG_MR_MASK_IOVA;
	const uint64_t fd = IBV_REG_MR_MASK_FD, offset = IBV_REG_MR_MASK_FD_OFFSET;
	struct ibv_mr *mr = reg(pd, ATTR(addr, .length = BYTES, .addr = memory));

	CT_TRUE(mr && mr->addr == memory && mr->length == BYTES && mr->pd == pd);
	CT_EQ(ibv_dereg_mr(mr), 0);
	mr = reg(pd, ATTR(addr | IBV_REG_MR_MASK_DMAH, .length = 8, .addr = memory, .dmah = dmah));
	CT_TRUE(mr != NULL);
	CT_ERROR(ibv_dealloc_dmah(dmah), EBUSY);
	CT_NULL(reg(pd,
		    (struct vb_abi_mr_init_attr){
			    .length = 8,
			    .access = LOCAL | IBV_ACCESS_ON_DEMAND,
			    .comp_mask = addr | IBV_REG_MR_MASK_DMAH,
			    .addr = memory,
			    .dmah = dmah,
		    }),
		EINVAL);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(ibv_dealloc_dmah(dmah), 0);

	CT_NULL(reg(pd,
		    ATTR(addr | IBV_REG_MR_MASK_DMAH, .length = 8, .addr = memory, .dmah = dmah)),
		EINVAL);
	CT_NULL(reg(pd, ATTR(0, .length = 8, .addr = memory)), EINVAL);
	CT_NULL(reg(pd, ATTR(iova, .length = 8)), EINVAL);
	CT_NULL(reg(pd, ATTR(addr | fd | offset | iova, .length = 8, .addr = memory)), EINVAL);
	CT_NULL(reg(pd, ATTR(fd | iova, .length = 8)), EINVAL);
	CT_NULL(reg(pd, ATTR(addr | offset, .length = 8, .addr = memory)), EINVAL);
	CT_NULL(reg(pd, ATTR(fd | offset, .length = 8)), EINVAL);
	CT_NULL(reg(pd, ATTR(addr | 1ull << 40, .length = 8, .addr = memory)), EINVAL);
	CT_NULL(reg(NULL, ATTR(addr, .length = 8, .addr = memory)), EINVAL);
	CT_NULL(reg(pd, ATTR(addr, .length = 8, .addr = (void *)4096)), EFAULT);
	CT_NULL(reg(pd, ATTR(fd | offset | iova, .length = 4096, .fd = -1)),
		no_dmabufs ? EOPNOTSUPP : EBADF);
}

/* The address that keys name may be another one. */
static void with_iova(struct ct *t)
{
	static const uint64_t IOVA = 0x70000000;
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_sge far = ct_sge(t->far, 0, BYTES);
	struct ct_link l;
	struct ibv_mr *mr;
	struct ibv_sge own;
	struct ibv_send_wr wr;

	ct_link_open(t, &l, NULL);
	ct_fill(t->near, 1 << 20, BYTES, 7);
	mr = reg(pd, ATTR(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA, .length = BYTES,
			  .iova = IOVA, .addr = (void *)(uintptr_t)(t->near->base + (1 << 20))));
	CT_TRUE(mr != NULL);
	own = (struct ibv_sge){ IOVA, BYTES, mr->lkey };
	wr = ct_wr(&l, IBV_WR_RDMA_WRITE, 1, &own, 1);
	ct_aim(&wr, far.addr, t->far->mr.rkey);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_same(t->far, 0, BYTES, 7);
	CT_EQ(ibv_dereg_mr(mr), 0);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void buffers(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct ibv_pd *other = ibv_alloc_pd(ct_context(t->near));
	struct ibv_buf *buf = NULL;
	char *at = ibv_alloc_buf(other, BYTES, &buf);
	const uint64_t mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
	struct ibv_mr *mr;

	CT_TRUE(at && buf && !((uintptr_t)at & 4095));
	memset(at, 1, BYTES);
	CT_ERROR(ibv_dealloc_pd(other), EBUSY);
	CT_NULL(ibv_reg_buf_mr(pd, buf, at, BYTES, LOCAL), EINVAL);
	CT_NULL(ibv_reg_buf_mr(other, buf, at, BYTES + 1, LOCAL), EINVAL);
	CT_NULL(ibv_reg_buf_mr(other, buf, at + 1, BYTES, LOCAL), EINVAL);
	CT_NULL(ibv_reg_buf_mr(other, buf, at - 1, 1, LOCAL), EINVAL);
	CT_NULL(ibv_reg_buf_mr(other, NULL, at, 1, LOCAL), EINVAL);
	CT_NULL(reg(other, ATTR(IBV_REG_MR_MASK_BUF, .length = 8, .buf = buf)), EINVAL);
	CT_NULL(reg(other, ATTR(mask | IBV_REG_MR_MASK_FD, .length = 8, .addr = at, .buf = buf)),
		EINVAL);
	mr = ibv_reg_buf_mr(other, buf, at + 8, BYTES - 8, LOCAL);
	CT_TRUE(mr && mr->addr == at + 8 && mr->length == BYTES - 8);
	CT_EQ(ibv_dereg_mr(mr), 0);
	mr = reg(other, ATTR(mask, .length = BYTES, .addr = at, .buf = buf));
	CT_TRUE(mr != NULL);
	CT_ERROR(ibv_export_buf_dmabuf_fd(buf) == -1 ? errno : 0, ENODATA);

	/* The pages stay while a region is there, as pinned ones do. */
	ibv_free_buf(buf);
	CT_EQ(at[BYTES - 1], 1);
	CT_NULL(ibv_reg_buf_mr(other, buf, at, 8, LOCAL), EINVAL);
	ibv_free_buf(buf);
	CT_EQ(ibv_dereg_mr(mr), 0);
	CT_EQ(mincore((void *)((uintptr_t)at & ~4095ul), 1, (void *)&(char){ 0 }), -1);
	CT_EQ(errno, ENOMEM);
	CT_EQ(ibv_dealloc_pd(other), 0);
	CT_NULL(ibv_alloc_buf(pd, 0, &buf), EINVAL);
	CT_NULL(ibv_alloc_buf(pd, SIZE_MAX, &buf), EINVAL);
	CT_NULL(ibv_alloc_buf(NULL, 64, &buf), EINVAL);
}

/* ---- device memory as a dma-buf -------------------------------------------------------------- */

static void exported_dm(struct ct *t)
{
	struct ibv_alloc_dm_attr attr = { .length = 8000 };
	struct ibv_dm *dm = ibv_alloc_dm(ct_context(t->near), &attr);
	uint64_t value = 0x1122334455667788;
	bool any = !access("/dev/udmabuf", R_OK | W_OK), none = access("/dev/udmabuf", F_OK);
	uint64_t *at;
	int fd;

	CT_TRUE(dm != NULL);
	errno = 0;
	fd = ibv_dm_export_dmabuf_fd(dm);
	if (!any) {
		CT_EQ(fd, -1);
		CT_EQ(errno, none ? EOPNOTSUPP : EACCES);
	} else {
		CT_TRUE(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
		at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CT_TRUE(at != MAP_FAILED);
		CT_EQ(ibv_memcpy_to_dm(dm, 0, &value, 8), 0);
		CT_TRUE(at[0] == value);
		munmap(at, 8192);
		close(fd);
	}
	CT_EQ(ibv_free_dm(dm), 0);
	CT_EQ(ibv_dm_export_dmabuf_fd(dm), -1);
	CT_EQ(errno, EINVAL);
}

static void port_speed(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	uint64_t speed = 0;

	CT_EQ(ibv_query_port_speed(ctx, 1, &speed), 0);
	CT_TRUE(speed > 0);
	CT_ERROR(ibv_query_port_speed(ctx, 0, &speed), EINVAL);
	CT_ERROR(ibv_query_port_speed(ctx, 2, &speed), EINVAL);
	CT_ERROR(ibv_query_port_speed(ctx, 257, &speed), EINVAL);
}

const struct ct_case ct_mr_ex_cases[] = {
	{ "a DMA handle has known hints, and a CPU of this process", dma_handles, CT_SOLO },
	{ "reg_mr_ex takes an address or a dma-buf, and keeps its DMA handle", by_struct, CT_SOLO },
	{ "reg_mr_ex takes an iova", with_iova, CT_RC },
	{ "buffers of alloc_buf belong to their PD, and stay while a region is there", buffers,
	  CT_SOLO },
	{ "device memory is exported as a dma-buf, where the host makes them", exported_dm,
	  CT_SOLO },
	{ "the speed of a port is that of its link", port_speed, CT_SOLO },
	{ 0 },
};
