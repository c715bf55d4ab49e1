/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of connection manager events: those of the enumeration. */
#include <rdma/rdma_cma.h>

#include "base/symver.h"

#define NAMED(event) [event] = #event

static const char *const names[] = {
	NAMED(RDMA_CM_EVENT_ADDR_RESOLVED),   NAMED(RDMA_CM_EVENT_ADDR_ERROR),
	NAMED(RDMA_CM_EVENT_ROUTE_RESOLVED),  NAMED(RDMA_CM_EVENT_ROUTE_ERROR),
	NAMED(RDMA_CM_EVENT_CONNECT_REQUEST), NAMED(RDMA_CM_EVENT_CONNECT_RESPONSE),
	NAMED(RDMA_CM_EVENT_CONNECT_ERROR),   NAMED(RDMA_CM_EVENT_UNREACHABLE),
	NAMED(RDMA_CM_EVENT_REJECTED),        NAMED(RDMA_CM_EVENT_ESTABLISHED),
	NAMED(RDMA_CM_EVENT_DISCONNECTED),    NAMED(RDMA_CM_EVENT_DEVICE_REMOVAL),
	NAMED(RDMA_CM_EVENT_MULTICAST_JOIN),  NAMED(RDMA_CM_EVENT_MULTICAST_ERROR),
	NAMED(RDMA_CM_EVENT_ADDR_CHANGE),     NAMED(RDMA_CM_EVENT_TIMEWAIT_EXIT),
};

VB_PUBLIC const char *rdma_event_str(enum rdma_cm_event_type event)
{
	/* The value comes from the application. */
	if ((unsigned)event >= sizeof(names) / sizeof(names[0]) || !names[event])
		return "UNKNOWN EVENT";
	return names[event];
}
