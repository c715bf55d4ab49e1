/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/mapped.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "base/config.h"
#include "nic/map.h"
#include "nic/odp.h"
#include "shm/key.h"

enum { CALL_NS = 1200, BYTES_PER_NS = 10 }; /* what a copy through the kernel costs */

static struct vb_views *views_get(struct vb_peer *target)
{
	struct vb_views *views = atomic_load_explicit(&target->views, memory_order_acquire);
	struct vb_views *before = NULL;

	if (views)
		return views;
	views = calloc(1, sizeof(*views));
	if (views && !atomic_compare_exchange_strong(&target->views, &before, views)) {
		free(views);
		views = before;
	}
	return views;
}

/* Asks once for each serial. The answer comes to the service thread. */
static void ask(struct vb_peer *target, uint32_t index, uint64_t serial)
{
	const uint64_t proof_at = VB_READ_ONCE(target->head->maps[index].proof_at);
	struct vb_view_message message = {
		.magic = VB_VIEW_MAGIC, .kind = VB_VIEW_ASK, .index = index, .serial = serial
	};
	struct iovec here = { &message.proof, sizeof(message.proof) };
	struct iovec there = { (void *)(uintptr_t)proof_at, sizeof(message.proof) };
	struct vb_views *views = views_get(target);

	if (!views || atomic_exchange(&views->at[index].asked, serial) == serial ||
	    vb_config_map() == VB_MAP_OFF)
		return;
	if (process_vm_readv(target->tid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(message.proof))
		vb_view_send(target->socket, &message, -1);
}

struct vb_mapped vb_mapped_find(struct vb_peer *target, uint32_t index, uint64_t address,
				uint64_t length, bool writes)
{
	const struct vb_shown_map *shown = &target->head->maps[index % VB_MAPS_MAX];
	uint64_t serial = atomic_load_explicit(&shown->serial, memory_order_acquire), inside;
	struct vb_views *views = atomic_load_explicit(&target->views, memory_order_acquire);
	const struct vb_view *view = views ? &views->at[index % VB_MAPS_MAX] : NULL;
	const struct vb_mapped none = { 0 };

	if (!serial)
		return none;
	if (!view || atomic_load_explicit(&view->serial, memory_order_acquire) != serial) {
		ask(target, index % VB_MAPS_MAX, serial);
		return none;
	}
	inside = address - VB_READ_ONCE(shown->start);
	/* Own memory may be missing (nic/odp.h): then the kernel copies. */
	if (inside > view->length || length > view->length - inside || (writes && !view->writes) ||
	    vb_odp_in_use())
		return none;
	return (struct vb_mapped){ view->base + inside, shown, serial };
}

void vb_mapped_spent(struct vb_peer *target, const struct vb_key_cache *key, uint64_t bytes)
{
	const struct vb_key_entry *entry = key->entry;
	struct vb_key_lent *lent;
	_Atomic uint32_t *word;
	uint64_t spent, cost;
	bool rkey_only;
	uint32_t index;

	if (vb_config_map() == VB_MAP_OFF || target->self || !entry ||
	    atomic_load_explicit(&entry->map, memory_order_relaxed) ||
	    entry->kind != VB_KEY_REGION || VB_READ_ONCE(entry->length) > VB_MAP_BYTES_MAX)
		return;
	lent = vb_peer_lent_at(target, entry->lent, sizeof(*lent));
	if (!lent)
		return;
	word = &lent->spent_ns[entry->place % VB_KEY_PAGE];
	cost = vb_map_cost_ns(VB_READ_ONCE(entry->length));
	spent = atomic_load_explicit(word, memory_order_relaxed) + CALL_NS + bytes / BYTES_PER_NS;
	if (spent < cost) {
		atomic_store_explicit(word, (uint32_t)spent, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(word, 0, memory_order_relaxed);
	if (!vb_key_decode(&target->head->keys, key->rkey, &rkey_only, &index))
		return;
	atomic_store(&target->lent->wanted_key, 1 + index);
	vb_peer_attend(target, VB_ATTN_MAP);
}
