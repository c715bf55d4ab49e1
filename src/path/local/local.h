/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local path: the posting thread executes a work request on the target's segment and memory.
 * The target is in this process, or in another one of this host.
 */
#ifndef VB_PATH_LOCAL_H
#define VB_PATH_LOCAL_H

#include "path/complete.h"

enum vb_run_verdict {
	VB_RUN_IDLE, /* nothing left to execute */
	VB_RUN_PEND, /* the next WQE waits: qp->pend has the reason */
	VB_RUN_MORE, /* the byte budget is spent */
	VB_RUN_WIRE, /* the next WQE goes by wire, to wire_peer */
};

struct vb_run {
	struct vb_qp *qp;
	struct vb_thread *thread;
	uint32_t end; /* index behind the last WQE to execute */
	int64_t budget_bytes;
	bool service; /* the service thread runs the queue: no thread polls */
	struct vb_notice notice;
	uint32_t attach_slot;        /* the engine should attach to this slot; 0: none */
	uint32_t asked_slot;         /* UD: the engine has tried this slot for the WQE at next */
	bool no_wire;                /* packets have no way either: wait, as for a silent peer */
	struct vb_peer *wire_peer;   /* WIRE: the process behind a slot socket; NULL: UDP */
	struct vb_aside *wire_aside; /* WIRE: the datagram, if it was put aside */
};

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

/* Executes a small SEND to a ready peer at once; false: nothing happened, the caller posts it. */
bool vb_local_send_fast(struct vb_qp *qp, const struct ibv_send_wr *wr);

#endif
