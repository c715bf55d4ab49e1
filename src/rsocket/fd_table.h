/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table from descriptor numbers to objects. It has two levels, so that a process with few
 * descriptors has a small table. A lookup of a number without object costs two loads.
 *
 * The table holds a reference to each object. A lookup takes another one while the entry is locked,
 * so that a thread that closes the number cannot free the object in between.
 */
#ifndef VB_RSOCKET_FD_TABLE_H
#define VB_RSOCKET_FD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { VB_FD_PAGE = 1024, VB_FD_PAGES = 1024 };

/* The first member of every object in a table. */
struct vb_fd_object {
	atomic_uint refs;
	void (*release)(struct vb_fd_object *object); /* called after the last put */
};

struct vb_fd_table {
	_Atomic(_Atomic(uintptr_t) *) pages[VB_FD_PAGES]; /* lowest bit of an entry: its lock */
};

void vb_fd_object_init(struct vb_fd_object *object, void (*release)(struct vb_fd_object *));
void vb_fd_object_get(struct vb_fd_object *object);
/* For a caller without a reference, which knows that the memory still exists. */
bool vb_fd_object_try_get(struct vb_fd_object *object);
void vb_fd_object_put(struct vb_fd_object *object);

/* Takes over the caller's reference, and returns that of the object before in *before; fd >= 0. */
int vb_fd_table_set(struct vb_fd_table *table, int fd, struct vb_fd_object *object,
		    struct vb_fd_object **before);
/* NULL: the number has no object. The caller puts the object when done. */
struct vb_fd_object *vb_fd_table_get(struct vb_fd_table *table, int fd);
/* Gives the table's reference to the caller. */
struct vb_fd_object *vb_fd_table_remove(struct vb_fd_table *table, int fd);
/* Does the number have an object? Takes no reference. */
bool vb_fd_table_has(struct vb_fd_table *table, int fd);
/* Calls each(fd, object, arg) for all entries, with a reference. */
void vb_fd_table_each(struct vb_fd_table *table,
		      void (*each)(int fd, struct vb_fd_object *object, void *arg), void *arg);

/* In the child of a fork: unlocks the entries that threads of the parent had locked. */
void vb_fd_table_after_fork(struct vb_fd_table *table);

#endif
