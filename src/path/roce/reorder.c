/* SPDX-License-Identifier: BSD-2-Clause */
#include "path/roce/reorder.h"

#include <stdlib.h>
#include <string.h>

#include "path/roce/roce.h"

enum { RING_MIN = 64, RING_IDLE_MAX = 1024 };

static struct vb_kept **slot_of(const struct vb_reorder *reorder, uint32_t psn)
{
	return &reorder->ring[psn & (reorder->size - 1)];
}

static size_t size_of(const struct vb_kept *kept)
{
	return sizeof(*kept) + kept->packet.payload_length;
}

static void account(struct vb_wired *wired, int64_t bytes)
{
	wired->resp.reorder.bytes += (uint64_t)bytes;
	atomic_fetch_add_explicit(&wired->roce->nic->kept_bytes, (uint64_t)bytes,
				  memory_order_relaxed);
}

/* Requests of a peer that breaks the rules may overlap: a packet of an earlier PSN may be left in
 * the slot. */
static struct vb_kept *kept_at(const struct vb_reorder *reorder, uint32_t psn)
{
	struct vb_kept *kept = reorder->count ? *slot_of(reorder, psn) : NULL;

	return kept && kept->packet.psn == psn ? kept : NULL;
}

static void slot_empty(struct vb_wired *wired, uint32_t psn)
{
	struct vb_reorder *reorder = &wired->resp.reorder;
	struct vb_kept **slot = slot_of(reorder, psn);

	if (!*slot)
		return;
	account(wired, -(int64_t)size_of(*slot));
	reorder->count--;
	free(*slot);
	*slot = NULL;
}

/* One QP keeps no more than it leaves to the others. Threads of other lanes may take the last bytes
 * at the same time: then the limit is exceeded by a packet of each. */
static bool has_room(const struct vb_wired *wired, uint64_t bytes)
{
	const uint64_t used =
		atomic_load_explicit(&wired->roce->nic->kept_bytes, memory_order_relaxed);

	return wired->resp.reorder.bytes + 2 * bytes + used <= VB_KEPT_BYTES_MAX;
}

/* Makes the ring long enough for a packet that is so many PSNs ahead. */
static bool ring_reach(struct vb_wired *wired, uint32_t ahead)
{
	struct vb_reorder *reorder = &wired->resp.reorder;
	const uint32_t before = reorder->size;
	struct vb_kept **old = reorder->ring, **ring;
	uint32_t size = before ? before : RING_MIN;

	while (size <= ahead)
		size *= 2;
	if (size == before)
		return true;
	ring = has_room(wired, size * sizeof(*ring)) ? calloc(size, sizeof(*ring)) : NULL;
	if (!ring)
		return false;
	reorder->ring = ring;
	reorder->size = size;
	for (uint32_t i = 0; i < before; i++)
		if (old[i])
			*slot_of(reorder, old[i]->packet.psn) = old[i];
	free(old);
	account(wired, (int64_t)((size - before) * sizeof(*ring)));
	return true;
}

static struct vb_kept *kept_new(const struct vb_packet *packet, uint32_t end_psn, uint64_t now_ns)
{
	struct vb_kept *kept = malloc(sizeof(*kept) + packet->payload_length);

	if (!kept)
		return NULL;
	kept->packet = *packet;
	kept->end_psn = end_psn;
	kept->ns = now_ns;
	kept->packet.payload = kept->payload;
	if (packet->payload_length)
		memcpy(kept->payload, packet->payload, packet->payload_length);
	return kept;
}

enum vb_keep vb_reorder_keep(struct vb_wired *wired, const struct vb_packet *packet,
			     uint32_t end_psn)
{
	struct vb_reorder *reorder = &wired->resp.reorder;
	const uint32_t ahead = (uint32_t)vb_psn_diff(end_psn, wired->resp.expected_psn);
	struct vb_kept *kept;

	if (ahead > VB_KEPT_AHEAD_MAX || !ring_reach(wired, ahead))
		return VB_KEEP_FULL;
	if (kept_at(reorder, packet->psn))
		return VB_KEEP_DUPLICATE;
	slot_empty(wired, packet->psn);
	kept = has_room(wired, sizeof(*kept) + packet->payload_length)
		       ? kept_new(packet, end_psn, wired->roce->now_ns)
		       : NULL;
	if (!kept)
		return VB_KEEP_FULL;
	account(wired, (int64_t)size_of(kept));
	if (!reorder->count++ || vb_psn_diff(end_psn, reorder->end_psn) > 0)
		reorder->end_psn = end_psn;
	*slot_of(reorder, packet->psn) = kept;
	return VB_KEEP_DONE;
}

struct vb_kept *vb_reorder_take(struct vb_wired *wired, uint32_t psn)
{
	struct vb_reorder *reorder = &wired->resp.reorder;
	struct vb_kept *kept = kept_at(reorder, psn);

	if (!kept)
		return NULL;
	*slot_of(reorder, psn) = NULL;
	reorder->count--;
	account(wired, -(int64_t)size_of(kept));
	return kept;
}

void vb_reorder_clear(struct vb_wired *wired)
{
	struct vb_reorder *reorder = &wired->resp.reorder;

	for (uint32_t i = 0; i < reorder->size && reorder->count; i++)
		slot_empty(wired, i);
	free(reorder->ring);
	account(wired, -(int64_t)reorder->bytes);
	*reorder = (struct vb_reorder){ 0 };
}

bool vb_reorder_open(const struct vb_wired *wired)
{
	const struct vb_reorder *reorder = &wired->resp.reorder;

	return reorder->count && vb_psn_diff(reorder->end_psn, wired->resp.expected_psn) > 0;
}

void vb_reorder_tidy(struct vb_wired *wired)
{
	const struct vb_reorder *reorder = &wired->resp.reorder;

	if (!vb_reorder_open(wired) && (reorder->count || reorder->size > RING_IDLE_MAX))
		vb_reorder_clear(wired);
}

/* Counts the PSNs of packets that follow each other, and returns the first PSN that is missing. */
static uint32_t skip_kept(const struct vb_reorder *reorder, uint32_t psn, uint32_t *packets,
			  uint32_t *held)
{
	const struct vb_kept *kept;

	while ((kept = kept_at(reorder, psn))) {
		*packets += 1;
		*held += (uint32_t)vb_psn_diff(kept->end_psn, psn);
		psn = kept->end_psn;
	}
	return psn;
}

uint64_t vb_reorder_ns(const struct vb_wired *wired, uint32_t psn)
{
	const struct vb_kept *kept = kept_at(&wired->resp.reorder, psn);

	return kept ? kept->ns : 0;
}

void vb_reorder_gaps(const struct vb_wired *wired, uint32_t behind, uint64_t since_ns,
		     struct vb_gaps *gaps)
{
	const struct vb_reorder *reorder = &wired->resp.reorder;
	uint32_t psn = wired->resp.expected_psn, passed = 0;

	*gaps = (struct vb_gaps){ .psn = psn, .end_psn = reorder->end_psn };
	while (vb_psn_diff(psn, reorder->end_psn) < 0 && gaps->count < VB_GAPS_MAX) {
		const uint32_t from_psn = psn;
		const struct vb_kept *kept = NULL;

		while (vb_psn_diff(psn, reorder->end_psn) < 0 && !(kept = kept_at(reorder, psn)))
			psn = vb_psn_add(psn, 1);
		if (!kept)
			break;
		if (reorder->count - passed >= behind || kept->ns <= since_ns)
			gaps->gap[gaps->count++] = (struct vb_gap){ from_psn, psn };
		psn = skip_kept(reorder, psn, &passed, &gaps->held);
	}
	gaps->held += reorder->count - passed;
}
