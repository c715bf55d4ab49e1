/* SPDX-License-Identifier: BSD-2-Clause */
/* The library as a whole: the lock, the engine below, fork. */
#include "rdmacm/cma.h"

#include <errno.h>

#include "base/annotate.h"
#include "base/fork.h"
#include "base/result.h"
#include "rdmacm/connect_retry.h"
#include "rdmacm/describe.h"
#include "rdmacm/disconnect_delay.h"
#include "rdmacm/io.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/peer_watch.h"
#include "rdmacm/probe.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list ids = VB_LIST_INIT(ids);
static struct vb_cm cm;
static const struct vb_engine_table *engine;
static bool started;
static unsigned generation;

void vb_cma_lock(void)
{
	pthread_mutex_lock(&lock);
	vb_tell_acquire(&lock);
}

void vb_cma_unlock(void)
{
	vb_cma_channels_ring();
	vb_tell_release(&lock);
	pthread_mutex_unlock(&lock);
}

void vb_cma_wait(pthread_cond_t *cond)
{
	vb_cma_channels_ring();
	vb_tell_release(&lock);
	pthread_cond_wait(cond, &lock);
	vb_tell_acquire(&lock);
}

struct vb_list *vb_cma_ids(void)
{
	return &ids;
}

struct vb_cm *vb_cma_cm(void)
{
	return &cm;
}

const struct vb_engine_table *vb_cma_engine(void)
{
	return engine;
}

unsigned vb_cma_generation(void)
{
	return generation;
}

int vb_cma_stale(unsigned made_in, const char *call)
{
	if (made_in == generation)
		return 0;
	vb_explain("%s: the object was made before fork() and belongs to the parent process; the "
		   "child makes its own",
		   call);
	return -EINVAL;
}

/*
 * After fork all objects belong to the parent, and the child begins anew. Descriptors that the
 * application knows stay open, as those of any program do.
 */
static void leave_to_parent(void)
{
	generation++;
	pthread_mutex_init(&lock, NULL);
	vb_cma_devices_forget();
	started = false;
	vb_list_init(&ids);
	vb_cma_peer_watch_forget(); /* closes descriptors that are in the table of io.c */
	vb_cma_disconnect_delay_forget();
	vb_cma_connect_retry_forget();
	vb_cma_neighbour_forget();
	vb_cma_probe_forget();
	vb_cma_io_forget();
}

/*
 * fork holds the lock, so that the child finds consistent lists. The engine has registered first
 * (base/fork.h), so fork takes this lock before those of the engine, in the order of all threads.
 */
static void find_engine(void)
{
	static const struct vb_fork_handlers at_fork = { vb_cma_lock, vb_cma_unlock,
							 leave_to_parent };

	vb_tools_find();
	engine = verbena_engine(VB_ENGINE_TABLE_VERSION);
	if (engine)
		vb_explain_join(engine->explain_count, engine->explained);
	vb_fork_register(VB_FORK_CMA, &at_fork);
}

int vb_cma_null(const char *call)
{
	vb_explain("%s: an argument is NULL that must not be", call);
	return vb_return_minus_one_of(call, -EINVAL);
}

int vb_cma_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_engine);
	if (engine)
		return vb_cma_devices_find();
	vb_explain("librdmacm of Verbena " VERBENA_VERSION " needs the libibverbs of the same "
		   "release beside it (engine table version %d)",
		   VB_ENGINE_TABLE_VERSION);
	return -EPROTO;
}

/* Under the lock. */
static int start_cm(void)
{
	uint32_t slot;
	int err = engine->slot(&slot);

	if (!err)
		err = vb_cm_init(&cm, slot, vb_cma_cm_ops(), NULL);
	if (err)
		return err;
	err = vb_cma_io_start();
	if (err)
		vb_cm_fini(&cm);
	else
		vb_cma_peer_watch_start(slot);
	if (!err)
		engine->describe_ids_by(vb_cma_describe);
	return err;
}

int vb_cma_start(void)
{
	int err = vb_cma_begin();

	if (err)
		return err;
	vb_cma_lock();
	if (!started)
		err = start_cm();
	started = started || !err;
	vb_cma_unlock();
	if (err)
		vb_explain("the connection manager cannot be started: error %d", -err);
	return err;
}
