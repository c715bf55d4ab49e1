/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"

#define ID_PRIVATE (1ull << 63)

/* Domains of two devices differ, even with the same file. */
static uint32_t device_mark(const struct ibv_context *ctx)
{
	uint32_t mark = 2166136261u;

	for (const char *c = ctx->device->name; *c; c++)
		mark = (mark ^ (uint8_t)*c) * 16777619u;
	return mark & 0x7fffffff;
}

static struct vb_xrcd_id id_private(struct vb_nic *nic, uint32_t number)
{
	return (struct vb_xrcd_id){ { ID_PRIVATE | nic->seg.head->nonce >> 1,
				      (uint64_t)nic->seg.head->slot << 32 | number } };
}

static int id_of_file(const struct ibv_context *ctx, int fd, struct vb_xrcd_id *id)
{
	struct stat st;

	if (fstat(fd, &st)) {
		vb_explain("ibv_open_xrcd: fd %d is not an open file", fd);
		return -errno;
	}
	id->word[0] = (uint64_t)device_mark(ctx) << 32 | (uint32_t)st.st_dev;
	id->word[1] = st.st_ino;
	return 0;
}

static int xrcd_enlist(struct vb_xrcd *xrcd)
{
	struct vb_nic *nic = xrcd->nic;
	int err = -ENOMEM;

	pthread_mutex_lock(&nic->lock);
	if (nic->xrcd_count < VB_XRCD_MAX) {
		nic->xrcd_count++;
		xrcd->number = ++nic->next_xrcd;
		vb_list_append(&nic->xrcds, &xrcd->node);
		err = 0;
	}
	pthread_mutex_unlock(&nic->lock);
	if (err)
		vb_explain("all %d XRC domains are in use", VB_XRCD_MAX);
	return err;
}

static int share(struct vb_xrcd *xrcd, int fd, int oflags)
{
	int err = id_of_file(xrcd->ibv.context, fd, &xrcd->id);

	if (err)
		return err;
	/* The caller may close and unlink the file: no other file may get its number meanwhile. */
	xrcd->file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (xrcd->file < 0)
		return -errno;
	xrcd->file = vb_fd_high(xrcd->file);
	xrcd->claim = vb_xrcd_claim(&xrcd->id, oflags);
	if (xrcd->claim >= 0)
		return 0;
	err = xrcd->claim;
	xrcd->claim = -1;
	if (err == -EAGAIN)
		vb_explain("ibv_open_xrcd: nobody has a domain with this file open, and oflags "
			   "lack O_CREAT");
	else if (err == -EINVAL)
		vb_explain(
			"ibv_open_xrcd: there is a domain with this file, and oflags have O_EXCL");
	return err;
}

static void let_go(struct vb_xrcd *xrcd)
{
	vb_fd_close(&xrcd->claim);
	vb_fd_close(&xrcd->file);
}

int vb_xrcd_open(struct ibv_context *ctx, int fd, int oflags, struct vb_xrcd **out)
{
	struct vb_nic *nic = vb_nic_get();
	struct vb_xrcd *xrcd = nic ? calloc(1, sizeof(*xrcd)) : NULL;
	int err = 0;

	if (!xrcd)
		return nic ? -ENOMEM : -errno;
	xrcd->ibv.context = ctx;
	xrcd->nic = nic;
	xrcd->claim = xrcd->file = -1;
	if (fd != -1)
		err = share(xrcd, fd, oflags);
	if (!err)
		err = xrcd_enlist(xrcd);
	if (err) {
		let_go(xrcd);
		free(xrcd);
		return err;
	}
	if (fd == -1)
		xrcd->id = id_private(nic, xrcd->number);
	atomic_fetch_add(&vb_context(ctx)->objects, 1);
	*out = xrcd;
	return 0;
}

/* All under the lock: a child that is forked meanwhile must find all descriptors to close. */
static void unlist(struct vb_xrcd *xrcd)
{
	struct vb_nic *nic = xrcd->nic;

	pthread_mutex_lock(&nic->lock);
	nic->xrcd_count--;
	vb_list_remove(&xrcd->node);
	let_go(xrcd);
	pthread_mutex_unlock(&nic->lock);
}

void vb_xrc_forget(struct vb_nic *nic)
{
	vb_list_for(xrcd, &nic->xrcds, struct vb_xrcd, node)
		let_go(xrcd);
	vb_list_for(handle, &nic->xrc_handles, struct vb_xrc_handle, node)
		vb_fd_close(&handle->session);
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		vb_list_for(session, &qp->sessions, struct vb_xrc_session, node)
			vb_fd_close(&session->fd);
	}
}

int vb_xrcd_close(struct vb_xrcd *xrcd)
{
	if (xrcd->nic == vb_nic_current()) {
		if (atomic_load(&xrcd->users)) {
			vb_explain("ibv_close_xrcd: %u SRQs and QPs still belong to the domain",
				   atomic_load(&xrcd->users));
			return -EBUSY;
		}
		unlist(xrcd);
	}
	atomic_fetch_sub(&vb_context(xrcd->ibv.context)->objects, 1);
	free(xrcd);
	return 0;
}
