/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/view.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "shm/segment.h"

static _Atomic uint64_t mapped_bytes; /* of all views */

bool vb_view_send(int socket, const struct vb_view_message *message, int fd)
{
	return vb_fd_send(socket, message, sizeof(*message), fd);
}

static bool reserve(uint64_t length)
{
	const uint64_t most = (uint64_t)VB_VIEW_GB_MAX << 30;
	uint64_t used = atomic_load(&mapped_bytes);

	do
		if (length > most - used)
			return false;
	while (!atomic_compare_exchange_weak(&mapped_bytes, &used, used + length));
	return true;
}

void vb_view_unmap(char *base, uint64_t length)
{
	munmap(base, length);
	atomic_fetch_sub(&mapped_bytes, length);
}

/* The file stays as long as it is, so the mapping never faults. */
static char *map_file(int fd, uint64_t length, bool *writes)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;
	char *base;

	if (flags < 0 || !length || length & 4095 || !vb_file_stays(fd) || fstat(fd, &st) ||
	    (uint64_t)st.st_size < length || !reserve(length))
		return NULL;
	*writes = (flags & O_ACCMODE) == O_RDWR;
	base = mmap(NULL, length, *writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		atomic_fetch_sub(&mapped_bytes, length);
		return NULL;
	}
	madvise(base, length, MADV_DONTFORK);
	madvise(base, length, MADV_DONTDUMP);
	return base;
}

/* By the service thread, which alone adds and removes views. */
bool vb_view_add(struct vb_peer *peer, const struct vb_view_message *message, int fd)
{
	struct vb_views *views = atomic_load(&peer->views);
	struct vb_view *view =
		views && message->index < VB_MAPS_MAX ? &views->at[message->index] : NULL;
	uint64_t length;

	/* Without a question, or a place, there is no view. */
	if (!view || atomic_load(&view->serial) || !message->serial ||
	    atomic_load(&view->asked) != message->serial) {
		vb_fd_close(&fd);
		return false;
	}
	length = VB_READ_ONCE(peer->head->maps[message->index].length);
	view->base = map_file(fd, length, &view->writes);
	view->length = length;
	vb_fd_close(&fd);
	if (!view->base)
		return false;
	/* Pairs with the load in vb_mapped_at. */
	atomic_store_explicit(&view->serial, message->serial, memory_order_release);
	return true;
}

bool vb_view_remove(struct vb_peer *peer, uint32_t index, char **base, uint64_t *length)
{
	struct vb_views *views = atomic_load(&peer->views);
	struct vb_view *view = views && index < VB_MAPS_MAX ? &views->at[index] : NULL;

	if (!view || !atomic_load(&view->serial))
		return false;
	*base = view->base;
	*length = view->length;
	/* Before the look at hazards; pairs with the load in vb_mapped_at, inside a hazard. */
	atomic_store(&view->serial, 0);
	return true;
}

void vb_views_drop(struct vb_peer *peer)
{
	struct vb_views *views = atomic_load(&peer->views);
	uint64_t length;
	char *base;

	for (uint32_t i = 0; views && i < VB_MAPS_MAX; i++)
		if (vb_view_remove(peer, i, &base, &length))
			vb_view_unmap(base, length);
	free(views);
}
