/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system's own libibverbs, for the RDMA devices that the kernel knows: loaded into a namespace
 * of the dynamic loader (dlmopen), where its providers find it and not this library. The namespace
 * has a C library of its own, with its own errno and heap: memory goes back to where it came from.
 */
#ifndef VB_SYSTEM_LOAD_H
#define VB_SYSTEM_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * True from the moment on when the program may have objects of the system's library. It is false,
 * and the library not loaded, unless VERBENA_DEVICES has +system and the host has devices.
 */
extern _Atomic bool vb_system_in_use; /* vb_system_load releases it; pairs with vb_system_on */

static inline bool vb_system_on(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_system_in_use, memory_order_acquire), 0);
}

/* Loads the library if that is asked for, and the host has devices. True: it is there. */
bool vb_system_load(void);

/*
 * Protects all that src/system remembers. The system's library is called under it, whose own locks
 * follow. Held during fork.
 */
void vb_system_lock(void);
void vb_system_unlock(void);

/* A name of the system's libibverbs; NULL: its version has none. */
void *vb_system_symbol(const char *name);
/*
 * Another library of the system, in the same namespace: its libibverbs is the system's. NULL: there
 * is none. The handle is for dlsym.
 */
void *vb_system_beside(const char *name);

/* Before a call: the thread is known to the namespace. errno of the call begins with 0. */
void vb_system_enter(void);
/* After a call that has failed: errno of the namespace, or EIO if the call has set none. */
int vb_system_errno(void);

#endif
