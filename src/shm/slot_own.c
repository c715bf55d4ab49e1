/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/slot_own.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/random.h"
#include "net/netlink.h"

enum {
	OWN_SLOTS = VB_SLOT_MAX - VB_SLOT_OWN_MIN + 1,
	TRIES = 64,       /* if other processes claim at the same moment */
	TIMES_APART = 10, /* the pause after a question, in multiples of the time that it took */
};

/* --- what the kernel lists --- */

struct entry {
	uint32_t slot;
	struct vb_slot_holder holder;
};

struct listing {
	struct vb_uid_map map;
	uint32_t slot; /* list only this slot; 0: all */
	struct entry *entries;
	size_t count, room;
	bool short_of_memory;
};

/* A name as vb_slot_name_of makes it, without its first byte. */
static bool parse_name(const char *bytes, size_t size, struct entry *entry)
{
	char text[64], end;
	unsigned long long random;

	if (size >= sizeof(text))
		return false;
	memcpy(text, bytes, size);
	text[size] = '\0';
	if (sscanf(text, "verbena.%4u.%16llx%c", &entry->slot, &random, &end) != 2)
		return false;
	entry->holder.random = random;
	return entry->slot >= VB_SLOT_OWN_MIN && entry->slot <= VB_SLOT_MAX && random;
}

static void add_entry(struct listing *listing, const struct entry *entry)
{
	if (listing->count == listing->room) {
		const size_t room = listing->room ? 2 * listing->room : 64;
		struct entry *entries = realloc(listing->entries, room * sizeof(*entries));

		listing->short_of_memory |= !entries;
		if (!entries)
			return;
		listing->entries = entries;
		listing->room = room;
	}
	listing->entries[listing->count++] = *entry;
}

/* A name counts only if the slot is for the user that bound it. */
static bool entry_counts(const struct entry *entry)
{
	return !entry->holder.known || vb_slot_weight(entry->holder.user, entry->slot);
}

static void read_socket(const struct nlmsghdr *message, void *argument)
{
	struct listing *listing = argument;
	const struct unix_diag_msg *body = NLMSG_DATA(message);
	struct entry entry = { 0 };
	bool named = false;
	int left;

	if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    message->nlmsg_len < NLMSG_LENGTH(sizeof(*body)) || body->udiag_type != SOCK_SEQPACKET)
		return;
	for (const struct rtattr *attr = vb_netlink_attrs(message, sizeof(*body), &left);
	     RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		const char *value = RTA_DATA(attr);
		const size_t size = RTA_PAYLOAD(attr);
		uint32_t uid;

		if (attr->rta_type == UNIX_DIAG_NAME && size > 1 && !value[0])
			named = parse_name(value + 1, size - 1, &entry);
		if (attr->rta_type == UNIX_DIAG_UID && size == sizeof(uid)) {
			memcpy(&uid, value, sizeof(uid));
			entry.holder.known = vb_uid_outside(&listing->map, uid, &entry.holder.user);
		}
	}
	if (named && (!listing->slot || listing->slot == entry.slot) && entry_counts(&entry))
		add_entry(listing, &entry);
}

/* Lists listening sockets only: a name that is merely bound does not hold its slot yet. */
static int list_holders(struct listing *listing, uint32_t slot)
{
	const struct unix_diag_req question = {
		.sdiag_family = AF_UNIX,
		.udiag_states = 1u << TCP_LISTEN,
		.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID,
	};
	struct vb_netlink_request request;
	int err;

	listing->slot = slot;
	listing->count = 0;
	vb_netlink_request(&request, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &question, sizeof(question));
	err = vb_netlink_ask_sockets(&request, read_socket, listing);
	if (err == -EAGAIN) /* sockets came and went during the dump: they always do */
		err = 0;
	return !err && listing->short_of_memory ? -ENOMEM : err;
}

/* --- claiming --- */

static bool is_taken(const struct listing *listing, uint32_t slot, uint64_t own)
{
	for (size_t i = 0; i < listing->count; i++)
		if (listing->entries[i].slot == slot && listing->entries[i].holder.random != own)
			return true;
	return false;
}

struct candidate {
	uint32_t slot, weight;
};

static int by_weight(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (x->weight < y->weight) - (x->weight > y->weight);
}

/* Free slots of the user; first the one that another user is least likely to win. */
static unsigned candidates_of(const struct listing *listing, uint32_t user,
			      struct candidate candidates[OWN_SLOTS])
{
	unsigned count = 0;

	for (uint32_t slot = VB_SLOT_OWN_MIN; slot <= VB_SLOT_MAX; slot++) {
		const uint32_t weight = vb_slot_weight(user, slot);

		if (weight && !is_taken(listing, slot, 0))
			candidates[count++] = (struct candidate){ slot, weight };
	}
	qsort(candidates, count, sizeof(*candidates), by_weight);
	return count;
}

/* Binds, then looks. Of two processes at the same moment at most one wins, never both. */
static int claim_one(struct vb_slot_claim *claim, struct listing *listing, bool first)
{
	const uint64_t random = vb_random64() >> 1 | 1; /* neither 0 nor VB_SLOT_SHARED_NAME */
	int err = vb_slot_bind(claim, random, first);

	if (err)
		return err;
	err = list_holders(listing, claim->slot);
	if (!err && is_taken(listing, claim->slot, random))
		err = -EADDRINUSE;
	if (err)
		vb_slot_release(claim);
	return err;
}

/* Random, so that two processes that met at one slot go on with different slots. */
static uint32_t pick_slot(const struct candidate *candidates, unsigned count, unsigned try)
{
	const unsigned most = 2 * try + 1;

	return candidates[vb_random64() % (count < most ? count : most)].slot;
}

/* -EADDRINUSE: another process claimed the same slot; -EMFILE: no slot is free. */
static int try_claim(struct vb_slot_claim *claim, struct listing *listing, uint32_t user,
		     unsigned try, bool first)
{
	struct candidate *candidates = malloc(OWN_SLOTS * sizeof(*candidates));
	int err = candidates ? list_holders(listing, 0) : -ENOMEM;
	unsigned count = err ? 0 : candidates_of(listing, user, candidates);

	if (count)
		claim->slot = pick_slot(candidates, count, try);
	else if (!err)
		err = -EMFILE;
	free(candidates);
	return err ? err : claim_one(claim, listing, first);
}

int vb_slot_claim_own(struct vb_slot_claim *claim, uint32_t user, bool first)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	int err = listing ? -EADDRINUSE : -ENOMEM;

	if (listing)
		vb_uid_map_read(&listing->map);
	for (unsigned try = 0; try < TRIES && err == -EADDRINUSE; try++)
		err = try_claim(claim, listing, user, try, first);
	if (err == -EADDRINUSE || err == -EMFILE) {
		vb_explain(
			"no slot is left for user %u: a process takes one for each 4096 QPs, and a "
			"user has about 1000; `verbena resources` lists the processes that hold "
			"them",
			geteuid());
		err = -EMFILE;
	} else if (err) {
		vb_explain("the kernel does not list the holders of own slots: %s", strerror(-err));
	}
	if (listing)
		free(listing->entries);
	free(listing);
	return err;
}

/* --- finding --- */

static pthread_mutex_t found_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_slot_holder found[OWN_SLOTS]; /* under found_lock */
static uint64_t next_ns;                       /* under found_lock: no question before this time */

/* Users of another user namespace cannot be told apart. If several of them claim one slot, none is
 * believed. */
static int choose_holder(const struct listing *listing, struct vb_slot_holder *holder)
{
	const struct vb_slot_holder *best = NULL;
	unsigned unknown = 0;

	for (size_t i = 0; i < listing->count; i++) {
		const struct entry *entry = &listing->entries[i];
		const bool known = entry->holder.known;

		unknown += !known;
		if (best && best->known &&
		    (!known || vb_slot_weight(entry->holder.user, entry->slot) <=
				       vb_slot_weight(best->user, entry->slot)))
			continue;
		best = &entry->holder;
	}
	if (!best || (!best->known && unknown > 1))
		return -ECONNREFUSED;
	*holder = *best;
	return 0;
}

static int ask_holder(uint32_t slot, struct vb_slot_holder *holder)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	uint64_t begin_ns = vb_now_ns(), end_ns;
	int err = listing ? 0 : -ENOMEM;

	if (begin_ns < next_ns)
		err = -EAGAIN;
	if (!err) {
		vb_uid_map_read(&listing->map);
		err = list_holders(listing, slot);
		end_ns = vb_now_ns();
		/* Any user can make the list long, and so each question slow. */
		next_ns = end_ns + TIMES_APART * (end_ns - begin_ns);
		err = err ? -ECONNREFUSED : choose_holder(listing, holder);
		free(listing->entries);
	}
	free(listing);
	return err;
}

int vb_slot_own_find(uint32_t slot, struct vb_slot_holder *holder)
{
	VB_NO_CANCEL_WITHIN;
	struct vb_slot_holder *known = &found[slot - VB_SLOT_OWN_MIN];
	int err = 0;

	if (pthread_mutex_trylock(&found_lock)) { /* another thread asks: the answer comes soon */
		err = -EAGAIN;
	} else {
		if (!known->random)
			err = ask_holder(slot, known);
		*holder = *known;
		pthread_mutex_unlock(&found_lock);
	}
	return err;
}

void vb_slot_lost(uint32_t slot)
{
	if (slot < VB_SLOT_OWN_MIN || slot > VB_SLOT_MAX)
		return;
	pthread_mutex_lock(&found_lock);
	found[slot - VB_SLOT_OWN_MIN] = (struct vb_slot_holder){ 0 };
	pthread_mutex_unlock(&found_lock);
}

void vb_slot_forget(void)
{
	pthread_mutex_init(&found_lock, NULL);
	memset(found, 0, sizeof(found));
	next_ns = 0;
}
