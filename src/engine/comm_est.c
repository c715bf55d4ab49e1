/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that takes in a first message finds out that communication is established. The thread
 * holds locks then. So it sends the QP number through a pipe to the service thread, which holds
 * none. A pipe keeps the numbers in order, is never half written, and wakes the reader.
 */
#include "engine/comm_est.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fork.h"
#include "base/message.h"
#include "engine/watch.h"

enum { AT_ONCE = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*_Atomic the_hook)(uint32_t qpn);
static _Atomic int writer = -1; /* both ends are open, or none */
static int reader = -1;

/* fork: the child begins anew. */
static void forget_in_child(void)
{
	int fd = atomic_exchange(&writer, -1);

	vb_fd_close(&fd);
	vb_fd_close(&reader);
	atomic_store(&the_hook, NULL);
	pthread_mutex_init(&lock, NULL);
}

static const struct vb_fork_handlers at_fork = { .child = forget_in_child };

/* A full pipe loses a number. The RTU of the peer establishes the connection then. */
static void tell_service(uint32_t qpn)
{
	int fd = atomic_load(&writer);

	if (fd >= 0 && vb_write(fd, &qpn, sizeof(qpn)) < 0)
		return;
}

static void on_readable(int fd, void *arg)
{
	uint32_t qpns[AT_ONCE];
	ssize_t size = read(fd, qpns, sizeof(qpns));
	void (*hook)(uint32_t qpn) = atomic_load(&the_hook);

	(void)arg;
	for (ssize_t i = 0; hook && i < size / (ssize_t)sizeof(*qpns); i++)
		hook(qpns[i]);
}

static int open_pipe(struct vb_nic *nic)
{
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	reader = vb_fd_high(ends[0]);
	ends[1] = vb_fd_high(ends[1]);
	err = vb_watch(nic, reader, on_readable, NULL);
	if (err) {
		vb_fd_close(&reader);
		vb_fd_close(&ends[1]);
		return err;
	}
	atomic_store(&writer, ends[1]);
	return 0;
}

int vb_comm_est_watch(struct vb_nic *nic, void (*hook)(uint32_t qpn))
{
	int err = 0;

	vb_fork_register(VB_FORK_COMM_EST, &at_fork);
	pthread_mutex_lock(&lock);
	if (hook && atomic_load(&writer) < 0)
		err = open_pipe(nic);
	if (!err) {
		atomic_store(&the_hook, hook);
		atomic_store(&vb_qp_established, hook ? tell_service : NULL);
	}
	pthread_mutex_unlock(&lock);
	return err;
}
