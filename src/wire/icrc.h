/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBA annex A17.3.3): CRC-32 over eight bytes of ones, the IP and UDP
 * headers and the packet up to the ICRC, with ones in place of what routers change. It is stored
 * in little-endian order behind the packet.
 *
 * The IPv4 identification is covered, and a UDP socket does not show it to the receiver. The CRC is
 * linear, so the identifications that make it right can be told without trying them.
 */
#ifndef VB_WIRE_ICRC_H
#define VB_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the headers in front of the packet say; addresses in network order. */
struct vb_icrc_flow {
	bool ipv6;
	uint8_t src[16], dst[16];    /* IPv4: the first four bytes */
	uint16_t src_port, dst_port; /* host order */
	/* Filled in by vb_icrc_flow_init: the CRC state behind the headers and a BTH of zeros. */
	uint32_t seed;
};

/* Once per flow, before anything else here. Any thread. */
void vb_icrc_flow_init(struct vb_icrc_flow *flow);

/*
 * The ICRC of a packet; length counts from the BTH up to, not including, the ICRC. id is the IPv4
 * identification (ignored for IPv6). 12 <= length <= 65,000; DF is set.
 */
uint32_t vb_icrc(const struct vb_icrc_flow *flow, uint16_t id, const uint8_t *packet,
		 size_t length);

/* Computes it and stores it at packet + length. */
void vb_icrc_put(const struct vb_icrc_flow *flow, uint16_t id, uint8_t *packet, size_t length);

/*
 * Is the ICRC behind length bytes right for some identification, with DF set as every RoCEv2 sender
 * does? For IPv6: is it right? *id: the identification that made it right (0 for IPv6); may be
 * NULL. Over IPv4 one in 2^16 of random damage goes unseen, but never a single wrong bit (without
 * DF two places would be blind): who knows what the peer sends looks at *id, too. false also for what is shorter or longer than any packet.
 */
bool vb_icrc_check(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
		   uint16_t *id);
/* The same, sooner if the identification is what *id says before. */
bool vb_icrc_check_guess(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
			 uint16_t *id);

#endif
