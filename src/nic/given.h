/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that the application was given, by address. A kernel knows objects by their handles. It
 * answers an error for a handle that it never gave out, or whose object is gone; so do control
 * calls here. The lookup reads an object only if its address is known, so that a second destroy
 * reads no freed memory. Posting and polling look nothing up.
 */
#ifndef VB_NIC_GIVEN_H
#define VB_NIC_GIVEN_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum vb_given {
	VB_GIVEN_CONTEXT,
	VB_GIVEN_PD,
	VB_GIVEN_MR,
	VB_GIVEN_MW,
	VB_GIVEN_CHANNEL,
	VB_GIVEN_CQ,
	VB_GIVEN_SRQ,
	VB_GIVEN_QP,
	VB_GIVEN_AH,
	VB_GIVEN_XRCD,
	VB_GIVEN_DM,
	VB_GIVEN_TD,
	VB_GIVEN_COUNTERS,
	VB_GIVEN_WQ,
	VB_GIVEN_IND_TABLE,
	VB_GIVEN_FLOW,
	VB_GIVEN_DMAH,
	VB_GIVEN_BUF,
	VB_GIVEN_COMP_CNTR,
	VB_GIVEN_KINDS,
};

/* Calls accept the object from now on. Its context and handle must be final. -ENOMEM. */
int vb_given_add(enum vb_given kind, const void *object);
/* Tools: all objects were given out before what the calling thread does now. */
void vb_given_tell_all(void);
/* A handle for kinds whose objects have no number of their own; never 0. */
uint32_t vb_given_number(void);

/* Is it an object of this library that was given out and is not gone? */
bool vb_given_has(enum vb_given kind, const void *object);
/* -EINVAL with an explanation: NULL, destroyed, never given out, or another context or handle. */
int vb_given_check(enum vb_given kind, const void *object, const char *call);
/* The same for an object that a new object uses: both belong to one context, or the context of one
 * was imported from that of the other. */
int vb_given_check_in(const struct ibv_context *context, enum vb_given kind, const void *object,
		      const char *call);

/*
 * An object is destroyed in two steps. From the first step on, calls refuse the object; the second
 * says whether the object is gone or stays. In between its memory may be used for a new object,
 * which is added. -ENOENT with an explanation: no such object.
 */
int vb_given_end(enum vb_given kind, const void *object, const char *call);
/* The second step. err 0: the object is gone; else it stays. Returns err. */
int vb_given_ended(enum vb_given kind, const void *object, int err);

#endif
