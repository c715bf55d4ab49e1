/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IPv4 identification that a packet must have had. The ICRC covers it and a UDP socket does not
 * show it, so it is computed: the one that makes the ICRC right. A damaged packet has one, too, in 1
 * of 2^16 cases, but a random one, and what peers send is not random:
 *
 *   our own kind    0, or 0, 1, 2, ... within a burst; so hosts that never count
 *   everybody else  a counter, of the host or of a part of its packets, that others may use as well
 *
 * What a peer does is learnt from its packets. The first few are taken as they are. Later ones must have
 * an identification near those before; one that has not is dropped, and is believed if the next one
 * agrees with it: a counter that has jumped costs one packet. What is not met among some thousand
 * packets is forgotten. A host with several CPUs may number a packet and send it much later, when
 * that CPU runs again: one may be as late as all those that came lately. A peer that cannot be
 * predicted is left alone after a few drops, and its ICRC is worth 16 bits then.
 *
 * No I/O, no clock. What strangers can do by sending from many addresses is to have a peer forgotten:
 * its next packet is taken as a first one.
 */
#ifndef VB_PATH_ROCE_IDENT_H
#define VB_PATH_ROCE_IDENT_H

#include "wire/icrc.h"

enum {
	VB_IDENT_OWN = 64,     /* those below are of our own kind: a burst has so many packets */
	VB_IDENT_COUNTERS = 4, /* per peer */
	VB_IDENT_SETS = 64,
	VB_IDENT_WAYS = 4,
};

enum vb_ident_state { VB_IDENT_NONE, VB_IDENT_SEEN, VB_IDENT_KNOWN };

struct vb_ident_counter {
	uint64_t used_ns;
	uint64_t since_ns; /* when from was the last one */
	uint64_t woke_ns;  /* when it was used again after idle_ns ... */
	uint64_t idle_ns;
	uint16_t last, from, before; /* before: as from, a span earlier */
	uint8_t state; /* enum vb_ident_state; SEEN: once, and that packet was dropped */
	bool met;      /* in this round */
};

/* A peer: source and destination address. */
struct vb_ident {
	uint64_t key;
	uint64_t used_ns;
	uint64_t met_ns;   /* when nothing was known of it last ... */
	uint8_t own;       /* enum vb_ident_state: identifications below VB_IDENT_OWN */
	uint8_t doubt;     /* grows by drops, shrinks by packets that fit */
	uint8_t learnt;    /* ... and so many were taken as they were */
	bool own_met;      /* in this round */
	bool used, counts; /* counts: the last one came from a counter, and next is the next one */
	uint16_t next;
	uint16_t round; /* packets that fitted in this one */
	struct vb_ident_counter counters[VB_IDENT_COUNTERS];
};

struct vb_ident_table {
	struct vb_ident *last; /* that was looked up last; NULL: none */
	struct vb_ident peers[VB_IDENT_SETS][VB_IDENT_WAYS];
};

/*
 * Is the ICRC behind length bytes right, for an identification that this peer may have given to a
 * packet at this position of a burst? Over IPv6: is it right?
 */
bool vb_ident_check(struct vb_ident_table *table, const struct vb_icrc_flow *flow,
		    const uint8_t *packet, size_t length, uint16_t position, uint64_t now_ns);
/* The part of it for a packet whose ICRC is right for this identification. */
bool vb_ident_takes(struct vb_ident_table *table, const struct vb_icrc_flow *flow, uint16_t id,
		    uint64_t now_ns);

#endif
