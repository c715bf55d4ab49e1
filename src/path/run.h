/* SPDX-License-Identifier: BSD-2-Clause */
/* One run of a send queue: the engine begins it, and a path executes work requests in it. */
#ifndef VB_PATH_RUN_H
#define VB_PATH_RUN_H

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
	bool enables;                /* an ENABLE was executed: nic->enable_due */
	struct vb_peer *wire_peer;   /* WIRE: the process behind a slot socket; NULL: UDP */
	struct vb_aside *wire_aside; /* WIRE: the datagram, if it was put aside */
};

#endif
