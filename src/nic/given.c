/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/given.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi/verbs.h"
#include "base/annotate.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/spin.h"
#include "nic/context.h"

enum { ROOM_MIN = 64 };

struct entry {
	const void *object; /* NULL: free */
	const struct ibv_context *context;
	uint32_t handle;
	uint8_t kind; /* enum vb_given */
	bool ending;
};

/* Where the public struct has the fields that its entry repeats. */
struct layout {
	const char *name;
	int context, handle; /* offsets; ABSENT */
};

enum { ABSENT = -1 };

#define AT(type, field) ((int)offsetof(struct type, field))

static const struct layout layouts[VB_GIVEN_KINDS] = {
	[VB_GIVEN_CONTEXT] = { "context", ABSENT, ABSENT },
	[VB_GIVEN_PD] = { "PD", AT(ibv_pd, context), AT(ibv_pd, handle) },
	[VB_GIVEN_MR] = { "MR", AT(ibv_mr, context), AT(ibv_mr, handle) },
	[VB_GIVEN_MW] = { "MW", AT(ibv_mw, context), AT(ibv_mw, handle) },
	[VB_GIVEN_CHANNEL] = { "completion channel", AT(ibv_comp_channel, context), ABSENT },
	[VB_GIVEN_CQ] = { "CQ", AT(ibv_cq, context), AT(ibv_cq, handle) },
	[VB_GIVEN_SRQ] = { "SRQ", AT(ibv_srq, context), AT(ibv_srq, handle) },
	[VB_GIVEN_QP] = { "QP", AT(ibv_qp, context), AT(ibv_qp, handle) },
	[VB_GIVEN_AH] = { "AH", AT(ibv_ah, context), AT(ibv_ah, handle) },
	[VB_GIVEN_XRCD] = { "XRC domain", AT(ibv_xrcd, context), ABSENT },
	[VB_GIVEN_DM] = { "device memory", AT(ibv_dm, context), AT(ibv_dm, handle) },
	[VB_GIVEN_TD] = { "thread domain", AT(ibv_td, context), ABSENT },
	[VB_GIVEN_COUNTERS] = { "counters object", AT(ibv_counters, context), ABSENT },
	[VB_GIVEN_WQ] = { "WQ", AT(ibv_wq, context), AT(ibv_wq, handle) },
	[VB_GIVEN_IND_TABLE] = { "indirection table", AT(ibv_rwq_ind_table, context),
				 AT(ibv_rwq_ind_table, ind_tbl_handle) },
	[VB_GIVEN_FLOW] = { "flow", AT(ibv_flow, context), AT(ibv_flow, handle) },
	[VB_GIVEN_DMAH] = { "DMA handle", AT(ibv_dmah, context), ABSENT },
	[VB_GIVEN_BUF] = { "buffer", ABSENT, ABSENT },
	[VB_GIVEN_COMP_CNTR] = { "completion counter", AT(ibv_comp_cntr, context),
				 AT(ibv_comp_cntr, handle) },
};

/* --- the table: open addressing, at most half full; under table_lock, which is taken last --- */

static struct vb_spin table_lock;
static struct entry *table;
static size_t room, used;            /* room is 0 or a power of two */
static _Atomic uint64_t endings = 1; /* a count; written under table_lock, never 0 */

static void lock_table(void)
{
	vb_spin_lock(&table_lock);
}

static void unlock_table(void)
{
	vb_spin_unlock(&table_lock);
}

/* A child may destroy the objects that its parent was given, so the table stays. */
static const struct vb_fork_handlers at_fork = { lock_table, unlock_table, unlock_table };

static size_t place_of(enum vb_given kind, const void *object, size_t of)
{
	uint64_t hash = ((uintptr_t)object >> 4 ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;

	return (size_t)(hash >> 32) & (of - 1);
}

/* The entry of the object, or the free entry where it belongs. */
static struct entry *look_up(struct entry *in, size_t of, enum vb_given kind, const void *object)
{
	size_t i = place_of(kind, object, of);

	while (in[i].object && (in[i].object != object || in[i].kind != kind))
		i = (i + 1) & (of - 1);
	return &in[i];
}

static struct entry *find_entry(enum vb_given kind, const void *object)
{
	struct entry *entry = room ? look_up(table, room, kind, object) : NULL;

	return entry && entry->object ? entry : NULL;
}

static int make_room(void)
{
	size_t more = room ? 2 * room : ROOM_MIN;
	struct entry *larger;

	if (2 * (used + 1) <= room)
		return 0;
	larger = calloc(more, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	for (size_t i = 0; i < room; i++)
		if (table[i].object)
			*look_up(larger, more, table[i].kind, table[i].object) = table[i];
	free(table);
	table = larger;
	room = more;
	return 0;
}

/* Later entries that were displaced move up. */
static void remove_entry(struct entry *entry)
{
	size_t hole = (size_t)(entry - table), i = hole;

	for (;;) {
		i = (i + 1) & (room - 1);
		if (!table[i].object)
			break;
		if (((i - place_of(table[i].kind, table[i].object, room)) & (room - 1)) >=
		    ((i - hole) & (room - 1))) {
			table[hole] = table[i];
			hole = i;
		}
	}
	memset(&table[hole], 0, sizeof(table[hole]));
	used--;
}

/* --- fields of the object --- */

static const struct ibv_context *context_of(enum vb_given kind, const void *object)
{
	const struct ibv_context *context = NULL;

	if (layouts[kind].context != ABSENT)
		memcpy(&context, (const char *)object + layouts[kind].context, sizeof(context));
	return context;
}

static uint32_t handle_of(enum vb_given kind, const void *object)
{
	uint32_t handle = 0;

	if (layouts[kind].handle != ABSENT)
		memcpy(&handle, (const char *)object + layouts[kind].handle, sizeof(handle));
	return handle;
}

static bool is_intact(const struct entry *entry)
{
	return !entry->ending && entry->context == context_of(entry->kind, entry->object) &&
	       entry->handle == handle_of(entry->kind, entry->object);
}

/*
 * The entry that the thread found last. Programs call several times in a row for one object: a QP
 * is connected by three calls. The copy is good as long as no object has ended since. An object
 * that ended before the call, in the order of the program, has been counted.
 */
static __thread struct {
	struct entry entry;
	uint64_t endings; /* 0: there is none */
} newest;

static bool is_newest(enum vb_given kind, const void *object)
{
	return newest.endings == atomic_load_explicit(&endings, memory_order_relaxed) &&
	       newest.entry.object == object && newest.entry.kind == kind &&
	       is_intact(&newest.entry);
}

static void explain_unknown(enum vb_given kind, const void *object, const char *call)
{
	if (object)
		vb_explain("%s: there is no such %s: it was destroyed, or its handle or context "
			   "was overwritten",
			   call, layouts[kind].name);
	else
		vb_explain("%s: the %s is NULL", call, layouts[kind].name);
}

/* --- for callers --- */

int vb_given_add(enum vb_given kind, const void *object)
{
	struct entry *entry;
	int err;

	vb_tell_release(&table);
	vb_fork_register(VB_FORK_GIVEN, &at_fork);
	lock_table();
	err = make_room();
	if (!err) {
		entry = look_up(table, room, kind, object);
		used += !entry->object; /* else an object that ends had the same address */
		*entry = (struct entry){ object, context_of(kind, object), handle_of(kind, object),
					 (uint8_t)kind, false };
	}
	unlock_table();
	return err;
}

bool vb_given_has(enum vb_given kind, const void *object)
{
	const struct entry *entry;
	bool has;

	if (is_newest(kind, object))
		return true;
	lock_table();
	entry = find_entry(kind, object);
	has = entry && is_intact(entry);
	if (has) {
		newest.entry = *entry;
		newest.endings = atomic_load_explicit(&endings, memory_order_relaxed);
	}
	unlock_table();
	return has;
}

void vb_given_tell_all(void)
{
	vb_tell_acquire(&table);
}

uint32_t vb_given_number(void)
{
	static _Atomic uint32_t last;
	uint32_t number;

	do
		number = atomic_fetch_add(&last, 1) + 1;
	while (!number);
	return number;
}

int vb_given_check(enum vb_given kind, const void *object, const char *call)
{
	if (object && vb_given_has(kind, object))
		return 0;
	explain_unknown(kind, object, call);
	return -EINVAL;
}

/* Handles belong to the file behind the context. An imported context shares that file. */
static bool share_file(const struct ibv_context *a, const struct ibv_context *b)
{
	bool open;

	if (a == b)
		return true;
	lock_table();
	open = find_entry(VB_GIVEN_CONTEXT, a) && find_entry(VB_GIVEN_CONTEXT, b);
	unlock_table();
	return open && vb_context((struct ibv_context *)a)->export &&
	       vb_context((struct ibv_context *)a)->export ==
		       vb_context((struct ibv_context *)b)->export;
}

int vb_given_check_in(const struct ibv_context *context, enum vb_given kind, const void *object,
		      const char *call)
{
	int err = vb_given_check(kind, object, call);

	if (err || share_file(context_of(kind, object), context))
		return err;
	vb_explain("%s: the %s is of another device, or of another context of it", call,
		   layouts[kind].name);
	return -EINVAL;
}

int vb_given_end(enum vb_given kind, const void *object, const char *call)
{
	struct entry *entry;
	bool intact;

	lock_table();
	entry = object ? find_entry(kind, object) : NULL;
	intact = entry && is_intact(entry);
	if (intact) {
		entry->ending = true;
		atomic_fetch_add_explicit(&endings, 1, memory_order_relaxed);
	}
	unlock_table();
	if (intact)
		return 0;
	explain_unknown(kind, object, call);
	return -ENOENT;
}

int vb_given_ended(enum vb_given kind, const void *object, int err)
{
	struct entry *entry;

	lock_table();
	entry = find_entry(kind, object);
	if (entry && entry->ending) {
		entry->ending = false;
		if (!err)
			remove_entry(entry);
	}
	unlock_table();
	return err;
}
