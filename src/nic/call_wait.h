/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that wait for something that the program itself has to do, for `verbena why`. */
#ifndef VB_NIC_CALL_WAIT_H
#define VB_NIC_CALL_WAIT_H

#include <stdint.h>

enum { VB_CALL_WAITS = 16 }; /* further calls wait unseen */

struct vb_call_wait {
	const char *call; /* "ibv_destroy_cq" */
	const char *for_; /* "completion events that were not acknowledged (ibv_ack_cq_events)" */
	uint32_t object;  /* number of the CQ, QP or SRQ */
	uint32_t count;   /* how many of them */
	uint64_t since_ns;
};

/* Notes a call that begins to wait; the answer is for vb_call_wait_end. */
int vb_call_wait_begin(const char *call, const char *for_, uint32_t object, uint32_t count);
void vb_call_wait_end(int place);
/* The call at a place; call NULL: none waits there. */
struct vb_call_wait vb_call_wait_at(int place);

#endif
