/* SPDX-License-Identifier: BSD-2-Clause */
/* A setting that is read at its first use: the first call loads it, all calls return its result. */
#ifndef VB_BASE_ONCE_H
#define VB_BASE_ONCE_H

#include <pthread.h>
#include <stdbool.h>

struct vb_once {
	pthread_mutex_t lock; /* guards the members below */
	bool loaded;
	int err; /* the result of the load */
};

/* clang-format off */
#define VB_ONCE_INIT { .lock = PTHREAD_MUTEX_INITIALIZER }
/* clang-format on */

static inline int vb_once_load(struct vb_once *once, int (*load)(void))
{
	int err;

	pthread_mutex_lock(&once->lock);
	if (!once->loaded)
		once->err = load();
	once->loaded = true;
	err = once->err;
	pthread_mutex_unlock(&once->lock);
	return err;
}

#endif
