/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adversary's veil over a CQ: completions that are there hide from polls for some milliseconds,
 * as if they came later, and then come together. All completions of the CQ hide, so their order
 * stays. A CQ that is armed has no veil: a completion that hides would have to make an event later.
 */
#ifndef VB_NIC_CQ_VEIL_H
#define VB_NIC_CQ_VEIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"

struct vb_cq;
struct ibv_wc;

enum vb_veil_state {
	VB_VEIL_UNDECIDED, /* the next completion has its turn */
	VB_VEIL_WAITS,     /* the next completion will hide */
	VB_VEIL_HIDES,     /* until until_ns */
	VB_VEIL_OFF,       /* the completion that hid, and those with it, may be polled */
};

struct vb_veil {
	struct vb_spin lock; /* the members below, and the arm of the CQ */
	enum vb_veil_state state;
	uint64_t count;   /* decisions so far */
	uint64_t late_ns; /* WAITS: the time for which it will hide */
	uint64_t until_ns;
	bool gone; /* an event has promised that polls find all */
};

/* True: a poll finds nothing now. */
bool vb_veil_hides(struct vb_cq *cq);
/* A poll has brought completions. */
void vb_veil_polled(struct vb_cq *cq);
/* Arms the CQ, without a veil; it may get an event at once for completions that are there. */
int vb_veil_req_notify(struct vb_cq *cq, bool solicited_only);
/* After an event that ends a QP's work a program polls until the CQ is empty: no veil any more. */
void vb_veil_end(struct vb_cq *cq);
/* The CQ is new: gets its style of events. */
void vb_veil_begin(struct vb_cq *cq);

#endif
