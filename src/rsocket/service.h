/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that the service thread watches. */
#ifndef VB_RSOCKET_SERVICE_H
#define VB_RSOCKET_SERVICE_H

#include "rsocket/rsocket.h"

struct vb_rs_service_watch {
	/* The descriptor is readable; in the service thread, with no lock held. */
	void (*ready)(struct vb_rs_service_watch *watch);
	/* Called after unwatch, when the thread has forgotten the watch. */
	void (*gone)(struct vb_rs_service_watch *watch);
	int fd;
	struct vb_list node; /* in the service's list of watches to forget */
};

/* After vb_rs_service_start; the caller has set all members but node. */
int vb_rs_service_watch(struct vb_rs_service_watch *watch);
void vb_rs_service_unwatch(struct vb_rs_service_watch *watch);

#endif
