/* SPDX-License-Identifier: BSD-2-Clause */
/* Own slots: names with a random part, which are found by asking the kernel. Between slot*.c. */
#ifndef VB_SHM_SLOT_OWN_H
#define VB_SHM_SLOT_OWN_H

#include "shm/slot.h"
#include "shm/slot_user.h"

#define VB_SLOT_SHARED_NAME UINT64_MAX /* in the place of the random part: there is none */

/* --- slot.c --- */

struct vb_slot_name vb_slot_name_of(uint32_t slot, uint64_t random, enum vb_slot_use use);
/* Binds the names of claim->slot, and listens. 0, -EADDRINUSE: one of them is taken, or -errno. Those
 * that are left open are for the next try, or to be released. */
int vb_slot_bind(struct vb_slot_claim *claim, uint64_t random, bool first);

/* --- slot_own.c --- */

/* -EMFILE: all that are for the user are taken, or the kernel does not tell. */
int vb_slot_claim_own(struct vb_slot_claim *claim, uint32_t user, bool first);
/* Who holds an own slot. */
struct vb_slot_holder {
	uint64_t random; /* 0: unknown */
	uint32_t user;
	bool known; /* whose it is; else users of other user namespaces cannot be told apart */
};
/* Looks it up, or remembers it. 0, -ECONNREFUSED: nobody, -EAGAIN: not now. */
int vb_slot_own_find(uint32_t slot, struct vb_slot_holder *holder);

#endif
