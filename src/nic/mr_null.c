/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory behind null regions, shared by all of the process: address space for the longest
 * message to read zeros from, and as much to write to, which repeats the same 16 MB. So code that
 * copies, here or in a peer, treats a null region like any other.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "nic/mr.h"

#define SINK_SIZE (16ull << 20) /* real memory; the rest of the address space repeats it */

static void *space_reserve(int protection)
{
	void *at = mmap(NULL, VB_MSG_MAX, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* With old size 0 mremap(2) does not move a shared mapping but maps it once more. */
static int sink_repeat(uint8_t *space)
{
	void *first = mmap(space, SINK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (first == MAP_FAILED)
		return -ENOMEM;
	for (uint64_t at = SINK_SIZE; at < VB_MSG_MAX; at += SINK_SIZE)
		if (mremap(first, 0, SINK_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, space + at) ==
		    MAP_FAILED)
			return -ENOMEM;
	return 0;
}

static struct vb_null *null_make(void)
{
	struct vb_null *null = calloc(1, sizeof(*null));
	void *zeros = null ? space_reserve(PROT_READ) : NULL;
	void *sink = zeros ? space_reserve(PROT_NONE) : NULL;

	if (sink && !sink_repeat(sink)) {
		madvise(zeros, VB_MSG_MAX, MADV_DONTDUMP);
		madvise(sink, VB_MSG_MAX, MADV_DONTDUMP);
		null->zeros = (uintptr_t)zeros;
		null->sink = (uintptr_t)sink;
		return null;
	}
	if (sink)
		munmap(sink, VB_MSG_MAX);
	if (zeros)
		munmap(zeros, VB_MSG_MAX);
	free(null);
	return NULL;
}

int vb_null_get(struct vb_nic *nic, const struct vb_null **null)
{
	pthread_mutex_lock(&nic->lock);
	if (!nic->null)
		nic->null = null_make();
	*null = nic->null;
	pthread_mutex_unlock(&nic->lock);
	if (*null)
		return 0;
	vb_explain("ibv_alloc_null_mr: no address space for two times the longest message");
	return -ENOMEM;
}
