/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/capture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/fd.h"
#include "base/fork.h"
#include "capture/ring.h"
#include "engine/attach/describe.h"
#include "engine/watch.h"
#include "nic/stopped.h"

/* A program of this user that captures asks at once, unless the machine is busy. */
enum { SESSIONS = 8, REQUEST_MS = 3000, UNSEEN_MS = 500, LOOK_MS = 50 };

/* One per program that captures. */
static struct session {
	int fd;         /* 0: unused */
	unsigned wants; /* enum vb_capture_want */
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
	unsigned wants = 0;
	uint32_t bytes = 0;

	for (unsigned i = 0; i < SESSIONS; i++) {
		wants |= sessions[i].wants;
		if (sessions[i].bytes > bytes)
			bytes = sessions[i].bytes;
	}
	if (wants)
		return vb_capture_start(wants, bytes);
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
static int session_add(int fd, const struct vb_capture_request *request)
{
	const unsigned wants = request->wants & (VB_WANT_PACKETS | VB_WANT_STATIONS);
	const uint32_t bytes = wants & VB_WANT_PACKETS ? request->bytes : 0;
	struct session *session = session_find(0);
	int ring;

	if (!session)
		return -EBUSY;
	*session = (struct session){ fd, wants, bytes < VB_CAPTURE_ALL ? bytes : VB_CAPTURE_ALL };
	ring = sessions_apply();
	if (ring < 0)
		*session = (struct session){ 0 };
	return ring;
}

static bool read_request(int socket, struct vb_capture_request *request)
{
	ssize_t size = recv(socket, request, sizeof(*request), MSG_DONTWAIT | MSG_TRUNC);

	return size == (ssize_t)sizeof(*request) && request->magic == VB_CAPTURE_MAGIC &&
	       request->version == VB_CAPTURE_VERSION;
}

bool vb_capture_serve(struct vb_nic *nic, int socket)
{
	struct vb_capture_answer answer = { .magic = VB_CAPTURE_MAGIC,
					    .version = VB_CAPTURE_VERSION };
	struct vb_capture_request request;
	int ring = -EPERM;
	bool kept = false;

	if (!read_request(socket, &request))
		return false;
	vb_fork_register(VB_FORK_CAPTURE, &at_fork);
	pthread_mutex_lock(&lock);
	if (vb_describe_may_ask(socket))
		ring = session_add(socket, &request);
	answer.error = ring < 0 ? (uint32_t)-ring : 0;
	if (ring >= 0)
		vb_capture_place(&answer);
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

static int listener_connect(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf(address.sun_path + 1, VB_CAPTURE_NAME_SIZE, "%s", name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    !connect(fd, (void *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		return fd;
	close(fd);
	return -1;
}

/* A stopped program asks nothing: nobody waits for it. One of another pid namespace is waited for
 * less, because it cannot be seen here whether it is stopped. */
static bool await_request(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct ucred cred = { 0 };
	socklen_t size = sizeof(cred);
	int left_ms = REQUEST_MS;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) || !cred.pid)
		left_ms = UNSEEN_MS;
	for (; left_ms > 0; left_ms -= LOOK_MS) {
		int ready = poll(&wait, 1, LOOK_MS);

		if (ready || (cred.pid && vb_stopped_process(cred.pid)))
			return ready > 0;
	}
	return false;
}

static void listener_join(struct vb_nic *nic, const char *name)
{
	int fd = strlen(name) < VB_CAPTURE_NAME_SIZE ? vb_fd_high(listener_connect(name)) : -1;

	if (fd < 0)
		return;
	/* Any user can have bound the name. */
	if (!vb_describe_may_ask(fd) || !await_request(fd) || !vb_capture_serve(nic, fd))
		close(fd);
}

static void user_join(struct vb_nic *nic, uid_t uid)
{
	char name[VB_CAPTURE_NAME_SIZE];

	for (unsigned number = 0; number < VB_CAPTURE_NAMES; number++) {
		vb_capture_name(name, uid, number);
		listener_join(nic, name);
	}
}

void vb_capture_join(struct vb_nic *nic)
{
	const char *trace = vb_environment_text(VB_ENV_TRACE);
	const int before = errno;

	if (trace)
		listener_join(nic, trace);
	user_join(nic, geteuid());
	if (geteuid())
		user_join(nic, 0);
	errno = before;
}
