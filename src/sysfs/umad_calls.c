/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaced calls: ioctl and write, where the descriptor is of a umad file. */
#include "sysfs/real.h"

#include <errno.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "sysfs/reread.h"
#include "sysfs/umad.h"

/* --- ioctl --- */

static int register_old(struct vb_umad_file *file, struct ib_user_mad_reg_req *request)
{
	struct ib_user_mad_reg_req2 converted = {
		.qpn = request->qpn,
		.mgmt_class = request->mgmt_class,
		.mgmt_class_version = request->mgmt_class_version,
		.oui = (uint32_t)request->oui[0] << 16 | (uint32_t)request->oui[1] << 8 |
		       request->oui[2],
		.rmpp_version = request->rmpp_version,
	};
	uint32_t id;
	int err;

	memcpy(converted.method_mask, request->method_mask, sizeof(converted.method_mask));
	err = vb_umad_register(file, &converted, &id);
	if (!err)
		request->id = id;
	return err;
}

static int register_new(struct vb_umad_file *file, struct ib_user_mad_reg_req2 *request)
{
	uint32_t id;
	int err = vb_umad_register(file, request, &id);

	if (!err)
		request->id = id;
	if (request->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP)
		request->flags = IB_USER_MAD_REG_FLAGS_CAP; /* tells what there is */
	return err;
}

static int enable_pkeys(struct vb_umad_file *file)
{
	if (file->begun)
		return -EINVAL;
	file->pkeys = true;
	return 0;
}

static int control(struct vb_umad_file *file, unsigned long request, void *argument)
{
	uint32_t id;

	if (request == IB_USER_MAD_ENABLE_PKEY)
		return enable_pkeys(file);
	if (!argument)
		return -EFAULT;
	switch (request) {
	case IB_USER_MAD_REGISTER_AGENT:
		return register_old(file, argument);
	case IB_USER_MAD_REGISTER_AGENT2:
		return register_new(file, argument);
	case IB_USER_MAD_UNREGISTER_AGENT:
		memcpy(&id, argument, sizeof(id));
		return vb_umad_unregister(file, id);
	default:
		return -ENOTTY;
	}
}

static int control_file(struct vb_umad_file *file, unsigned long request, void *argument)
{
	const int err = control(file, request, argument);

	vb_umad_unlock();
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

VB_PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	struct vb_umad_file *file = NULL;
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (__builtin_expect(_IOC_TYPE(request) == RDMA_IOCTL_MAGIC, 0)) {
		VB_NO_CANCEL;

		file = vb_umad_hold(fd);
		if (file)
			return control_file(file, request, argument);
	}
	return REAL(ioctl)(fd, request, argument);
}

/* --- write --- */

static ssize_t write_file(struct vb_umad_file *file, const void *bytes, size_t size)
{
	VB_NO_CANCEL;
	const int err = vb_umad_send(file, bytes, size);

	if (!err)
		return (ssize_t)size;
	errno = -err;
	return -1;
}

VB_PUBLIC ssize_t write(int fd, const void *bytes, size_t size)
{
	struct vb_umad_file *file;

	if (__builtin_expect(vb_reread_is_suspect(fd), 0)) {
		file = vb_umad_hold(fd);
		if (file) {
			vb_umad_unlock(); /* files are never freed */
			return write_file(file, bytes, size);
		}
	}
	return REAL(write)(fd, bytes, size);
}

/* --- read --- */

/* A buffer that is too short gets the first MAD, and the length of all; nothing is lost. */
static ssize_t refuse_read(int fd, void *buffer, size_t size, size_t header_size)
{
	if (size < header_size + VB_MAD_SIZE) {
		errno = EINVAL;
		return -1;
	}
	(void)REAL(recv)(fd, buffer, header_size + VB_MAD_SIZE, MSG_PEEK | MSG_DONTWAIT);
	errno = ENOSPC;
	return -1;
}

bool vb_umad_read(int fd, void *buffer, size_t size, ssize_t *result)
{
	struct vb_umad_file *file = vb_umad_hold(fd);
	size_t header_size;

	if (!file)
		return false;
	header_size = vb_umad_header_size(file);
	vb_umad_unlock();
	*result = REAL(recv)(fd, NULL, 0, MSG_PEEK | MSG_TRUNC); /* waits, as a read does */
	if (*result >= 0 && (size_t)*result > size)
		*result = refuse_read(fd, buffer, size, header_size);
	else if (*result >= 0)
		*result = REAL(recv)(fd, buffer, size, 0);
	return true;
}
