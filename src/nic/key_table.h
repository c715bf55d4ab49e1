/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table of this NIC: entries in its segment, handed out first in, first out. */
#ifndef VB_NIC_KEY_TABLE_H
#define VB_NIC_KEY_TABLE_H

#include "shm/key.h"

struct vb_nic;

/* Gives out an entry of the key table, with new tags; -ENOMEM. Under nic->lock. */
int vb_key_alloc(struct vb_nic *nic, uint32_t *index, struct vb_key_entry **entry);
void vb_key_free(struct vb_nic *nic, uint32_t index);
/* Makes another NIC's keys lead to an entry, which takes their tags; -ENOMEM. Under nic->lock. */
int vb_key_alias_add(struct vb_nic *nic, uint32_t index, uint32_t lkey, uint32_t rkey);
void vb_key_alias_remove(struct vb_nic *nic, uint32_t index);

#endif
