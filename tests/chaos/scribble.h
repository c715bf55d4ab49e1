/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three processes:
 *
 *   sender ----> owner <---- scribbler
 *
 * The owner has QPs to itself and to the sender. The scribbler is attached to the owner as well,
 * gives its privileges up where it has any, and from then on writes random bytes over everything of
 * the owner's segment that it can write.
 */
#ifndef CHAOS_SCRIBBLE_H
#define CHAOS_SCRIBBLE_H

#include "duo.h"
#include "rig.h"

/* What one process tells another so that it can connect. */
struct card {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
	uint32_t length;
	uint32_t type;  /* enum ibv_qp_type */
	uint32_t round; /* 0: it is over */
};

enum { SCRIBBLE_DEPTH = 16, SCRIBBLE_PSN = 0x123 };

/*
 * A QP that completes at cq; srq may be NULL. NULL: the device refused, as it may when its memory
 * is scribbled over.
 */
struct ibv_qp *end_make(struct rig *rig, struct ibv_cq *cq, struct ibv_srq *srq,
			enum ibv_qp_type type);
/* RESET to RTS; false: refused. dest_qpn is not looked at for UD. One that is patient waits for its
 * peer for as long as a busy machine takes. */
bool end_connect(struct rig *rig, struct ibv_qp *qp, uint32_t dest_qpn, bool patient);
/* Posts one random operation to the place that the card names; ah is for UD. */
void end_post(struct rng *rng, struct ibv_qp *qp, struct ibv_ah *ah, const struct card *to,
	      const struct ibv_sge *from);

/*
 * The whole life of the scribbler. It says 'a' once it is attached, and goes on until it is killed.
 */
_Noreturn void scribbler(struct duo *duo, uint64_t seed);

#endif
