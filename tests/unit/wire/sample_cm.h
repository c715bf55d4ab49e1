/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the connection manager with fields of a repeatable random. */
#ifndef VB_TESTS_UNIT_WIRE_SAMPLE_CM_H
#define VB_TESTS_UNIT_WIRE_SAMPLE_CM_H

#include "sample.h"
#include "wire/cm.h"

enum { SAMPLE_FIRST = VB_CM_REQ, SAMPLE_LAST = VB_CM_APR };

/* Where in the MAD the length of additional information is; 0: the message has none. */
static inline unsigned sample_info_length_at(unsigned attribute)
{
	switch (attribute) {
	case VB_CM_REJ:
		return 24 + 9;
	case VB_CM_SIDR_REP:
		return 24 + 5;
	case VB_CM_APR:
		return 24 + 8;
	default:
		return 0;
	}
}

/* Random behind the header, reserved bits included, but for a length that must fit. */
static inline void sample_mad(unsigned attribute, uint64_t *seed, uint8_t bytes[VB_MAD_SIZE])
{
	static const uint8_t header[] = { 1, 7, 2, 3 };
	unsigned at = sample_info_length_at(attribute);

	for (unsigned i = 0; i < VB_MAD_SIZE; i++)
		bytes[i] = (uint8_t)sample_random(seed);
	memcpy(bytes, header, sizeof(header));
	bytes[16] = 0;
	bytes[17] = (uint8_t)attribute;
	if (at) /* the seven bits of a REJ lie above a reserved one */
		bytes[at] = (uint8_t)(bytes[at] % 73 << (attribute == VB_CM_REJ));
}

static inline struct vb_cm_message sample_message(unsigned attribute, uint64_t *seed)
{
	uint8_t bytes[VB_MAD_SIZE];
	struct vb_cm_message message;

	sample_mad(attribute, seed, bytes);
	if (vb_cm_parse(bytes, sizeof(bytes), &message))
		abort();
	return message;
}

#endif
