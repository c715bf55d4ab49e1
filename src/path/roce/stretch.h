/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stretch: packets in the middle of a WRITE, or of the answer to a READ, that come one behind the
 * other. Where the next ones go is known before they come: from the message, its key and the state
 * of the QP, which are looked at once. The thread stays inside its hazard from the first packet of
 * a stretch to the last, so nothing takes the memory away meanwhile. What is not plain has no
 * stretch, and each packet gets all checks.
 */
#ifndef VB_PATH_ROCE_STRETCH_H
#define VB_PATH_ROCE_STRETCH_H

#include "path/roce/roce.h"

struct vb_stretch {
	struct vb_wired *wired;
	uint32_t left;  /* packets that may still come */
	uint32_t taken; /* and those that came */
	uint32_t psn;   /* of the next one */
	uint64_t gate;  /* of the QP, at the beginning */
	bool answers;   /* a READ */
	/* where the next bytes go: a WRITE, a READ */
	uint8_t *to;
	uint64_t offset;
	unsigned sge_count;
	struct ibv_sge sge[VB_SGE_MAX];
};

/* The next packets of the message that this packet belongs to, `most` of them at most. Inside the
 * hazard, which lasts until vb_stretch_end. */
void vb_stretch_begin(struct vb_stretch *stretch, struct vb_wired *wired,
		      const struct vb_packet *like, uint32_t most);
/* Takes a packet in; false: it is another one than expected, and nothing was done. */
bool vb_stretch_take(struct vb_stretch *stretch, const struct vb_packet *packet);
/* Other packets may be taken in now. */
void vb_stretch_end(struct vb_stretch *stretch);

#endif
