/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields of a management datagram: the place of each in a value and in the bytes. Parsing and
 * emitting read the same table and cannot disagree.
 */
#ifndef VB_WIRE_FIELD_H
#define VB_WIRE_FIELD_H

#include <stdint.h>

struct vb_field {
	uint16_t member; /* offset within the value */
	uint16_t size;   /* of the member: an integer, or bytes that are copied */
	uint16_t bit;    /* within the data; 0 is the top bit of the first byte */
	uint16_t width;  /* in bits; above 64 the member is bytes */
	uint8_t shift;   /* of these bits within an integer that is cut into pieces */
};

/* The members must be zero before. */
void vb_fields_parse(const struct vb_field *fields, unsigned count, const uint8_t *data,
		     void *value);
/* The data must be zero before. */
void vb_fields_emit(const struct vb_field *fields, unsigned count, const void *value,
		    uint8_t *data);

#endif
