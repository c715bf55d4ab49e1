/* SPDX-License-Identifier: BSD-2-Clause */
/* The place of each field of a CM message, in the value and in the bytes. */
#ifndef VB_WIRE_CM_LAYOUT_H
#define VB_WIRE_CM_LAYOUT_H

#include "wire/cm.h"
#include "wire/field.h"

struct vb_cm_layout {
	const char *name;
	const struct vb_field *fields;
	unsigned field_count;
	/* Offsets of members that callers need without knowing the kind; 0: the kind has none. */
	uint16_t sender_id, receiver_id, info_length;
	uint16_t private_data, private_data_size;
};

/* NULL: there is no such message. */
const struct vb_cm_layout *vb_cm_layout(unsigned attribute);

#endif
