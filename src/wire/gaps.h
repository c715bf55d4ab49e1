/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A report of gaps, between two of our own kind. RoCEv2's NAK names the oldest missing packet only.
 * A responder that keeps the packets behind a gap (path/roce/reorder.h) tells its requester in one
 * packet which ones it misses:
 *
 *   BTH    VENDOR GAPS; the PSN is the oldest that is missing, all before it have arrived
 *   AETH   as in an ACK
 *   4 B    one past the newest PSN that has arrived
 *   4 B    number of PSNs between the two that have arrived
 *   8 B    for each gap: its first PSN, and one past its last PSN; in order. Not every gap need be
 *          listed: packets may be late, and the list is short.
 *
 * A requester asks for such reports by a VENDOR GAPS_ASK, which has no payload. IBA leaves opcodes
 * from 0xc0 on to vendors, and devices that do not know them drop them without an answer. Only a
 * peer that has shown that it keeps packets is asked (path/roce/repair.h).
 */
#ifndef VB_WIRE_GAPS_H
#define VB_WIRE_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_GAPS_MAX = 30,
	VB_GAPS_HEAD_LENGTH = 8,
	VB_GAP_LENGTH = 8,
	VB_GAPS_LENGTH_MAX = VB_GAPS_HEAD_LENGTH + VB_GAPS_MAX * VB_GAP_LENGTH,
};

struct vb_gap {
	uint32_t psn, end_psn;
};

struct vb_gaps {
	uint32_t psn, end_psn, held;
	uint32_t count;
	struct vb_gap gap[VB_GAPS_MAX];
};

/* Writes the payload of a report, and returns its length. */
uint32_t vb_gaps_emit(const struct vb_gaps *gaps, uint8_t out[VB_GAPS_LENGTH_MAX]);
/* Reads the payload of a report whose BTH has this PSN. False: no responder reports this. */
bool vb_gaps_parse(uint32_t psn, const uint8_t *payload, uint32_t length, struct vb_gaps *gaps);

#endif
