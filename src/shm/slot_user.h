/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slots that a user may take. A user's number here is its uid outside of this process's user
 * namespace: so all processes mean the same user by one number, as long as namespaces are not
 * nested.
 *
 * The own slots (slot.h) have three parts: for root, for uids below 65536 (most slots), and for
 * higher uids. One ordinary user may have thousands of high uids (subuid(5)): they must not crowd
 * out the accounts. Within its part each user has a *weight* for each slot, a hash that every
 * process can compute. A user has the slots where its weight is high. Where two users meet, the
 * higher weight wins. So a user that wants to block another one rarely has the other's slots, and
 * rarely wins there.
 */
#ifndef VB_SHM_SLOT_USER_H
#define VB_SHM_SLOT_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { VB_UID_RANGES = 340 }; /* the kernel's limit */

struct vb_uid_map {
	unsigned count;
	struct {
		uint32_t inside, outside, length;
	} ranges[VB_UID_RANGES];
};

/* The map of this process's user namespace. Without /proc uids are taken to be the same outside. */
void vb_uid_map_read(struct vb_uid_map *map);
/* A uid as it is outside; false: the uid is a stand-in for users without a number in here. */
bool vb_uid_outside(const struct vb_uid_map *map, uid_t uid, uint32_t *user);

/* The user may take this shared slot. Honest users obey, so that other users find some. */
bool vb_slot_shared_is_for(uint32_t user, uint32_t slot);
/* The weight of a user at an own slot; 0: the slot is not for that user. */
uint32_t vb_slot_weight(uint32_t user, uint32_t slot);

#endif
