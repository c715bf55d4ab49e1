/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/fd_table.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum { LOCKED = 1 };

void vb_fd_object_init(struct vb_fd_object *object, void (*release)(struct vb_fd_object *))
{
	atomic_init(&object->refs, 1);
	object->release = release;
}

void vb_fd_object_get(struct vb_fd_object *object)
{
	atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

bool vb_fd_object_try_get(struct vb_fd_object *object)
{
	unsigned refs = atomic_load_explicit(&object->refs, memory_order_relaxed);

	while (refs) {
		if (atomic_compare_exchange_weak(&object->refs, &refs, refs + 1))
			return true;
	}
	return false;
}

void vb_fd_object_put(struct vb_fd_object *object)
{
	/* Pairs with itself: the last put sees the writes before all other puts. */
	if (atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) == 1)
		object->release(object);
}

static _Atomic(uintptr_t) *find(struct vb_fd_table *table, int fd)
{
	_Atomic(uintptr_t) *page;

	if (fd < 0 || fd >= VB_FD_PAGE * VB_FD_PAGES)
		return NULL;
	/* Pairs with the exchange in add_page. */
	page = atomic_load_explicit(&table->pages[fd / VB_FD_PAGE], memory_order_acquire);
	return page ? &page[fd % VB_FD_PAGE] : NULL;
}

static int add_page(struct vb_fd_table *table, int fd)
{
	_Atomic(uintptr_t) *fresh = calloc(VB_FD_PAGE, sizeof(*fresh)), *none = NULL;

	if (!fresh)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&table->pages[fd / VB_FD_PAGE], &none, fresh))
		free((void *)fresh);
	return 0;
}

/* A holder keeps the lock for a few instructions. The yield lets a preempted holder run. */
static uintptr_t lock(_Atomic(uintptr_t) *entry)
{
	for (unsigned tries = 1;; tries++) {
		uintptr_t value = atomic_load_explicit(entry, memory_order_relaxed);

		if (!(value & LOCKED) && atomic_compare_exchange_weak_explicit(
						 entry, &value, value | LOCKED,
						 memory_order_acquire, memory_order_relaxed))
			return value;
		if (tries % 64 == 0)
			sched_yield();
	}
}

static void unlock(_Atomic(uintptr_t) *entry, uintptr_t value)
{
	atomic_store_explicit(entry, value, memory_order_release); /* pairs with lock */
}

int vb_fd_table_set(struct vb_fd_table *table, int fd, struct vb_fd_object *object,
		    struct vb_fd_object **before)
{
	_Atomic(uintptr_t) *entry;
	int err;

	*before = NULL;
	if (fd < 0 || fd >= VB_FD_PAGE * VB_FD_PAGES)
		return -EMFILE;
	entry = find(table, fd);
	if (!entry) {
		err = add_page(table, fd);
		if (err)
			return err;
		entry = find(table, fd);
	}
	*before = (struct vb_fd_object *)lock(entry);
	unlock(entry, (uintptr_t)object);
	return 0;
}

struct vb_fd_object *vb_fd_table_get(struct vb_fd_table *table, int fd)
{
	_Atomic(uintptr_t) *entry = find(table, fd);
	uintptr_t value;

	if (!entry || !atomic_load_explicit(entry, memory_order_relaxed))
		return NULL;
	value = lock(entry);
	if (value)
		vb_fd_object_get((struct vb_fd_object *)value);
	unlock(entry, value);
	return (struct vb_fd_object *)value;
}

struct vb_fd_object *vb_fd_table_remove(struct vb_fd_table *table, int fd)
{
	_Atomic(uintptr_t) *entry = find(table, fd);
	uintptr_t value;

	if (!entry || !atomic_load_explicit(entry, memory_order_relaxed))
		return NULL;
	value = lock(entry);
	unlock(entry, 0);
	return (struct vb_fd_object *)value;
}

bool vb_fd_table_has(struct vb_fd_table *table, int fd)
{
	_Atomic(uintptr_t) *entry = find(table, fd);

	return entry && atomic_load_explicit(entry, memory_order_relaxed);
}

void vb_fd_table_each(struct vb_fd_table *table,
		      void (*each)(int fd, struct vb_fd_object *object, void *arg), void *arg)
{
	for (int page = 0; page < VB_FD_PAGES; page++) {
		if (!atomic_load_explicit(&table->pages[page], memory_order_acquire))
			continue;
		for (int fd = page * VB_FD_PAGE; fd < (page + 1) * VB_FD_PAGE; fd++) {
			struct vb_fd_object *object = vb_fd_table_get(table, fd);

			if (!object)
				continue;
			each(fd, object, arg);
			vb_fd_object_put(object);
		}
	}
}

void vb_fd_table_after_fork(struct vb_fd_table *table)
{
	for (int page = 0; page < VB_FD_PAGES; page++) {
		_Atomic(uintptr_t) *entries =
			atomic_load_explicit(&table->pages[page], memory_order_relaxed);

		for (int i = 0; entries && i < VB_FD_PAGE; i++)
			atomic_fetch_and(&entries[i], ~(uintptr_t)LOCKED);
	}
}
