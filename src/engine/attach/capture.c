/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/capture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fork.h"
#include "capture/ring.h"
#include "engine/attach/describe.h"
#include "engine/watch.h"

/* A program of this user that captures answers at once, unless the machine is busy. */
enum { SESSIONS = 8, REQUEST_MS = 3000 };

/* One per program that captures. */
static struct session {
	int fd; /* 0: unused */
	uint32_t bytes;
} sessions[SESSIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The child does not take part; its copies of the sockets would hide the end of the parent. */
static void forget_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	for (unsigned i = 0; i < SESSIONS; i++)
		if (sessions[i].fd)
			close(sessions[i].fd);
	memset(sessions, 0, sizeof(sessions));
	vb_capture_forget();
}

static const struct vb_fork_handlers at_fork = { .child = forget_in_child };

static struct session *session_find(int fd)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		if (sessions[i].fd == fd)
			return &sessions[i];
	return NULL;
}

/* Captures as much as the most curious program asks for. Returns the ring, or -errno. */
static int sessions_apply(void)
{
	uint32_t bytes = 0;
	bool any = false;

	for (unsigned i = 0; i < SESSIONS; i++) {
		any |= sessions[i].fd > 0;
		if (sessions[i].fd && sessions[i].bytes > bytes)
			bytes = sessions[i].bytes;
	}
	if (any)
		return vb_capture_start(bytes);
	vb_capture_stop();
	return 0;
}

/* Called by the service thread. A program says no more than its request: it has hung up. */
static void on_hang_up(int fd, void *nic)
{
	struct session *session;

	vb_unwatch(nic, fd);
	pthread_mutex_lock(&lock);
	session = session_find(fd);
	if (session)
		*session = (struct session){ 0 };
	sessions_apply();
	pthread_mutex_unlock(&lock);
	close(fd);
}

/* Returns the ring, or -errno. Under lock. */
static int session_add(int fd, uint32_t bytes)
{
	struct session *session = session_find(0);
	int ring;

	if (!session)
		return -EBUSY;
	*session = (struct session){ fd, bytes < VB_CAPTURE_ALL ? bytes : VB_CAPTURE_ALL };
	ring = sessions_apply();
	if (ring < 0)
		*session = (struct session){ 0 };
	return ring;
}

static bool read_request(int socket, uint32_t *bytes)
{
	struct vb_capture_request request;
	ssize_t size = recv(socket, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);

	*bytes = request.bytes;
	return size == (ssize_t)sizeof(request) && request.magic == VB_CAPTURE_MAGIC &&
	       request.version == VB_CAPTURE_VERSION;
}

bool vb_capture_serve(struct vb_nic *nic, int socket)
{
	struct vb_capture_answer answer = { .magic = VB_CAPTURE_MAGIC,
					    .version = VB_CAPTURE_VERSION };
	uint32_t bytes;
	int ring = -EPERM;
	bool kept = false;

	if (!read_request(socket, &bytes))
		return false;
	vb_fork_register(VB_FORK_CAPTURE, &at_fork);
	pthread_mutex_lock(&lock);
	if (vb_describe_may_ask(socket))
		ring = session_add(socket, bytes);
	answer.error = ring < 0 ? (uint32_t)-ring : 0;
	if (ring >= 0)
		vb_capture_place(&answer.position, &answer.number);
	kept = vb_fd_send(socket, &answer, sizeof(answer), ring < 0 ? -1 : ring) && ring >= 0 &&
	       !vb_watch_running(nic, socket, on_hang_up, nic);
	if (ring >= 0 && !kept) {
		*session_find(socket) = (struct session){ 0 };
		sessions_apply();
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

/* --- looking for programs that capture --- */

static int listener_connect(uid_t uid, unsigned number)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = vb_capture_name(address.sun_path + 1, uid, number);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    !connect(fd, (void *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		return fd;
	close(fd);
	return -1;
}

static void listener_join(struct vb_nic *nic, uid_t uid, unsigned number)
{
	int fd = vb_fd_high(listener_connect(uid, number));
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	if (fd < 0)
		return;
	/* Any user can have bound the name, and a program that captures can be stopped. */
	if (!vb_describe_may_ask(fd) || poll(&wait, 1, REQUEST_MS) <= 0 ||
	    !vb_capture_serve(nic, fd))
		close(fd);
}

void vb_capture_join(struct vb_nic *nic)
{
	const int before = errno;

	for (unsigned number = 0; number < VB_CAPTURE_NAMES; number++) {
		listener_join(nic, geteuid(), number);
		if (geteuid())
			listener_join(nic, 0, number);
	}
	errno = before;
}
