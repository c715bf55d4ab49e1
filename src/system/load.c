/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/log.h"
#include "system/find.h"
#include "system/forward.h"
#include "system/host.h"

_Atomic bool vb_system_in_use;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Written once, under the lock. */
static void *library;
static Lmid_t namespace;
static int *(*errno_location)(void);
static void (*ctype_init)(void);

void vb_system_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vb_system_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

static const struct vb_fork_handlers at_fork = { vb_system_lock, vb_system_unlock,
						 vb_system_unlock };

/* --- one library into the namespace --- */

struct loading {
	Lmid_t where;
	void *handle;
	char why[256]; /* the last failure of the loader */
};

/* Verbena's own library, which a user may have put where the system's should be. */
static bool is_ours(void *handle)
{
	return dlsym(handle, "verbena_engine");
}

static bool load_file(void *arg, const char *path)
{
	struct loading *loading = arg;
	const char *why;
	void *handle = dlmopen(loading->where, path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		why = dlerror();
		snprintf(loading->why, sizeof(loading->why), "%s", why ? why : path);
		return false;
	}
	if (is_ours(handle)) {
		snprintf(loading->why, sizeof(loading->why), "%s is Verbena's own", path);
		dlclose(handle);
		return false;
	}
	loading->handle = handle;
	return true;
}

/*
 * Up to 2.33 the thread library is one of its own. A second one sets the thread that loads it up
 * anew.
 */
static bool libc_can_be_twice(void)
{
	int major = 0, minor = 0;

	return sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 &&
	       (major > 2 || minor >= 34);
}

static bool load_library(void)
{
	struct loading loading = { .where = LM_ID_NEWLM };

	if (!libc_can_be_twice()) {
		vb_explain("VERBENA_DEVICES: +system needs glibc 2.34 or later, and this is %s: "
			   "the system's RDMA devices are left out",
			   gnu_get_libc_version());
		return false;
	}
	if (!vb_system_find("libibverbs.so.1", load_file, &loading) ||
	    dlinfo(loading.handle, RTLD_DI_LMID, &namespace)) {
		vb_explain("VERBENA_DEVICES: +system: the system's libibverbs.so.1 cannot be "
			   "loaded: %s; its RDMA devices are left out",
			   *loading.why ? loading.why : "there is none");
		return false;
	}
	library = loading.handle;
	errno_location = (int *(*)(void))dlsym(library, "__errno_location");
	ctype_init = (void (*)(void))dlsym(library, "__ctype_init");
	vb_system_forward_find();
	return true;
}

bool vb_system_load(void)
{
	static bool tried;

	if (vb_system_on())
		return true;
	if (!vb_config_system())
		return false;
	vb_fork_register(VB_FORK_SYSTEM, &at_fork);
	vb_system_lock();
	/* A device may come later: without one the next call looks again. */
	if (!tried && vb_system_host_has_devices()) {
		tried = true;
		atomic_store_explicit(&vb_system_in_use, load_library(), memory_order_release);
	}
	vb_system_unlock();
	return vb_system_on();
}

void *vb_system_symbol(const char *name)
{
	return dlsym(library, name);
}

void *vb_system_beside(const char *name)
{
	struct loading loading = { .where = namespace };

	if (!vb_system_load())
		return NULL;
	if (!vb_system_find(name, load_file, &loading))
		vb_explain("VERBENA_DEVICES: +system: the system's %s cannot be loaded: %s", name,
			   *loading.why ? loading.why : "there is none");
	return loading.handle;
}

/* --- the second C library --- */

/*
 * A C library prepares the tables of <ctype.h> for each thread that it begins. The threads of the
 * program were begun by another one.
 */
void vb_system_enter(void)
{
	static __thread bool known;

	if (!known && ctype_init)
		ctype_init();
	known = true;
	if (errno_location)
		*errno_location() = 0;
}

int vb_system_errno(void)
{
	const int err = errno_location ? *errno_location() : 0;

	return err ? err : EIO;
}
