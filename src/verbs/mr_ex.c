/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration with a struct: memory by its address, a dma-buf, or a buffer of ibv_alloc_buf. */
#include <stdlib.h>

#include "abi/verbs.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/buf.h"
#include "nic/dmabuf.h"
#include "nic/dmah.h"
#include "system/forward.h"
#include "verbs/given.h"

enum {
	IOVA = IBV_REG_MR_MASK_IOVA,
	ADDR = IBV_REG_MR_MASK_ADDR,
	FD = IBV_REG_MR_MASK_FD,
	FD_OFFSET = IBV_REG_MR_MASK_FD_OFFSET,
	DMAH = IBV_REG_MR_MASK_DMAH,
	BUF = IBV_REG_MR_MASK_BUF,
	MASK_KNOWN = IOVA | ADDR | FD | FD_OFFSET | DMAH | BUF,
};

static const char call[] = "ibv_reg_mr_ex";

/* Which fields go together? An older struct has no `buf`, and its programs do not set the bit. */
static int check_mask(uint64_t mask, unsigned access)
{
	const char *why = NULL;

	if (mask & ~(uint64_t)MASK_KNOWN)
		why = "the comp_mask has bits without a meaning";
	else if (!(mask & FD) == !(mask & ADDR))
		why = "a region has an address, or the descriptor of a dma-buf";
	else if (!(mask & FD) != !(mask & FD_OFFSET))
		why = "a dma-buf has a descriptor and an offset";
	else if (mask & FD && !(mask & IOVA))
		why = "a region in a dma-buf needs an iova";
	else if (mask & BUF && !(mask & ADDR))
		why = "a buffer of ibv_alloc_buf is registered by an address in it";
	else if (mask & DMAH && access & IBV_ACCESS_ON_DEMAND)
		why = "a region on demand has no DMA handle";
	if (!why)
		return 0;
	vb_explain("%s: %s", call, why);
	return -EINVAL;
}

static int check_buf(const struct ibv_pd *pd, const struct vb_abi_mr_init_attr *attr)
{
	const char *why = NULL;

	if (vb_given_check(VB_GIVEN_BUF, attr->buf, call))
		return -EINVAL;
	if (&attr->buf->pd->ibv != pd)
		why = "the buffer was allocated from another PD";
	else if (!vb_buf_has(attr->buf, attr->addr, attr->length))
		why = "the range is not inside the buffer";
	if (!why)
		return 0;
	vb_explain("%s: %s", call, why);
	return -EINVAL;
}

static int check_attr(struct ibv_pd *pd, const struct vb_abi_mr_init_attr *attr)
{
	int err = check_mask(attr->comp_mask, (unsigned)attr->access);

	if (!err && attr->comp_mask & FD && !vb_dmabuf_any()) {
		vb_explain("%s: this machine has no /dev/udmabuf", call);
		return -EOPNOTSUPP;
	}
	if (!err)
		err = vb_verbs_check_pd(pd, call);
	if (!err && attr->comp_mask & DMAH)
		err = vb_given_check_in(pd->context, VB_GIVEN_DMAH, attr->dmah, call);
	if (!err && attr->comp_mask & BUF)
		err = check_buf(pd, attr);
	return err;
}

static int make_region(struct vb_pd *pd, const struct vb_abi_mr_init_attr *attr, struct vb_mr **out)
{
	const bool fd = attr->comp_mask & FD;
	struct vb_mr_spec spec = { .length = attr->length,
				   .iova = attr->iova,
				   .access = (unsigned)attr->access };
	int err;

	if (fd) {
		err = vb_dmabuf_register(pd, attr->fd, attr->fd_offset, &spec, out);
		if (!err)
			(*out)->ibv.addr = (void *)(uintptr_t)attr->fd_offset;
		return err;
	}
	spec.addr = (uintptr_t)attr->addr;
	if (!(attr->comp_mask & IOVA))
		spec.iova = spec.addr;
	return vb_mr_register(pd, &spec, out);
}

VB_PUBLIC struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *ibv_attr)
{
	VB_SYSTEM_PASS(pd, ibv_reg_mr_ex, (pd, ibv_attr));
	VB_NO_CANCEL;

	/* The mask says whether the last member is there. */
	const struct vb_abi_mr_init_attr *attr = (const void *)ibv_attr;
	struct vb_mr *mr = NULL;
	int err = check_attr(pd, attr);

	if (!err)
		err = make_region(vb_pd(pd), attr, &mr);
	if (err)
		return vb_return_null(err);
	if (attr->comp_mask & DMAH) {
		mr->dmah = vb_dmah(attr->dmah);
		atomic_fetch_add(&mr->dmah->users, 1);
	}
	if (attr->comp_mask & BUF) {
		mr->buf = attr->buf;
		vb_buf_hold(mr->buf);
	}
	return vb_verbs_give_mr(mr, 0);
}

VB_PUBLIC struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
					size_t length, int access)
{
	VB_SYSTEM_PASS(pd, ibv_reg_buf_mr, (pd, buf, addr, length, access));
	VB_NO_CANCEL;
	struct vb_abi_mr_init_attr attr = { .length = length,
					    .access = access,
					    .comp_mask = BUF | ADDR,
					    .addr = addr,
					    .buf = buf };

	return ibv_reg_mr_ex(pd, (void *)&attr);
}
