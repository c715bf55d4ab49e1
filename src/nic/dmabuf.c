/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/udmabuf.h>

#include "base/log.h"
#include "nic/odp.h"
#include "nic/qp.h"

enum {
	PAGE_MASK = 4095,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING,
};

bool vb_dmabuf_any(void)
{
	return !access("/dev/udmabuf", F_OK);
}

int vb_dmabuf_make(int memfd, uint64_t offset, uint64_t length)
{
	struct udmabuf_create create = { .memfd = (uint32_t)memfd,
					 .flags = UDMABUF_FLAGS_CLOEXEC,
					 .offset = offset,
					 .size = length };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (device < 0)
		return errno == ENOENT || errno == ENODEV || errno == ENXIO ? -EOPNOTSUPP : -errno;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		fd = -errno;
	close(device);
	return fd;
}

static bool is_dmabuf(int fd)
{
	static const char prefix[] = "/dmabuf";
	char path[40], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target));
	return length >= (ssize_t)strlen(prefix) && !memcmp(target, prefix, strlen(prefix));
}

static int check_range(int fd, uint64_t offset, const struct vb_mr_spec *spec)
{
	const char *why = NULL;
	off_t size;

	if (fcntl(fd, F_GETFD) < 0)
		return -EBADF;
	size = is_dmabuf(fd) ? lseek(fd, 0, SEEK_END) : -1;
	if (size < 0)
		why = "the file is not a dma-buf";
	else if (!spec->length || offset > (uint64_t)size || spec->length > (uint64_t)size - offset)
		why = "the range is not inside the dma-buf";
	else if ((offset ^ spec->iova) & PAGE_MASK || spec->iova + spec->length < spec->iova)
		why = "iova and offset differ within a page";
	else if (spec->access & ~(unsigned)(ACCESS | IBV_ACCESS_OPTIONAL_RANGE))
		why = "an access flag is not supported for dma-bufs";
	if (!why)
		return vb_mr_check_access(spec->access);
	vb_explain("ibv_reg_dmabuf_mr: %s", why);
	return -EINVAL;
}

/*
 * Newer kernels map the pages, but do not copy them for process_vm_*. Then peers send packets, and
 * this process copies. A connection that is in use already keeps its path.
 */
static void find_reach(struct vb_nic *nic, void *at)
{
	char byte;

	if (vb_odp_read(&byte, at, 1))
		return;
	pthread_mutex_lock(&nic->lock);
	nic->own_hands = true;
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		atomic_fetch_or(&qp->entry->by_packets, VB_BY_PACKETS_MEMORY);
	pthread_mutex_unlock(&nic->lock);
}

int vb_dmabuf_register(struct vb_pd *pd, int fd, uint64_t offset, const struct vb_mr_spec *spec,
		       struct vb_mr **out)
{
	int protection = PROT_READ | (spec->access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	struct vb_mr_spec mapped = *spec;
	struct vb_mr *mr;
	void *at;
	int err;

	err = check_range(fd, offset, spec);
	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->mapping_length = spec->length + (offset & PAGE_MASK);
	at = mmap(NULL, mr->mapping_length, protection, MAP_SHARED, fd,
		  (off_t)(offset & ~(uint64_t)PAGE_MASK));
	if (at == MAP_FAILED) {
		err = -errno;
		free(mr);
		return err;
	}
	mr->mapping = at;
	mapped.addr = (uintptr_t)at + (offset & PAGE_MASK);
	find_reach(pd->nic, at);
	*out = mr;
	err = vb_mr_create(mr, pd, &mapped);
	if (err)
		munmap(at, spec->length + (offset & PAGE_MASK));
	return err;
}
