/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/neighbour.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_LOOK_NS 1000000u
#define LOOKS_NS_MAX  50000000u
#define KNOWN_NS      1000000000u

/* --- neighbours that were found lately --- */

enum { KNOWN_SIZE = 64 }; /* a power of two */

struct known {
	union ibv_gid gid;
	uint32_t scope;
	uint64_t until_ns; /* 0: unused */
};
static struct known lately[KNOWN_SIZE];

/* The addresses of one link differ in their last bytes. */
static struct known *place_of(const struct vb_cma_id *id)
{
	return &lately[(id->dgid.raw[15] ^ id->dgid.raw[14] ^ id->scope) & (KNOWN_SIZE - 1)];
}

static bool was_known_lately(const struct vb_cma_id *id, uint64_t now_ns)
{
	const struct known *known = place_of(id);

	return known->until_ns > now_ns && known->scope == id->scope &&
	       !memcmp(&known->gid, &id->dgid, sizeof(known->gid));
}

static void remember(const struct vb_cma_id *id, uint64_t now_ns)
{
	*place_of(id) = (struct known){ id->dgid, id->scope, now_ns + KNOWN_NS };
}

bool vb_cma_neighbour_is_known(const struct vb_cma_id *id)
{
	bool known;

	vb_cma_lock();
	known = was_known_lately(id, vb_now_ns());
	vb_cma_unlock();
	if (known)
		return true;
	known = vb_cma_engine()->neighbour(&id->sgid, &id->dgid, id->scope);
	vb_cma_lock();
	if (known)
		remember(id, vb_now_ns());
	vb_cma_unlock();
	return known;
}

/* --- identifiers that wait --- */

static struct vb_list waiting = VB_LIST_INIT(waiting);
static uint64_t look_ns, interval_ns; /* the time of the next look at all, and of the one after */

void vb_cma_neighbour_wait(struct vb_cma_id *id, int timeout_ms, uint64_t now_ns)
{
	const bool alone = vb_list_empty(&waiting);

	id->since_ns = now_ns;
	id->neighbour_until_ns =
		timeout_ms < 0 ? VB_NEVER_NS : now_ns + (uint64_t)timeout_ms * 1000000u;
	vb_list_append(&waiting, &id->neighbour_node);
	interval_ns = FIRST_LOOK_NS;
	/* A new identifier must not delay the look that the others wait for. */
	if (alone || now_ns + interval_ns < look_ns)
		look_ns = now_ns + interval_ns;
}

void vb_cma_neighbour_drop(struct vb_cma_id *id)
{
	vb_list_remove(&id->neighbour_node);
}

static bool same_question(const struct vb_cma_id *a, const struct vb_cma_id *b)
{
	return a->scope == b->scope && !memcmp(&a->dgid, &b->dgid, sizeof(a->dgid)) &&
	       !memcmp(&a->sgid, &b->sgid, sizeof(a->sgid));
}

/* Identifiers that wait for one address mostly stand side by side: one question serves them. */
void vb_cma_neighbour_tick(uint64_t now_ns)
{
	const struct vb_cma_id *asked = NULL;

	if (vb_list_empty(&waiting) || now_ns < look_ns)
		return;
	vb_list_for(id, &waiting, struct vb_cma_id, neighbour_node) {
		bool known = was_known_lately(id, now_ns);

		if (!known && (!asked || !same_question(asked, id)))
			known = vb_cma_engine()->neighbour(&id->sgid, &id->dgid, id->scope);
		asked = id;
		if (known)
			remember(id, now_ns);
		else if (now_ns < id->neighbour_until_ns)
			continue;
		vb_list_remove(&id->neighbour_node);
		vb_cma_resolved(id, known ? 0 : -ETIMEDOUT);
	}
	interval_ns = 2 * interval_ns < LOOKS_NS_MAX ? 2 * interval_ns : LOOKS_NS_MAX;
	look_ns = now_ns + interval_ns;
}

uint64_t vb_cma_neighbour_next_ns(void)
{
	return vb_list_empty(&waiting) ? VB_NEVER_NS : look_ns;
}

void vb_cma_neighbour_forget(void)
{
	vb_list_init(&waiting);
	memset(lately, 0, sizeof(lately));
}
