/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A profile: the facts of another device, as a text. The device of this process shows and enforces
 * them (nic/fact.h). VERBENA_AS names the file; `verbena run --as` finds the files that are
 * installed. A line is a name and its values, a comment begins with #:
 *
 *   max_sge   30         # a number
 *   qp_types  RC UD      # words, or none; further lines of the name add words
 *
 * A fact that the text does not name stays that of this device.
 */
#ifndef VB_NIC_PROFILE_H
#define VB_NIC_PROFILE_H

#include "nic/fact.h"
#include "nic/wr_opcode.h"

struct vb_profile {
	bool named[VB_FACT_COUNT];
	uint64_t value[VB_FACT_COUNT]; /* of the facts that are named, as in the text */
};

enum {
	VB_PROFILE_BYTES_MAX = 64 << 10, /* of a file */
	VB_PROFILE_WHY_MAX = 160,
	VB_PROFILE_VALUE_MAX = 512,
};

/* --- the text (profile_parse.c) --- */

/* -EINVAL, and why, with the number of the line. */
int vb_profile_parse(const char *text, struct vb_profile *profile, char why[VB_PROFILE_WHY_MAX]);
/* The fact that the profile puts into force here. */
uint64_t vb_profile_fact(const struct vb_profile *profile, enum vb_fact fact);
/* Does the profile name more than this device has? */
bool vb_profile_exceeds(const struct vb_profile *profile, enum vb_fact fact);
/* A value in the form of the text. */
void vb_fact_print(enum vb_fact fact, uint64_t value, char text[VB_PROFILE_VALUE_MAX]);
/* The part of a profile's value that this device lacks: "NAME VALUE: here VALUE", or "NAME WORDS:
 * not here". */
void vb_profile_print_excess(const struct vb_profile *profile, enum vb_fact fact,
			     char text[2 * VB_PROFILE_VALUE_MAX]);

/* --- the process (profile.c) --- */

/*
 * Reads the environment and puts the profile into force, once. -EINVAL, and a line on standard
 * error: there is no such file, or it is malformed, and no device opens.
 */
int vb_profile_load(void);

/* -EOPNOTSUPP, and a sentence: the device in force does not have the call. */
int vb_profile_check_verb(enum vb_verb verb, const char *call);

/* Does the device in force have the operation? */
bool vb_profile_sends(const struct vb_wr_row *row);
/*
 * Why the device in force refuses to be given the work request; NULL: it does not. Posts ask for
 * rows whose `posted` is 0 (nic/wr_opcode.h): without a profile there is none.
 */
const char *vb_profile_refusal(const struct ibv_send_wr *wr, const struct vb_wr_row *row);
/* May a small SEND take the short way, which asks nothing? */
bool vb_profile_sends_plainly(void);

#endif
