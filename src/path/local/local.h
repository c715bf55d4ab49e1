/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local path: the posting thread executes a work request against the target's segment and
 * memory, whether the target is in this process or in another one of this host.
 */
#ifndef VB_PATH_LOCAL_H
#define VB_PATH_LOCAL_H

#include "path/complete.h"

enum vb_run_verdict {
	VB_RUN_IDLE, /* nothing left to execute */
	VB_RUN_PEND, /* the next WQE waits: see qp->pend */
	VB_RUN_MORE, /* the byte budget is spent */
	VB_RUN_WIRE, /* the next WQE goes by wire, to wire_peer */
};

struct vb_run {
	struct vb_qp *qp;
	struct vb_thread *thread;
	uint32_t end; /* execute up to this index */
	int64_t budget_bytes;
	bool service; /* the service thread runs it: no poller is at hand */
	struct vb_notice notice;
	uint32_t attach_slot;      /* the engine should attach to this slot; 0: none */
	uint32_t asked_slot;       /* UD: it has tried to, since the WQE at next was looked at */
	bool no_wire;              /* packets cannot get there either: wait, as for a silent peer */
	struct vb_peer *wire_peer; /* a process of this host, through its slot socket; else NULL */
	struct vb_aside *wire_aside; /* what goes there, if it was put aside */
};

/* Executes in post order. The caller holds the executor's token. */
enum vb_run_verdict vb_local_run(struct vb_run *run);

/*
 * The same with datagrams that were put aside. IDLE: none is left. WIRE: wire_aside is to be sent and
 * dropped; then again. PEND: some wait for their targets, and no work request with them.
 */
enum vb_run_verdict vb_local_run_aside(struct vb_run *run);

/* A receive that is held for a message is given back: it will not be finished. With the token, and
 * outside of every hazard. */
void vb_local_give_back(struct vb_qp *qp);

/*
 * The message has arrived and its WQE is done: now the target is woken. Not before: it may answer at
 * once, and a poll must not find the answer before the completion of the request. Inside the hazard.
 */
void vb_local_wake_target(struct vb_qp *qp, bool solicited);

/* A small SEND to a peer that is ready, at once; false: nothing happened, post it. */
bool vb_local_send_fast(struct vb_qp *qp, const struct ibv_send_wr *wr);

#endif
