/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of every opcode with fields of a repeatable random, for tests of the codec. */
#ifndef VB_TESTS_UNIT_WIRE_SAMPLE_H
#define VB_TESTS_UNIT_WIRE_SAMPLE_H

#include <stdlib.h>
#include <string.h>

#include "wire/packet.h"

static inline uint64_t sample_random(uint64_t *seed)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Credits, RNR timers, and the NAK codes that exist. */
static inline uint8_t sample_syndrome(uint64_t *seed)
{
	uint8_t value = sample_random(seed) & 0x1f;

	switch (sample_random(seed) % 3) {
	case 0:
		return VB_SYNDROME_ACK | value;
	case 1:
		return VB_SYNDROME_RNR | value;
	default:
		return VB_SYNDROME_NAK | value % 5;
	}
}

static inline void sample_bth(struct vb_packet *packet, uint64_t *seed)
{
	uint64_t bits = sample_random(seed);

	packet->solicited = bits & 1;
	packet->migreq = bits & 2;
	packet->ack_request = bits & 4;
	packet->fecn = bits & 8;
	packet->becn = bits & 16;
	packet->pkey = (uint16_t)(bits >> 16);
	packet->dest_qpn = sample_random(seed) & VB_QPN_MASK;
	packet->psn = sample_random(seed) & VB_PSN_MASK;
}

static inline void sample_requests(struct vb_packet *packet, unsigned headers, uint64_t *seed)
{
	if (headers & VB_HEADER_XRCETH)
		packet->srqn = sample_random(seed) & VB_QPN_MASK;
	if (headers & VB_HEADER_DETH) {
		packet->qkey = (uint32_t)sample_random(seed);
		packet->src_qpn = sample_random(seed) & VB_QPN_MASK;
	}
	if (headers & VB_HEADER_FETH)
		packet->flush = sample_random(seed) & 0x3f;
	if (headers & (VB_HEADER_RETH | VB_HEADER_ATOMIC_ETH)) {
		packet->va = sample_random(seed);
		packet->rkey = (uint32_t)sample_random(seed);
	}
	if (headers & VB_HEADER_RETH)
		packet->dma_length = (uint32_t)sample_random(seed);
	if (headers & VB_HEADER_ATOMIC_ETH) {
		packet->swap_add = sample_random(seed);
		packet->compare = sample_random(seed);
	}
}

static inline void sample_rest(struct vb_packet *packet, unsigned headers, uint64_t *seed)
{
	if (headers & VB_HEADER_AETH) {
		packet->syndrome = sample_syndrome(seed);
		packet->msn = sample_random(seed) & VB_PSN_MASK;
	}
	if (headers & VB_HEADER_ATOMIC_ACK_ETH)
		packet->original = sample_random(seed);
	if (headers & VB_HEADER_IMM)
		packet->imm = (uint32_t)sample_random(seed);
	if (headers & VB_HEADER_IETH)
		packet->invalidate_rkey = (uint32_t)sample_random(seed);
}

/* Whatever the opcode has is random, the rest zero; payload_length is at most most. */
static inline struct vb_packet sample_packet(uint8_t opcode, uint32_t most, uint64_t *seed)
{
	const struct vb_opcode_row *row = vb_opcode_row(opcode);
	struct vb_packet packet = { .opcode = opcode };

	sample_bth(&packet, seed);
	sample_requests(&packet, row->headers, seed);
	sample_rest(&packet, row->headers, seed);
	if (row->payload_exact)
		packet.payload_length = row->payload_exact;
	else if (row->has_payload)
		packet.payload_length = (uint32_t)(sample_random(seed) % (most + 1));
	packet.pad = -packet.payload_length & 3;
	return packet;
}

/* A block of exactly its length, so that a sanitizer sees one byte too much; to be freed. */
static inline uint8_t *sample_bytes(const struct vb_packet *packet, uint64_t *seed)
{
	size_t length = vb_packet_length(packet);
	uint8_t *bytes = calloc(1, length), headers[VB_HEADERS_MAX];
	size_t at = vb_packet_emit(packet, headers);

	memcpy(bytes, headers, at);
	for (size_t i = 0; i < packet->payload_length; i++)
		bytes[at + i] = (uint8_t)sample_random(seed);
	for (size_t i = length - VB_ICRC_LENGTH; i < length; i++)
		bytes[i] = (uint8_t)sample_random(seed);
	return bytes;
}

#endif
