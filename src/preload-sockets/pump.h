/* SPDX-License-Identifier: BSD-2-Clause */
/* What share.c (whose is the connection?) and pump.c (carrying bytes) have in common. */
#ifndef VB_SOCKETS_PUMP_H
#define VB_SOCKETS_PUMP_H

#include "preload-sockets/share.h"
#include "rsocket/service.h"

struct vb_share {
	atomic_uint refs; /* the entry's, then the pump's; the service's while it watches */
	struct vb_rs *rs; /* a reference */
	int ours, theirs; /* of the pair; theirs until it is handed over */
	int wake_fd;      /* tells the pump that alone has changed */
	union vb_rs_addr local, peer;

	/* Under the lock of share.c. */
	bool watched;
	struct vb_pump *pump;             /* NULL: none yet */
	struct vb_rs_service_watch watch; /* of ours, until there is a pump */
	atomic_bool alone;                /* the parent holds no number; the pump reads it */
};

struct vb_pump;

struct vb_pump *vb_pump_create(struct vb_share *share); /* NULL: no memory */
/* Returns when the children have closed their end, and the parent its numbers. Frees pump. */
void vb_pump_run(struct vb_pump *pump);

#endif
