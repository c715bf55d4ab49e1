/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBA annex A17.3.3): CRC-32 over eight bytes of ones, the IP and UDP
 * headers and the packet up to the ICRC, with ones in place of fields that routers change. It lies
 * in little-endian order behind the packet.
 *
 * The ICRC covers the IPv4 identification, which a UDP socket does not show to the receiver. The
 * CRC is linear, so the one identification that makes it right can be computed without trying them
 * all.
 */
#ifndef VB_WIRE_ICRC_H
#define VB_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The headers in front of the packet; addresses in network order. */
struct vb_icrc_flow {
	bool ipv6;
	uint8_t src[16], dst[16];    /* IPv4: the first four bytes */
	uint16_t src_port, dst_port; /* host order */
	/* Filled in by vb_icrc_flow_init: the CRC state behind the headers and a BTH of zeros. */
	uint32_t seed;
};

/* Once per flow, before the calls below. Any thread. */
void vb_icrc_flow_init(struct vb_icrc_flow *flow);

/*
 * The ICRC of a packet. length counts from the BTH up to the ICRC, without it: 12 <= length <=
 * 65,000. id is the IPv4 identification (ignored for IPv6). DF is set.
 */
uint32_t vb_icrc(const struct vb_icrc_flow *flow, uint16_t id, const uint8_t *packet,
		 size_t length);

/*
 * The same in two steps. The head is the part of the CRC state that the headers, the length and the
 * first bytes of the BTH make: packets that have all of these in common share it.
 */
enum { VB_ICRC_HEAD = 8 }; /* bytes of the BTH: all in front of the ACK request bit and the PSN */
uint32_t vb_icrc_head(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length);
uint32_t vb_icrc_behind(const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
			const uint8_t *packet, size_t length);

/* Computes the ICRC and stores it at packet + length. */
void vb_icrc_put(const struct vb_icrc_flow *flow, uint16_t id, uint8_t *packet, size_t length);
void vb_icrc_put_behind(const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
			uint8_t *packet, size_t length);

/*
 * True if the ICRC behind length bytes is right: over IPv6 as it is, over IPv4 with some
 * identification and DF set, as every RoCEv2 sender does. *id becomes that identification (0 for
 * IPv6); id may be NULL. Over IPv4 the check alone misses 1 of 2^16 random damages, but never a
 * single wrong bit (without DF it would miss two of them). A caller that knows the identifications
 * of the peer compares *id, too. False also for a length that no packet has.
 */
bool vb_icrc_check(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
		   uint16_t *id);
/* The same. Faster if *id is the right identification before the call. */
bool vb_icrc_check_guess(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
			 uint16_t *id);
/* The same for a packet that has this head, and a length that some packet has. */
bool vb_icrc_check_behind(const struct vb_icrc_flow *flow, uint32_t head, const uint8_t *packet,
			  size_t length, uint16_t *id);

#endif
