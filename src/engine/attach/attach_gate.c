/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admission through the slot socket. Every process on this host may connect to it, and each
 * connection takes descriptors of this process. So another user gets at most a sixth of them, and
 * all other users together half: a process with a user namespace can be thousands of users.
 */
#include "engine/attach/attach_gate.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

/* LIMIT_SHARE: one user gets a sixth of the descriptor limit. USERS: so many shares for all. */
enum {
	STRANGERS_MIN = 8,
	STRANGERS_MAX = 1024,
	LIMIT_SHARE = 6,
	USERS = 3,
	FULL_WAIT_NS = 1000000
};

int vb_attach_credentials(int fd, struct ucred *cred)
{
	socklen_t size = sizeof(*cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &size) ? -errno : 0;
}

/* The most connections that one other user may have. */
static unsigned strangers_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / LIMIT_SHARE > STRANGERS_MAX)
		return STRANGERS_MAX;
	return limit.rlim_cur / LIMIT_SHARE < STRANGERS_MIN
		       ? STRANGERS_MIN
		       : (unsigned)(limit.rlim_cur / LIMIT_SHARE);
}

static bool is_stranger(uid_t uid)
{
	return uid != geteuid() && uid != 0;
}

/* The connections of one user, and of all strangers. */
static unsigned count_connections(struct vb_nic *nic, uid_t uid, unsigned *all)
{
	unsigned count = 0;

	*all = 0;
	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		count += peer->accepted && peer->uid == uid;
		*all += peer->accepted && is_stranger(peer->uid);
	}
	vb_spin_unlock(&nic->peers_lock);
	return count;
}

static bool is_welcome(struct vb_nic *nic, const struct ucred *cred)
{
	unsigned most = strangers_max(), count, all;

	if (!is_stranger(cred->uid))
		return true;
	count = count_connections(nic, cred->uid, &all);
	if (count < most && all < USERS * most)
		return true;
	vb_explain_work(
		"user %u has %u connections to this process, other users have %u: more are refused",
		cred->uid, count, all);
	return false;
}

/* No descriptor is left. The listener stays readable, so this thread waits as well. */
static void wait_for_descriptors(void)
{
	const struct timespec wait = { .tv_nsec = FULL_WAIT_NS };

	nanosleep(&wait, NULL);
}

int vb_attach_next(struct vb_nic *nic, int listener, struct ucred *cred)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			wait_for_descriptors();
		return -EAGAIN;
	}
	if (!vb_attach_credentials(fd, cred) && is_welcome(nic, cred))
		return vb_fd_high(fd);
	close(fd);
	return -EPERM;
}
