/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of the program, by handle, QP number and key. A lookup needs no lock: entries are
 * never removed, and a table that was too small stays where it is.
 *
 * The memory of a handle is kept when the object is destroyed, so that a later use is recognized
 * instead of being a read of freed memory: the library's call of free comes to this library.
 */
#include <stdlib.h>

#include "check/check.h"

enum { TABLE_FIRST = 1024, DYING_MAX = 16, KEPT_MAX = 8192 };

pthread_mutex_t vb_check_lock = PTHREAD_MUTEX_INITIALIZER;
__thread bool vb_check_inside __attribute__((tls_model("initial-exec")));

struct slot {
	_Atomic uint64_t key; /* 0: free */
	struct vb_object *_Atomic object;
};

struct table {
	uint64_t mask, count;
	struct slot slots[];
};

struct index {
	struct table *_Atomic table;
};

static struct index by_handle, by_qpn, by_lkey, by_rkey;
static struct vb_object *_Atomic objects;
static void *_Atomic dying[DYING_MAX];
static _Atomic unsigned dying_count, kept;

static const char *const kind_names[VB_KIND_COUNT] = {
	[VB_KIND_CONTEXT] = "device context",
	[VB_KIND_PD] = "PD",
	[VB_KIND_MR] = "MR",
	[VB_KIND_CQ] = "CQ",
	[VB_KIND_QP] = "QP",
	[VB_KIND_SRQ] = "SRQ",
	[VB_KIND_AH] = "AH",
	[VB_KIND_CHANNEL] = "completion channel",
	[VB_KIND_MW] = "MW",
};

const char *vb_kind_name(enum vb_kind kind)
{
	return kind_names[kind];
}

/* --- tables --- */

static uint64_t spread(uint64_t key)
{
	key *= 0x9e3779b97f4a7c15u;
	return key ^ key >> 32;
}

static struct vb_object *find(const struct index *index, uint64_t key)
{
	struct table *table = atomic_load_explicit(&index->table, memory_order_acquire);

	for (uint64_t at = spread(key); table && key; at++) {
		struct slot *slot = &table->slots[at & table->mask];
		const uint64_t there = atomic_load_explicit(&slot->key, memory_order_acquire);

		if (there == key)
			return atomic_load_explicit(&slot->object, memory_order_acquire);
		if (!there)
			break;
	}
	return NULL;
}

static void put(struct table *table, uint64_t key, struct vb_object *object)
{
	uint64_t at = spread(key);
	struct slot *slot = &table->slots[at & table->mask];

	while (atomic_load(&slot->key) && atomic_load(&slot->key) != key)
		slot = &table->slots[++at & table->mask];
	table->count += !atomic_load(&slot->key);
	atomic_store(&slot->object, object);
	atomic_store_explicit(&slot->key, key, memory_order_release); /* pairs with find */
}

/* The old table stays: another thread may be looking into it. */
static struct table *grow(struct index *index)
{
	struct table *old = atomic_load(&index->table);
	const uint64_t size = old ? 4 * (old->mask + 1) : TABLE_FIRST;
	struct table *table = calloc(1, sizeof(*table) + size * sizeof(struct slot));

	if (!table)
		return NULL;
	table->mask = size - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++)
		if (atomic_load(&old->slots[i].key))
			put(table, atomic_load(&old->slots[i].key),
			    atomic_load(&old->slots[i].object));
	atomic_store_explicit(&index->table, table, memory_order_release);
	return table;
}

static bool insert(struct index *index, uint64_t key, struct vb_object *object)
{
	struct table *table = atomic_load(&index->table);

	if (!table || 2 * table->count > table->mask)
		table = grow(index);
	if (table && key)
		put(table, key, object);
	return table;
}

/* --- objects --- */

struct vb_object *vb_object_of(const void *handle)
{
	return find(&by_handle, (uintptr_t)handle);
}

/* Keys may be 0. */
struct vb_object *vb_object_of_qpn(uint32_t qpn)
{
	return find(&by_qpn, 1ull << 32 | qpn);
}

struct vb_object *vb_object_of_lkey(uint32_t lkey)
{
	return find(&by_lkey, 1ull << 32 | lkey);
}

struct vb_object *vb_object_of_rkey(uint32_t rkey)
{
	return find(&by_rkey, 1ull << 32 | rkey);
}

struct vb_object *vb_objects_first(void)
{
	return atomic_load(&objects);
}

struct vb_object *vb_object_add(enum vb_kind kind, void *handle, const struct vb_stack *made)
{
	struct vb_object *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	object->kind = kind;
	object->handle = handle;
	object->made = made;
	pthread_mutex_init(&object->order, NULL);
	if (!insert(&by_handle, (uintptr_t)handle, object)) {
		free(object);
		return NULL;
	}
	object->next = atomic_load(&objects);
	atomic_store(&objects, object);
	return object;
}

void vb_object_name_qpn(struct vb_object *object)
{
	insert(&by_qpn, 1ull << 32 | object->qpn, object);
}

void vb_object_name_keys(struct vb_object *object)
{
	insert(&by_lkey, 1ull << 32 | object->lkey, object);
	insert(&by_rkey, 1ull << 32 | object->rkey, object);
}

/* In the child of fork: the objects are its parent's. */
void vb_objects_forget(void)
{
	pthread_mutex_init(&vb_check_lock, NULL);
	vb_check_inside = false;
	atomic_store(&objects, NULL);
	atomic_store(&by_handle.table, NULL);
	atomic_store(&by_qpn.table, NULL);
	atomic_store(&by_lkey.table, NULL);
	atomic_store(&by_rkey.table, NULL);
	atomic_store(&dying_count, 0);
	for (int i = 0; i < DYING_MAX; i++)
		atomic_store(&dying[i], NULL);
}

/* --- the end of an object --- */

void vb_object_dying(struct vb_object *object)
{
	if (!object || atomic_load(&kept) >= KEPT_MAX)
		return;
	for (int i = 0; i < DYING_MAX; i++) {
		void *none = NULL;

		if (atomic_compare_exchange_strong(&dying[i], &none, object->handle)) {
			atomic_fetch_add(&dying_count, 1);
			return;
		}
	}
}

static void not_dying(const struct vb_object *object)
{
	for (int i = 0; i < DYING_MAX; i++) {
		void *handle = object->handle;

		if (atomic_compare_exchange_strong(&dying[i], &handle, NULL))
			atomic_fetch_sub(&dying_count, 1);
	}
}

void vb_object_ended(struct vb_object *object, bool destroyed, const struct vb_stack *stack)
{
	if (!object)
		return;
	not_dying(object);
	if (destroyed)
		atomic_store(&object->gone, stack);
}

bool vb_object_keeps(void *p, size_t (*size_of)(void *))
{
	if (!atomic_load_explicit(&dying_count, memory_order_relaxed))
		return false;
	for (int i = 0; i < DYING_MAX; i++) {
		void *handle = atomic_load(&dying[i]);

		if (handle && (char *)p <= (char *)handle &&
		    (char *)handle < (char *)p + size_of(p)) {
			atomic_fetch_add(&kept, 1);
			return true;
		}
	}
	return false;
}
