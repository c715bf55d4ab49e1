/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "nic/fact.h"

int vb_buf_alloc(struct vb_pd *pd, size_t length, struct ibv_buf **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_buf *buf;

	if (!length || length > vb_fact(VB_FACT_MAX_MR_SIZE)) {
		vb_explain("ibv_alloc_buf: a buffer has 1 to %llu bytes",
			   (unsigned long long)vb_fact(VB_FACT_MAX_MR_SIZE));
		return -EINVAL;
	}
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return -ENOMEM;
	buf->mapping_length = (length + page - 1) / page * page;
	buf->bytes = mmap(NULL, buf->mapping_length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf->bytes == MAP_FAILED) {
		free(buf);
		return -ENOMEM;
	}
	buf->pd = pd;
	buf->nic = pd->nic;
	buf->length = length;
	atomic_store(&buf->holders, 1);
	atomic_fetch_add(&pd->users, 1);
	*out = buf;
	return 0;
}

void vb_buf_hold(struct ibv_buf *buf)
{
	atomic_fetch_add(&buf->holders, 1);
}

void vb_buf_release(struct ibv_buf *buf)
{
	if (atomic_fetch_sub(&buf->holders, 1) > 1)
		return;
	munmap(buf->bytes, buf->mapping_length);
	free(buf);
}

bool vb_buf_has(const struct ibv_buf *buf, const void *at, size_t length)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)buf->bytes;

	return (uintptr_t)at >= (uintptr_t)buf->bytes && offset <= buf->length &&
	       length <= buf->length - offset;
}
