/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload-sockets/real.h"

#include "preload-sockets/share.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "preload-sockets/pump.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static unsigned handed_over; /* connections that were handed over and have not ended */

void vb_share_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&ended, NULL);
	handed_over = 0;
}

static void share_put(struct vb_share *share)
{
	if (atomic_fetch_sub(&share->refs, 1) != 1)
		return;
	vb_fd_close(&share->ours);
	vb_fd_close(&share->theirs);
	vb_fd_close(&share->wake_fd);
	vb_rs_put(share->rs);
	free(share);
}

static void *run_pump(void *argument)
{
	struct vb_share *share = argument;

	vb_pump_run(share->pump);
	vb_rs_close(share->rs);
	pthread_mutex_lock(&lock);
	handed_over--;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
	share_put(share);
	return NULL;
}

/* Under lock. */
static int start_pump(struct vb_share *share)
{
	sigset_t all, before;
	pthread_t thread;
	int err;

	share->pump = vb_pump_create(share);
	if (!share->pump)
		return -ENOMEM;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	err = pthread_create(&thread, NULL, run_pump, share);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err) {
		pthread_detach(thread);
		return 0;
	}
	free(share->pump);
	share->pump = NULL;
	return -err;
}

/* A child has written. */
static void on_written(struct vb_rs_service_watch *watch)
{
	struct vb_share *share = vb_container(watch, struct vb_share, watch);
	bool unwatch;

	pthread_mutex_lock(&lock);
	unwatch = share->watched;
	share->watched = false;
	if (unwatch && !share->pump)
		start_pump(share); /* after a failure vb_share_hand_over tries again */
	pthread_mutex_unlock(&lock);
	if (unwatch)
		vb_rs_service_unwatch(watch);
}

static void unwatched(struct vb_rs_service_watch *watch)
{
	share_put(vb_container(watch, struct vb_share, watch));
}

static int open_ends(struct vb_share *share)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	share->ours = vb_fd_high(ends[0]);
	share->theirs = vb_fd_high(ends[1]);
	share->wake_fd = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return share->ours < 0 || share->theirs < 0 || share->wake_fd < 0 ? -EMFILE : 0;
}

struct vb_share *vb_share_create(struct vb_rs *rs)
{
	struct vb_share *share = calloc(1, sizeof(*share));
	socklen_t size = sizeof(share->local);

	if (!share)
		return NULL;
	atomic_init(&share->refs, 1);
	share->ours = share->theirs = share->wake_fd = -1;
	share->rs = rs;
	vb_rs_get(rs);
	vb_rs_name_local(rs, &share->local.sa, &size);
	share->peer = rs->peer;
	if (open_ends(share)) {
		share_put(share);
		return NULL;
	}
	share->watch = (struct vb_rs_service_watch){ .ready = on_written,
						     .gone = unwatched,
						     .fd = share->ours };
	atomic_fetch_add(&share->refs, 1);
	share->watched = true;
	if (vb_rs_service_watch(&share->watch)) {
		share->watched = false;
		share_put(share);
	}
	return share;
}

void vb_share_set_nonblock(struct vb_share *share, bool nonblock)
{
	vb_real()->fcntl(share->theirs, F_SETFL, nonblock ? O_NONBLOCK : 0);
}

int vb_share_theirs(const struct vb_share *share)
{
	return share->theirs;
}

/* No process has the children's end, and all bytes of it were read. */
static bool is_deserted(const struct vb_share *share)
{
	char byte;

	return !vb_real()->recv(share->ours, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

void vb_share_hand_over(struct vb_share *share)
{
	const uint64_t one = 1;
	bool unwatch, pumped;

	pthread_mutex_lock(&lock);
	vb_fd_close(&share->theirs);
	share->alone = true;
	handed_over++;
	unwatch = share->watched;
	share->watched = false;
	pumped = share->pump;
	if (!pumped && !is_deserted(share))
		pumped = !start_pump(share);
	if (pumped && vb_real()->write(share->wake_fd, &one, sizeof(one)) < 0)
		pumped = true; /* the counter is full, so the pump wakes anyway */
	if (!pumped)
		handed_over--;
	pthread_mutex_unlock(&lock);
	if (unwatch)
		vb_rs_service_unwatch(&share->watch);
	if (pumped)
		return;
	vb_rs_close(share->rs);
	share_put(share);
}

void vb_share_wait_all(void)
{
	pthread_mutex_lock(&lock);
	while (handed_over)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
}

/* --- in the child: rsocket and threads stay with the parent --- */

void vb_share_take(const struct vb_share *share, int fd)
{
	const int flags = vb_real()->fcntl(fd, F_GETFD);

	vb_real()->dup3(share->theirs, fd, flags > 0 && flags & FD_CLOEXEC ? O_CLOEXEC : 0);
}

void vb_share_leave(struct vb_share *share)
{
	vb_fd_close(&share->ours);
	vb_fd_close(&share->theirs);
	vb_fd_close(&share->wake_fd);
}

void vb_share_name_local(const struct vb_share *share, struct sockaddr *addr, socklen_t *size)
{
	vb_rs_copy_addr(&share->local, addr, size);
}

void vb_share_name_peer(const struct vb_share *share, struct sockaddr *addr, socklen_t *size)
{
	vb_rs_copy_addr(&share->peer, addr, size);
}
