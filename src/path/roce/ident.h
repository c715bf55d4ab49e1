/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPv4 identification that a packet must have had. The ICRC covers the identification, and a
 * UDP socket does not show it. So it is computed: the number that makes the ICRC right. For 1 of
 * 2^16 damaged packets there is such a number, too. But that number is random, and peers do not
 * send random ones:
 *
 *   our own kind    0, or 0, 1, 2, ... within a burst; 0 also from hosts that never count
 *   other hosts     a counter, of the host or of a part of its packets; other flows may use it, too
 *
 * The habit of a peer is learnt from its packets. The first few packets are accepted as they are. A
 * later packet must have an identification near earlier ones. Otherwise that packet is dropped, and
 * its number is believed if the next packet agrees: a counter that has jumped costs one packet. A
 * counter that is not met among some thousand packets is forgotten. A host with several CPUs may
 * number a packet and send it much later, when that CPU runs again: a packet may be as late as the
 * number of packets that came lately. A peer that cannot be predicted is accepted as it is after a
 * few drops; its ICRC is worth 16 bits then.
 *
 * No I/O, no clock. A stranger that sends from many addresses can make the table forget a peer: the
 * next packet of that peer is accepted as a first one.
 */
#ifndef VB_PATH_ROCE_IDENT_H
#define VB_PATH_ROCE_IDENT_H

#include "wire/icrc.h"

enum {
	VB_IDENT_OWN = 64,     /* numbers below are of our own kind: packets of a burst */
	VB_IDENT_COUNTERS = 4, /* per peer */
	VB_IDENT_SETS = 64,
	VB_IDENT_WAYS = 4,
};

enum vb_ident_state { VB_IDENT_NONE, VB_IDENT_SEEN, VB_IDENT_KNOWN };

struct vb_ident_counter {
	uint64_t used_ns;  /* time of its last packet */
	uint64_t since_ns; /* start of the current span */
	uint64_t woke_ns;  /* time at which the counter was used again after idle_ns ... */
	uint64_t idle_ns;  /* ... without use */
	uint16_t last, from,
		before; /* last number; at the start of this span; of the span before */
	uint8_t state;  /* enum vb_ident_state; SEEN: by one packet, which was dropped */
	bool met;       /* the counter was used in this round */
};

/* A peer: source and destination address. */
struct vb_ident {
	uint64_t key;
	uint64_t used_ns;
	uint64_t met_ns;   /* last time at which the peer was unknown ... */
	uint8_t own;       /* enum vb_ident_state of identifications below VB_IDENT_OWN */
	uint8_t doubt;     /* grows by drops, shrinks by packets that fit */
	uint8_t learnt;    /* ... and number of packets accepted as they were since then */
	bool own_met;      /* own was used in this round */
	bool used, counts; /* counts: the last packet was of a counter, which has next as next */
	uint16_t next;
	uint16_t round; /* packets that fitted in this round */
	struct vb_ident_counter counters[VB_IDENT_COUNTERS];
};

struct vb_ident_table {
	struct vb_ident *last; /* the peer that was looked up last; NULL: none */
	struct vb_ident peers[VB_IDENT_SETS][VB_IDENT_WAYS];
};

/*
 * True: the ICRC behind length bytes is right, for an identification that this peer may have given
 * to a packet at this position of a burst. Over IPv6 there is no identification.
 */
bool vb_ident_check(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
		    const uint8_t *packet, size_t length, uint16_t position, uint64_t now_ns);
/* The same for a packet whose ICRC has this head (wire/icrc.h). */
bool vb_ident_check_behind(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
			   uint32_t head, const uint8_t *packet, size_t length, uint16_t position,
			   uint64_t now_ns);
/* The second half of the check, for a packet whose ICRC is right with this identification. */
bool vb_ident_takes(struct vb_ident_table *table, const struct vb_icrc_flow *flow, uint16_t id,
		    uint64_t now_ns);

#endif
