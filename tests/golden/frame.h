/* SPDX-License-Identifier: BSD-2-Clause */
/* What an Ethernet frame says down to the UDP payload. */
#ifndef VB_TESTS_GOLDEN_FRAME_H
#define VB_TESTS_GOLDEN_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "wire/icrc.h"

struct frame {
	struct vb_icrc_flow flow; /* vb_icrc_flow_init was called */
	uint16_t id;              /* IPv4 identification; 0 for IPv6 */
	const uint8_t *packet;    /* the UDP payload: BTH to ICRC */
	size_t length;
};

/* 0; -EPROTO: not UDP without fragments and options, or lengths that contradict each other. */
int frame_parse(const uint8_t *bytes, size_t length, struct frame *frame);

/* "198.51.100.11:49263 > 198.51.100.12:4791 id 7"; 160 bytes suffice. */
const char *frame_print(const struct frame *frame, char *out, size_t size);

#endif
