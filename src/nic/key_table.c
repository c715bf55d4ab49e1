/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of the key table, and aliases for keys that another NIC made. Under nic->lock. */
#include "nic/key_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "nic/nic.h"

static struct vb_key_entry *key_entry(struct vb_nic *nic, uint32_t index)
{
	uint64_t offset = atomic_load(&nic->seg.head->key_pages[index / VB_KEY_PAGE]);
	struct vb_key_page *page = vb_segment_at(&nic->seg, offset);

	return &page->entries[index % VB_KEY_PAGE];
}

/* Makes a page of entries, and the words in which senders take windows back; 0: no memory. */
static uint64_t entries_make(struct vb_nic *nic)
{
	uint64_t offset = vb_segment_alloc(&nic->seg, sizeof(struct vb_key_page));
	uint64_t lent = offset ? vb_segment_lend(&nic->seg, sizeof(struct vb_key_lent)) : 0;
	struct vb_key_page *page = vb_segment_at(&nic->seg, offset);

	if (!lent) {
		vb_segment_free(&nic->seg, offset, sizeof(struct vb_key_page));
		return 0;
	}
	for (uint32_t i = 0; i < VB_KEY_PAGE; i++) {
		page->entries[i].lent = lent;
		page->entries[i].place = i;
	}
	return offset;
}

static int page_add(struct vb_nic *nic)
{
	uint32_t page = nic->keys_made / VB_KEY_PAGE;
	uint32_t size = nic->keys_made + VB_KEY_PAGE;
	uint32_t *ring = calloc(size, sizeof(*ring));
	struct vb_mr **mrs = calloc(VB_KEY_PAGE, sizeof(struct vb_mr *));
	uint64_t offset = 0;

	if (page < VB_KEY_PAGES && ring && mrs)
		offset = entries_make(nic);
	if (!offset) {
		free(ring);
		free(mrs);
		return -ENOMEM;
	}
	free(nic->free_keys); /* a page is added only when the ring is empty */
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
	atomic_store(&(*entry)->map, 0);
	/* The tags move on with each use of the entry, so that an old key does not match. */
	(*entry)->tags = (*entry)->tags ? (*entry)->tags + 0x0101 : (uint32_t)vb_random64() | 1;
	return 0;
}

void vb_key_free(struct vb_nic *nic, uint32_t index)
{
	uint64_t offset = atomic_load(&nic->seg.head->key_pages[index / VB_KEY_PAGE]);
	struct vb_key_page *page = vb_segment_at(&nic->seg, offset);

	atomic_store(&page->ended_ns[index % VB_KEY_PAGE], vb_now_ns());
	nic->free_keys[nic->free_keys_tail++ % nic->free_keys_size] = index;
}

static struct vb_key_alias *alias_make(struct vb_segment_head *head, uint32_t index, uint32_t key,
				       bool rkey_only)
{
	for (uint32_t i = 0; i < VB_KEY_ALIASES; i++) {
		struct vb_key_alias *alias = &head->aliases[i];

		if (atomic_load(&alias->key))
			continue;
		alias->index = index;
		alias->rkey_only = rkey_only;
		atomic_store(&alias->key, key);
		if (atomic_load(&head->alias_count) <= i)
			atomic_store(&head->alias_count, i + 1);
		return alias;
	}
	return NULL;
}

int vb_key_alias_add(struct vb_nic *nic, uint32_t index, uint32_t lkey, uint32_t rkey)
{
	struct vb_segment_head *head = nic->seg.head;
	struct vb_key_alias *first = alias_make(head, index, lkey, false);

	if (first && (lkey == rkey || alias_make(head, index, rkey, true))) {
		key_entry(nic, index)->tags = (rkey & 0xff) << 8 | (lkey & 0xff);
		return 0;
	}
	if (first)
		atomic_store(&first->key, 0);
	return -ENOMEM;
}

void vb_key_alias_remove(struct vb_nic *nic, uint32_t index)
{
	for (uint32_t i = 0; i < VB_KEY_ALIASES; i++)
		if (nic->seg.head->aliases[i].index == index)
			atomic_store(&nic->seg.head->aliases[i].key, 0);
}
