/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From descriptor numbers to objects: two levels, so that a process with few descriptors has a
 * small table. Looking up a number that names nothing costs two loads.
 *
 * The table holds a reference. Who looks up gets one of his own, taken while the entry is locked,
 * so that a close by another thread cannot free the object in between.
 */
#ifndef VB_RSOCKET_FD_TABLE_H
#define VB_RSOCKET_FD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { VB_FD_PAGE = 1024, VB_FD_PAGES = 1024 };

/* The first member of whatever is in a table. */
struct vb_fd_object {
	atomic_uint refs;
	void (*release)(struct vb_fd_object *object); /* the last reference is gone */
};

struct vb_fd_table {
	_Atomic(_Atomic(uintptr_t) *) pages[VB_FD_PAGES]; /* lowest bit of an entry: its lock */
};

void vb_fd_object_init(struct vb_fd_object *object, void (*release)(struct vb_fd_object *));
void vb_fd_object_get(struct vb_fd_object *object);
/* For who holds no reference but knows that the memory is still there. */
bool vb_fd_object_try_get(struct vb_fd_object *object);
void vb_fd_object_put(struct vb_fd_object *object);

/* Takes over the caller's reference and gives that of the object before, if any; fd >= 0. */
int vb_fd_table_set(struct vb_fd_table *table, int fd, struct vb_fd_object *object,
		    struct vb_fd_object **before);
/* NULL: the number means nothing here. Else put it when done. */
struct vb_fd_object *vb_fd_table_get(struct vb_fd_table *table, int fd);
/* Gives the table's reference to the caller. */
struct vb_fd_object *vb_fd_table_remove(struct vb_fd_table *table, int fd);
/* Whether the number means something; for deciding which way a call goes. */
bool vb_fd_table_has(struct vb_fd_table *table, int fd);
/* Calls each(fd, object, arg) for all entries, with a reference. */
void vb_fd_table_each(struct vb_fd_table *table,
		      void (*each)(int fd, struct vb_fd_object *object, void *arg), void *arg);

/* In a child of fork, whose only thread calls: nobody is there to let entries go. */
void vb_fd_table_after_fork(struct vb_fd_table *table);

#endif
