/* SPDX-License-Identifier: BSD-2-Clause */
/* Own slots: the kernel finds their names, which have a random part. For slot*.c only. */
#ifndef VB_SHM_SLOT_OWN_H
#define VB_SHM_SLOT_OWN_H

#include "shm/slot.h"
#include "shm/slot_user.h"

#define VB_SLOT_SHARED_NAME UINT64_MAX /* instead of a random part: the name of a shared slot */

/* --- slot.c --- */

struct vb_slot_name vb_slot_name_of(uint32_t slot, uint64_t random, enum vb_slot_use use);
/* Binds the names of claim->slot, and listens. 0 or -errno; -EADDRINUSE: a name is taken. After a
 * failure claim->listener may be open, for the next try or for vb_slot_release. */
int vb_slot_bind(struct vb_slot_claim *claim, uint64_t random, bool first);

/* --- slot_own.c --- */

/* 0 or -errno. -EMFILE: all slots of the user are taken. */
int vb_slot_claim_own(struct vb_slot_claim *claim, uint32_t user, bool first);
/* The holder of a slot. */
struct vb_slot_holder {
	uint64_t random; /* random part of its name; 0: unknown */
	uint32_t user;
	bool known; /* user is set; else it is some user of another user namespace */
};
/* Remembers the holder, or asks the kernel. 0, -ECONNREFUSED: none, -EAGAIN: not now. */
int vb_slot_own_find(uint32_t slot, struct vb_slot_holder *holder);

#endif
