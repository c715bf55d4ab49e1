/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pace of a poller. Where messages come fast and in one direction, a poller that has caught up
 * with the sender looks at each cell while the sender writes it. Each look takes the line away from
 * the sender, so both wait for lines most of the time. Such a poller lets a few messages gather
 * before it looks again, and asks senders to fetch lines ahead. It does neither where its own QP
 * sends as well: the peer may wait for an answer. A wait in vain makes the next one rarer.
 */
#ifndef VB_NIC_CQ_PACE_H
#define VB_NIC_CQ_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct vb_cq;

enum {
	VB_PACE_FEW = 16, /* fewer empty polls before one that brings something: that came soon */
	VB_PACE_NEEDED = 32, /* polls in a row that bring something soon: the poller waits ... */
	VB_PACE_NEEDED_MAX = 1 << 16, /* ... and if waits were in vain */
};

/* Under the poll lock. */
struct vb_pace {
	uint32_t empty;  /* count of polls since the last one that brought something */
	uint32_t quick;  /* count of polls in a row that brought something soon */
	uint32_t needed; /* that many, and the poller waits */
	bool told;       /* shared->caught_up is set */
};

/* Ends a row of quick polls. */
void vb_pace_end(struct vb_cq *cq);
/* A poll found nothing, or little, after a row of quick ones: waits a moment. False: it did not
 * wait. */
bool vb_pace_wait(struct vb_cq *cq);
/* The look behind the wait found a completion, or none. */
void vb_pace_waited(struct vb_cq *cq, bool found);

#endif
