/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by share.c (which process has the connection) and pump.c (carrying bytes). */
#ifndef VB_SOCKETS_PUMP_H
#define VB_SOCKETS_PUMP_H

#include "preload-sockets/share.h"
#include "rsocket/service.h"

struct vb_share {
	atomic_uint refs; /* of the entry, then of the pump; of the service while it watches */
	struct vb_rs *rs; /* a reference */
	int ours, theirs; /* the pair; theirs is open until the hand-over */
	int wake_fd;      /* wakes the pump after a change of alone */
	union vb_rs_addr local, peer;

	/* Under the lock of share.c. */
	bool watched;
	struct vb_pump *pump;             /* NULL: no child has written yet */
	struct vb_rs_service_watch watch; /* watches ours, until there is a pump */
	atomic_bool alone;                /* the parent has no number any more; the pump reads it */
};

struct vb_pump;

struct vb_pump *vb_pump_create(struct vb_share *share); /* NULL: no memory */
/* Returns when the children have closed their end and all their bytes are sent. Frees pump. */
void vb_pump_run(struct vb_pump *pump);

#endif
