/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread, for those who have descriptors of their own to be watched. */
#ifndef VB_RSOCKET_SERVICE_H
#define VB_RSOCKET_SERVICE_H

#include "rsocket/rsocket.h"

struct vb_rs_service_watch {
	/* The descriptor is readable; in the service thread, with no lock held. */
	void (*ready)(struct vb_rs_service_watch *watch);
	/* After unwatch, when the thread knows nothing of it any more. */
	void (*gone)(struct vb_rs_service_watch *watch);
	int fd;
	struct vb_list node; /* of the service's list of those to forget */
};

/* The service must have been started; all but node is set. */
int vb_rs_service_watch(struct vb_rs_service_watch *watch);
void vb_rs_service_unwatch(struct vb_rs_service_watch *watch);

#endif
