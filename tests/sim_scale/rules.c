/* SPDX-License-Identifier: BSD-2-Clause */
#include "rules.h"

#include <stdlib.h>

enum { TABLE = 1 << 14 }; /* QPs are at most half as many */

enum rules rules_chosen;
const char *const rules_names[RULES_COUNT] = { "verbena", "dcqcn", "halving" };
static struct foreign table[TABLE];

static const struct foreign_rules *foreign_rules(void)
{
	return rules_chosen == RULES_DCQCN ? &rules_dcqcn : &rules_halving;
}

/* The state of a QP by the address of its congestion; a stale one has the same owner. */
static struct foreign *foreign_of(const struct vb_congestion *c)
{
	size_t at = (uintptr_t)c / 64 * 0x9e3779b1u % TABLE;

	while (table[at].owner && table[at].owner != c)
		at = (at + 1) % TABLE;
	table[at].owner = c;
	return &table[at];
}

void rules_forget(void)
{
	for (unsigned i = 0; i < TABLE; i++)
		table[i] = (struct foreign){ 0 };
}

#define WRAP(type, name, ...)            \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

WRAP(void, vb_congestion_init, struct vb_congestion *c, uint32_t mtu)
{
	struct foreign *f;

	__real_vb_congestion_init(c, mtu);
	if (rules_chosen == RULES_OWN)
		return;
	f = foreign_of(c);
	*f = (struct foreign){ .owner = c, .mtu = mtu };
	foreign_rules()->init(f, c);
}

WRAP(void, vb_congestion_acked, struct vb_congestion *c, uint32_t packets, uint32_t in_flight,
     uint64_t now_ns)
{
	if (rules_chosen == RULES_OWN)
		__real_vb_congestion_acked(c, packets, in_flight, now_ns);
	else
		c->acked_ns = now_ns, foreign_rules()->acked(foreign_of(c), c, packets, now_ns);
}

WRAP(void, vb_congestion_marked, struct vb_congestion *c, uint64_t now_ns)
{
	if (rules_chosen == RULES_OWN)
		__real_vb_congestion_marked(c, now_ns);
	else
		foreign_rules()->marked(foreign_of(c), c, now_ns);
}

WRAP(bool, vb_congestion_lost, struct vb_congestion *c, uint32_t packets, uint64_t now_ns)
{
	if (rules_chosen == RULES_OWN)
		return __real_vb_congestion_lost(c, packets, now_ns);
	foreign_rules()->lost(foreign_of(c), c, now_ns);
	return true;
}

WRAP(void, vb_congestion_timeout, struct vb_congestion *c, uint64_t now_ns)
{
	const uint32_t window_256 = c->window_256;
	const uint64_t gap_ns = c->gap_ns;

	/* The patience is no matter of these rules. */
	__real_vb_congestion_timeout(c, now_ns);
	if (rules_chosen == RULES_OWN)
		return;
	c->window_256 = window_256;
	c->gap_ns = gap_ns;
	foreign_rules()->timeout(foreign_of(c), c);
}

WRAP(void, vb_congestion_undo, struct vb_congestion *c)
{
	if (rules_chosen == RULES_OWN)
		__real_vb_congestion_undo(c);
}

/* The share of a process is ours alone. */
WRAP(void, vb_share_init, struct vb_share *share)
{
	__real_vb_share_init(share);
	if (rules_chosen != RULES_OWN)
		share->limit_bytes = UINT32_MAX;
}

WRAP(void, vb_share_lost, struct vb_share *share, uint64_t now_ns)
{
	if (rules_chosen == RULES_OWN)
		__real_vb_share_lost(share, now_ns);
}

/* The packets carry no payload that an ICRC could be about. */
WRAP(void, vb_icrc_put_behind, const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
     uint8_t *packet, size_t length)
{
	(void)flow, (void)head, (void)id, (void)packet, (void)length;
}

WRAP(bool, vb_ident_check_behind, struct vb_ident_table *idents, const struct vb_icrc_flow *flow,
     uint32_t head, const uint8_t *packet, size_t length, uint16_t position, uint64_t now_ns)
{
	(void)idents, (void)flow, (void)head, (void)packet, (void)length, (void)position;
	(void)now_ns;
	return true;
}
