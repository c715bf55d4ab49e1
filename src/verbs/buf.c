/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/buf.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "system/forward.h"
#include "verbs/given.h"

VB_PUBLIC void *ibv_alloc_buf(struct ibv_pd *pd, size_t length, struct ibv_buf **out)
{
	VB_SYSTEM_PASS(pd, ibv_alloc_buf, (pd, length, out));
	VB_NO_CANCEL;
	struct ibv_buf *buf;
	int err = vb_verbs_check_pd(pd, "ibv_alloc_buf");

	if (!err)
		err = vb_buf_alloc(vb_pd(pd), length, &buf);
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_BUF, buf);
	if (err) {
		vb_pd_release(buf->pd, buf->nic);
		vb_buf_release(buf);
		return vb_return_null(err);
	}
	*out = buf;
	return buf->bytes;
}

VB_PUBLIC void ibv_free_buf(struct ibv_buf *buf)
{
	VB_SYSTEM_PASS_VOID(buf, ibv_free_buf, (buf));
	VB_NO_CANCEL;

	if (vb_given_end(VB_GIVEN_BUF, buf, "ibv_free_buf"))
		return;
	vb_given_ended(VB_GIVEN_BUF, buf, 0);
	vb_pd_release(buf->pd, buf->nic);
	vb_buf_release(buf);
}

/* Buffers are ordinary memory. The man page has an error for those. */
VB_PUBLIC int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	VB_SYSTEM_PASS(buf, ibv_export_buf_dmabuf_fd, (buf));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_BUF, buf, "ibv_export_buf_dmabuf_fd");

	if (!err)
		vb_explain("ibv_export_buf_dmabuf_fd: the buffer is ordinary memory, which has no "
			   "dma-buf");
	return vb_return_minus_one(err ? err : -ENODATA);
}
