/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects that the application was given, by address. A kernel knows objects by their handles and
 * answers an error for one that it never gave out, or that is gone; so do control calls here. The
 * lookup reads the object only once its address is known, so that a second destroy touches nothing.
 * Posting and polling do not ask.
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
	VB_GIVEN_KINDS,
};

/* Its context and handle are final: from now on calls take it. -ENOMEM. */
int vb_given_add(enum vb_given kind, const void *object);
/* A handle for kinds whose objects have no number of their own; never 0. */
uint32_t vb_given_number(void);

/* -EINVAL with an explanation: NULL, gone, never given out, or its context or handle has changed. */
int vb_given_check(enum vb_given kind, const void *object, const char *call);
/* The same for an object that another one is made of: both have one context, or one was imported
 * from the other. */
int vb_given_check_in(const struct ibv_context *context, enum vb_given kind, const void *object,
		      const char *call);

/*
 * Destroying, in two steps: from the first on calls do not take it, the second says whether it is
 * gone or stays after all. Between them its memory may become another object, which is added.
 * -ENOENT with an explanation: there is none.
 */
int vb_given_end(enum vb_given kind, const void *object, const char *call);
/* Passes err on. */
int vb_given_ended(enum vb_given kind, const void *object, int err);

#endif
