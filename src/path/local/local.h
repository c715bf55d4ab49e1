/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local path: the posting thread executes a work request on the target's segment and memory.
 * The target is in this process, or in another one of this host.
 */
#ifndef VB_PATH_LOCAL_LOCAL_H
#define VB_PATH_LOCAL_LOCAL_H

#include "path/run.h"

/* Executes in post order. The caller holds the executor's token. */
enum vb_run_verdict vb_local_run(struct vb_run *run);

/*
 * The same for datagrams that were put aside. IDLE: none is left. WIRE: the caller sends and drops
 * wire_aside, and calls again. PEND: some wait for their targets; the send queue does not wait.
 */
enum vb_run_verdict vb_local_run_aside(struct vb_run *run);

/* Gives back the receive that is held for a message, which will not be finished. The caller has the
 * token, and is outside of every hazard. */
void vb_local_give_back(struct vb_qp *qp);

/*
 * Wakes the target, after the message has arrived and its WQE is done. Not before: the target may
 * answer at once, and a poll must not find the answer before the completion of the request. Called
 * inside the hazard.
 */
void vb_local_wake_target(struct vb_qp *qp, bool solicited);

/*
 * Executes small SENDs to a ready target at once, from the first of a list on. Gives the first work
 * request that is left; NULL: none. If one is left, the caller has qp->sq.lock: no other thread
 * posts in between. whole: the caller posts all of them or none.
 */
struct ibv_send_wr *vb_local_send_fast(struct vb_qp *qp, struct ibv_send_wr *wr, bool whole);

#endif
