/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the program that are cancelled (pthread_cancel).
 *
 * A thread that is cancelled under a lock would keep the lock for ever. So every exported function
 * that takes a lock, a reference or a descriptor is no cancellation point:
 *
 *	VB_PUBLIC int ibv_dealloc_pd(struct ibv_pd *pd)
 *	{
 *		VB_NO_CANCEL;
 *
 * The guard works for PTHREAD_CANCEL_ASYNCHRONOUS, too. Calls that post and poll have no guard,
 * because they must be fast. They reach no cancellation point (base/message.h).
 *
 * A call that waits is a cancellation point where the man page of the call that it resembles says
 * so. It begins with VB_CANCEL_POINT instead. While the thread sleeps, between VB_SLEEP_BEGIN and
 * VB_SLEEP_END, it may be cancelled, unless the program has forbidden that. Then the records of
 * vb_undo_push run, the last one first, and give everything back that the callers of the sleep
 * hold. Guards nest. A call that must not be left half done keeps its sleeps from being
 * cancellation points with VB_NO_CANCEL_ASLEEP.
 */
#ifndef VB_BASE_CANCEL_H
#define VB_BASE_CANCEL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/annotate.h"
#include "base/log.h"

/* A thread that is cancelled in its sleep gives this back. It lives on the stack of its owner. */
struct vb_undo {
	void (*undo)(void *held);
	void *held;
	struct vb_undo *outer;
};

struct vb_cancel_thread {
	bool allowed;         /* the program allows cancellation, and a guard holds it off */
	bool called;          /* the thread is in a public call */
	struct vb_undo *undo; /* the last record */
};

extern __thread struct vb_cancel_thread vb_cancel_thread;

struct vb_cancel_guard {
	int state, type; /* before the guard */
	bool allowed;    /* the same */
	bool called;     /* the same */
	bool explained;  /* a call around this one had explained a failure (base/log.h) */
};

/*
 * Cancellation was asynchronous until now, and is allowed: its signal may be under way. In many
 * versions of the C library that signal would end the thread in any later system call that is a
 * cancellation point, although cancellation is forbidden there. Such a call, made now, waits for
 * the signal first. This one does nothing else.
 */
static inline void vb_cancel_settle(void)
{
	const int saved = errno;

	(void)!fsync(-1);
	errno = saved;
}

static inline struct vb_cancel_guard vb_cancel_hold_off(void)
{
	struct vb_cancel_guard guard = { .allowed = vb_cancel_thread.allowed,
					 .called = vb_cancel_thread.called };

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &guard.type);
	if (__builtin_expect(guard.type == PTHREAD_CANCEL_ASYNCHRONOUS, 0))
		vb_cancel_settle();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard.state);
	if (guard.state == PTHREAD_CANCEL_ENABLE)
		vb_cancel_thread.allowed = true;
	return guard;
}

/* A public call begins: it has explained nothing. */
static inline struct vb_cancel_guard vb_cancel_call(void)
{
	struct vb_cancel_guard guard = vb_cancel_hold_off();

	guard.explained = guard.called && vb_explained;
	vb_cancel_thread.called = true;
	vb_explained = false;
	return guard;
}

static inline struct vb_cancel_guard vb_cancel_point(void)
{
	pthread_testcancel();
	return vb_cancel_call();
}

/* May be called twice. */
static inline void vb_cancel_restore(struct vb_cancel_guard *guard)
{
	vb_cancel_thread.allowed = guard->allowed;
	vb_cancel_thread.called = guard->called;
	vb_explained |= guard->explained;
	pthread_setcanceltype(guard->type, NULL);
	pthread_setcancelstate(guard->state, NULL);
	vb_tell_returns();
}

/* They end with the block that they stand in. */
#define VB_CANCEL_GUARD(name, begin) \
	__attribute__((cleanup(vb_cancel_restore), unused)) struct vb_cancel_guard name = begin()
#define VB_NO_CANCEL    VB_CANCEL_GUARD(vb_cancel_guard, vb_cancel_call)
#define VB_CANCEL_POINT VB_CANCEL_GUARD(vb_cancel_guard, vb_cancel_point)
/* The same for a part of a call that has no guard. */
#define VB_NO_CANCEL_WITHIN VB_CANCEL_GUARD(vb_cancel_guard, vb_cancel_hold_off)
/* Ends the guard of this function early, before a call that holds nothing of ours. */
#define VB_CANCEL_END() vb_cancel_restore(&vb_cancel_guard)

static inline bool vb_cancel_forbid_asleep(void)
{
	const bool allowed = vb_cancel_thread.allowed;

	vb_cancel_thread.allowed = false;
	return allowed;
}

static inline void vb_cancel_allow_asleep(bool *allowed)
{
	vb_cancel_thread.allowed = *allowed;
}

#define VB_NO_CANCEL_ASLEEP                                                                     \
	__attribute__((cleanup(vb_cancel_allow_asleep), unused)) bool vb_cancel_asleep_before = \
		vb_cancel_forbid_asleep()

static inline void vb_undo_push(struct vb_undo *record, void (*undo)(void *held), void *held)
{
	*record = (struct vb_undo){ undo, held, vb_cancel_thread.undo };
	vb_cancel_thread.undo = record;
}

static inline void vb_undo_pop(const struct vb_undo *record)
{
	vb_cancel_thread.undo = record->outer;
}

/* Runs and forgets all records of the thread. */
void vb_undo_all(void *unused);

static inline void vb_sleep_allow(void)
{
	if (vb_cancel_thread.allowed)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

static inline void vb_sleep_forbid(void)
{
	if (vb_cancel_thread.allowed)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

/* Around one system call, in one block, inside a guard. */
#define VB_SLEEP_BEGIN                                   \
	do {                                             \
		pthread_cleanup_push(vb_undo_all, NULL); \
	vb_sleep_allow()
#define VB_SLEEP_END            \
	vb_sleep_forbid();      \
	pthread_cleanup_pop(0); \
	}                       \
	while (0)

#endif
