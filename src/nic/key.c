/* SPDX-License-Identifier: BSD-2-Clause */
/* The key table: entries in the segment, handed out first in, first out. Under nic->lock. */
#include "nic/key.h"
#include "nic/nic.h"

#include <errno.h>
#include <stdlib.h>

static struct vb_key_entry *key_entry(struct vb_nic *nic, uint32_t index)
{
	uint64_t offset = atomic_load(&nic->seg.head->key_pages[index / VB_KEY_PAGE]);
	struct vb_key_entry *page = vb_segment_at(&nic->seg, offset);

	return &page[index % VB_KEY_PAGE];
}

static int page_add(struct vb_nic *nic)
{
	uint32_t page = nic->keys_made / VB_KEY_PAGE;
	uint32_t size = nic->keys_made + VB_KEY_PAGE;
	uint32_t *ring = calloc(size, sizeof(*ring));
	struct vb_mr **mrs = calloc(VB_KEY_PAGE, sizeof(struct vb_mr *));
	uint64_t offset = 0;

	if (page < VB_KEY_PAGES && ring && mrs)
		offset = vb_segment_alloc(&nic->seg, VB_KEY_PAGE * sizeof(struct vb_key_entry));
	if (!offset) {
		free(ring);
		free(mrs);
		return -ENOMEM;
	}
	free(nic->free_keys); /* the ring is empty when it must grow */
	nic->free_keys = ring;
	nic->free_keys_size = size;
	nic->free_keys_head = 0;
	nic->free_keys_tail = VB_KEY_PAGE;
	for (uint32_t i = 0; i < VB_KEY_PAGE; i++)
		ring[i] = nic->keys_made + i;
	__atomic_store_n(&nic->mrs[page], mrs, __ATOMIC_RELEASE);
	atomic_store_explicit(&nic->seg.head->key_pages[page], offset, memory_order_release);
	nic->keys_made += VB_KEY_PAGE;
	return 0;
}

int vb_key_alloc(struct vb_nic *nic, uint32_t *index, struct vb_key_entry **entry)
{
	if (nic->free_keys_head == nic->free_keys_tail && page_add(nic))
		return -ENOMEM;
	*index = nic->free_keys[nic->free_keys_head++ % nic->free_keys_size];
	*entry = key_entry(nic, *index);
	/* The tags move on with each use of the entry, so that an old key does not match. */
	(*entry)->tags = (*entry)->tags ? (*entry)->tags + 0x0101 : (uint32_t)vb_random64() | 1;
	return 0;
}

void vb_key_free(struct vb_nic *nic, uint32_t index)
{
	nic->free_keys[nic->free_keys_tail++ % nic->free_keys_size] = index;
}
