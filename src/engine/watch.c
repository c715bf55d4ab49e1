/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fork.h"

struct watched {
	struct vb_list node;
	uint64_t number; /* never used again: a late event of a closed descriptor finds no entry */
	struct vb_nic *nic;
	int fd;
	vb_watch_fn ready;
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list all = VB_LIST_INIT(all);
static uint64_t next_number;

/* fork: the child watches none of the parent's descriptors, and the lock may have been held. */
static void forget_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	vb_list_init(&all);
}

static const struct vb_fork_handlers at_fork = { .child = forget_in_child };

static struct watched *find_watched(const struct vb_nic *nic, int fd)
{
	vb_list_for(watched, &all, struct watched, node)
		if (watched->fd == fd && watched->nic == nic)
			return watched;
	return NULL;
}

static int enlist(struct watched *watched)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (find_watched(watched->nic, watched->fd))
		return -EEXIST;
	watched->number = next_number++;
	event.data.u64 = VB_WATCH_EVENT | watched->number;
	if (epoll_ctl(watched->nic->engine->epoll, EPOLL_CTL_ADD, watched->fd, &event))
		return -errno;
	vb_list_append(&all, &watched->node);
	return 0;
}

int vb_watch_running(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg)
{
	struct watched *watched = malloc(sizeof(*watched));
	int err;

	vb_fork_register(VB_FORK_WATCH, &at_fork);
	if (!watched)
		return -ENOMEM;
	*watched = (struct watched){ .nic = nic, .fd = fd, .ready = ready, .arg = arg };
	pthread_mutex_lock(&lock);
	err = enlist(watched);
	pthread_mutex_unlock(&lock);
	if (err)
		free(watched);
	return err;
}

int vb_watch(struct vb_nic *nic, int fd, vb_watch_fn ready, void *arg)
{
	int err = vb_engine_start(nic);

	return err ? err : vb_watch_running(nic, fd, ready, arg);
}

void vb_unwatch(struct vb_nic *nic, int fd)
{
	struct watched *watched;

	pthread_mutex_lock(&lock);
	watched = find_watched(nic, fd);
	if (watched) {
		vb_list_remove(&watched->node);
		epoll_ctl(nic->engine->epoll, EPOLL_CTL_DEL, fd, NULL);
	}
	pthread_mutex_unlock(&lock);
	free(watched);
}

void vb_watch_event(uint64_t data)
{
	struct watched found = { .fd = -1 };

	pthread_mutex_lock(&lock);
	vb_list_for(watched, &all, struct watched, node)
		if ((VB_WATCH_EVENT | watched->number) == data)
			found = *watched;
	pthread_mutex_unlock(&lock);
	if (found.ready)
		found.ready(found.fd, found.arg);
}
