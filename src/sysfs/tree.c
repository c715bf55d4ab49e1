/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/annotate.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/fork.h"
#include "sysfs/build.h"
#include "sysfs/lease.h"

#define REFRESH_AGE_NS_MAX UINT64_C(100000000) /* the libraries read interfaces as often */

/* Recursive: libibverbs may fork, to try something, while this thread opens a device. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct vb_lease lease;    /* under lock */
static uint64_t refreshed_at_ns; /* under lock */
static bool left;                /* under lock; the process is ending */

/* --- taking the tree --- */

static void lock_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* The thread of the child has another id, so it may not unlock the mutex. */
static void renew_in_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/* libibverbs is called under the lock, so its locks come after this one: it registers before. */
static void watch_fork(void)
{
	static const struct vb_fork_handlers at_fork = { lock_before_fork, unlock_after_fork,
							 renew_in_child };

	vb_adapter_load();
	vb_fork_register(VB_FORK_TREE, &at_fork);
}

static int take_in(const char *base, const char *prefix, const char *name)
{
	char path[PATH_MAX - 256]; /* leaves room for the names of its files */

	if (!base || *base != '/')
		return -ENOENT;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", base, name) >= sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, F_OK))
		vb_lease_sweep(base, prefix); /* only before a new tree is made */
	return vb_lease_take(&lease, path, vb_build);
}

/* Writing beyond the limit would kill the program with SIGXFSZ. */
static bool may_write(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur > VB_ATTRIBUTE_SIZE;
}

static bool take_tree(void)
{
	const char *const bases[] = { vb_environment(VB_ENV_RUNTIME_DIR), "/dev/shm",
				      vb_environment(VB_ENV_TMPDIR), "/tmp" };
	char prefix[64], name[96];

	if (!may_write())
		return false;
	snprintf(prefix, sizeof(prefix), "verbena-sysfs.%u.", (unsigned)geteuid());
	snprintf(name, sizeof(name), "%s%016" PRIx64, prefix, vb_build_key());
	for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++)
		if (!take_in(bases[i], prefix, name)) {
			refreshed_at_ns = 0;
			return true;
		}
	return false;
}

/* Under lock. The lease of a child of fork belongs to the parent, so the child only forgets it. */
static bool hold_tree(void)
{
	if (left)
		return false;
	if (vb_lease_holds(&lease))
		return true;
	vb_lease_release(&lease);
	return take_tree();
}

bool vb_tree_root(char root[PATH_MAX])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool held;

	pthread_once(&once, watch_fork);
	pthread_mutex_lock(&lock);
	held = hold_tree();
	if (held)
		memcpy(root, lease.path, strlen(lease.path) + 1);
	pthread_mutex_unlock(&lock);
	return held;
}

/* --- before opening --- */

static int make_nameless(const struct vb_attribute_text *text)
{
	int fd = memfd_create("verbena-sysfs", MFD_CLOEXEC);

	if (fd < 0)
		return VB_TREE_AS_IT_IS;
	if (write(fd, text->text, (size_t)text->length) == text->length)
		return fd;
	close(fd);
	return VB_TREE_AS_IT_IS;
}

static int prepare_file(const char *path, int *error)
{
	struct vb_attribute_text text;
	bool differs;

	vb_build_read(path, &text);
	if (text.length == -ENOENT)
		return VB_TREE_AS_IT_IS;
	differs = vb_build_differs(lease.fd, path, &text);
	if (text.own && (differs || vb_adapter_in_use()))
		return make_nameless(&text);
	/* A refused file becomes empty, for programs that open it by a relative name. */
	if (differs)
		vb_build_replace(lease.fd, path, &text);
	if (text.length >= 0)
		return VB_TREE_AS_IT_IS;
	*error = -text.length;
	return VB_TREE_REFUSED;
}

static int prepare_directory(void)
{
	const uint64_t now_ns = vb_now_ns();

	if (now_ns - refreshed_at_ns >= REFRESH_AGE_NS_MAX) {
		vb_build_refresh(lease.fd);
		refreshed_at_ns = now_ns;
	}
	return VB_TREE_AS_IT_IS;
}

int vb_tree_prepare(const char *path, int *error)
{
	int result = VB_TREE_AS_IT_IS;
	struct stat info;

	pthread_mutex_lock(&lock);
	if (hold_tree() && !fstatat(lease.fd, *path ? path : ".", &info, AT_SYMLINK_NOFOLLOW)) {
		if (S_ISDIR(info.st_mode))
			result = prepare_directory();
		else if (S_ISREG(info.st_mode))
			result = prepare_file(path, error);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* --- the end --- */

enum { CWD_SIZE = 1024, KEY_DIGITS = 16 };

/* The tree of the working directory. Not getcwd(3), which may allocate. */
static bool tree_of_cwd(char cwd[CWD_SIZE])
{
	const long length = syscall(SYS_getcwd, cwd, CWD_SIZE);
	char *name, *end;

	if (length < 0)
		return false;
	vb_tools_find();
	vb_tell_filled(cwd, (size_t)length);
	name = strstr(cwd, "/verbena-sysfs.");
	if (!name)
		return false;
	end = strchrnul(name + 1, '/');
	*end = '\0';
	name = strrchr(name, '.') + 1;
	return end - name == KEY_DIGITS && strspn(name, "0123456789abcdef") == KEY_DIGITS;
}

static void release_tree(bool for_good)
{
	if (pthread_mutex_trylock(&lock))
		return; /* no wait: another thread may hold the lock for long */
	vb_lease_release(&lease);
	left = for_good;
	pthread_mutex_unlock(&lock);
}

/*
 * A child of vfork runs in the memory of its parent, and must not change it. A process without a
 * lease may have a working directory in a tree whose holders are gone.
 */
void vb_tree_leave(void)
{
	char cwd[CWD_SIZE];

	if (lease.pid == getpid())
		release_tree(true);
	else if (tree_of_cwd(cwd))
		vb_lease_remove_unused(cwd);
}

void vb_tree_leave_for_exec(void)
{
	char cwd[CWD_SIZE];

	if (lease.pid == getpid() && !tree_of_cwd(cwd))
		release_tree(false);
}
