/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which slots a user may take. Users are numbered as outside of this process's user namespace: one
 * number means the same user to all processes then, as long as namespaces are not nested.
 *
 * Of the own slots (slot.h) some are root's, most are for uids below 65536, and the rest is for higher
 * uids: an ordinary user may have been given thousands of those (subuid(5)), and must not be a crowd
 * among the accounts. Within its part each user has a *weight* for each number, which looks random and
 * which everybody can compute. It has the numbers where its weight is high; where two users meet, the
 * higher weight wins. Whoever wants to be in the way of another user finds that each of its own
 * numbers is rarely one of the other's, and that there it rarely wins.
 */
#ifndef VB_SHM_SLOT_USER_H
#define VB_SHM_SLOT_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { VB_UID_RANGES = 340 }; /* as many as the kernel takes */

struct vb_uid_map {
	unsigned count;
	struct {
		uint32_t inside, outside, length;
	} ranges[VB_UID_RANGES];
};

/* The map of this process's user namespace; where nobody can tell, numbers mean the same outside. */
void vb_uid_map_read(struct vb_uid_map *map);
/* What a uid is outside; false: it has no number in here, and the kernel shows a stand-in. */
bool vb_uid_outside(const struct vb_uid_map *map, uid_t uid, uint32_t *user);

/* May a user take this shared slot? An honest one keeps to that, so that others find some. */
bool vb_slot_shared_is_for(uint32_t user, uint32_t slot);
/* The weight of a user at an own slot; 0: it is not for that user. */
uint32_t vb_slot_weight(uint32_t user, uint32_t slot);

#endif
