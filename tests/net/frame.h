/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking into Ethernet frames, as far as a relay needs to, and damaging them. */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROCE_PORT = 4791 };

/* Kinds of frames, a set of bits. */
enum {
	FRAME_ROCE = 1 << 0, /* UDP from or to port 4791 */
	FRAME_UDP = 1 << 1,  /* any other UDP */
	FRAME_TCP = 1 << 2,
	FRAME_OTHER = 1 << 3, /* ARP, neighbour discovery, ICMP, fragments, unknown */
	FRAME_ALL = (1 << 4) - 1,
};

/* What a frame is, and where its UDP header is. */
struct frame_view {
	unsigned kind;
	size_t ip;        /* offset of the IP header; 0: no IP */
	size_t transport; /* offset of the UDP or TCP header; 0: unknown */
	size_t payload;   /* offset behind the UDP header; 0: no UDP */
	size_t payload_end;
};

struct frame_view frame_look(const uint8_t *frame, size_t length);

/* Flips one bit behind the Ethernet header: checksums of IP, UDP or TCP may notice. */
bool frame_corrupt(uint8_t *frame, size_t length, uint64_t bit);

/* Flips one bit of a UDP payload and mends the UDP checksum: only the ICRC can notice. */
bool frame_tamper(uint8_t *frame, size_t length, uint64_t bit);

/* "roce,tcp" to a set of kinds. 0 or -EINVAL. */
int kinds_parse(const char *text, unsigned *kinds);

#endif
