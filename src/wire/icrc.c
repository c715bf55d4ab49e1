/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC states are 32-bit words in reflected order: bit 31 is the coefficient of x^0. A zero bit at
 * the end multiplies the state by x, modulo P; k zero bytes multiply it by x^8k. So a difference of
 * bytes in front becomes a difference of states that depends only on the distance to the end. A
 * multiplication by a power of 1/x leads back to the bytes.
 */
#include "wire/icrc.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "wire/bytes.h"
#include "wire/packet.h"

#define POLYNOMIAL 0xedb88320u /* P without x^32 */
#define ONE        0x80000000u /* x^0 */

enum {
	ONES_LENGTH = 8, /* in place of the InfiniBand link header */
	IPV4_LENGTH = 20,
	IPV6_LENGTH = 40,
	UDP_LENGTH = 8,
	/* Distances of the first byte of a field from the end of the BTH. */
	UDP_END = VB_BTH_LENGTH + UDP_LENGTH - 1,
	AT_UDP_LENGTH = UDP_END - 4,
	AT_IPV4_LENGTH = UDP_END + IPV4_LENGTH - 2,
	AT_IPV4_ID = UDP_END + IPV4_LENGTH - 4,
	AT_IPV6_LENGTH = UDP_END + IPV6_LENGTH - 4,
	DISTANCES = AT_IPV6_LENGTH + 1,
	/* From the first byte of identification, flags and fragment offset to the BTH. */
	ID_TO_BTH = IPV4_LENGTH - 4 + UDP_LENGTH,
	BACK_MAX = ID_TO_BTH + VB_PACKET_MAX,
	VARIANT_BYTE = 4,  /* of the BTH: FECN, BECN and reserved bits */
	SHORT_LENGTH = 16, /* so few bytes behind the BTH go by table: quicker than a call */
	DONT_FRAGMENT = 0x40,
};

/* Written once, under tables_once. */
static struct {
	uint32_t byte[DISTANCES][256]; /* the part of the state that a byte so far in front makes */
	uint32_t back[BACK_MAX + 1];   /* x^-8k */
} tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static uint32_t times_x(uint32_t state)
{
	return state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
}

/* P has a constant term: bit 31 is set if and only if times_x subtracted P. */
static uint32_t over_x(uint32_t state)
{
	return state & ONE ? (state ^ POLYNOMIAL) << 1 | 1 : state << 1;
}

static void tables_init(void)
{
	for (unsigned value = 0; value < 256; value++) {
		uint32_t state = value;

		for (unsigned distance = 0; distance < DISTANCES; distance++) {
			for (unsigned bit = 0; bit < 8; bit++)
				state = times_x(state);
			tables.byte[distance][value] = state;
		}
	}
	tables.back[0] = ONE;
	for (unsigned k = 1; k <= BACK_MAX; k++) {
		tables.back[k] = tables.back[k - 1];
		for (unsigned bit = 0; bit < 8; bit++)
			tables.back[k] = over_x(tables.back[k]);
	}
}

static uint32_t get_le32(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* The state four zero bytes later. */
static uint32_t times_x32(uint32_t state)
{
	return tables.byte[3][state & 0xff] ^ tables.byte[2][state >> 8 & 0xff] ^
	       tables.byte[1][state >> 16 & 0xff] ^ tables.byte[0][state >> 24];
}

/* The part of the state that a big-endian field makes; distance is that of its first byte. */
static uint32_t add16(unsigned distance, unsigned value)
{
	return tables.byte[distance][value >> 8 & 0xff] ^ tables.byte[distance - 1][value & 0xff];
}

/*
 * Multiplication without carries. Each operand is cut into four words with one bit in four. At most
 * eight ones meet in a column of a product: their carry does not reach the next column that counts.
 */
static uint64_t multiply_carryless(uint32_t a, uint32_t b)
{
	const uint64_t every4th = 0x1111111111111111u;
	uint64_t product = 0;

	for (unsigned column = 0; column < 4; column++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < 4; i++) {
			unsigned j = (column - i) & 3;

			sum ^= (a & every4th << i) * (b & every4th << j);
		}
		product |= sum & every4th << column;
	}
	return product;
}

static uint32_t multiply_states(uint32_t a, uint32_t b)
{
	/* Bit 63 is now x^0. The lower half counts x^32 times, as in front of four zero bytes. */
	uint64_t product = multiply_carryless(a, b) << 1;

	return (uint32_t)(product >> 32) ^ times_x32((uint32_t)product);
}

/* Headers as the ICRC covers them: ones where routers write, zeros where the length comes later. */
static size_t put_ipv4(const struct vb_icrc_flow *flow, uint8_t *at)
{
	memset(at, 0, IPV4_LENGTH);
	at[0] = 0x45;
	at[1] = 0xff; /* TOS */
	at[6] = DONT_FRAGMENT;
	at[8] = 0xff; /* TTL */
	at[9] = 17;
	vb_put16(at + 10, 0xffff); /* checksum */
	memcpy(at + 12, flow->src, 4);
	memcpy(at + 16, flow->dst, 4);
	return IPV4_LENGTH;
}

static size_t put_ipv6(const struct vb_icrc_flow *flow, uint8_t *at)
{
	memset(at, 0, IPV6_LENGTH);
	vb_put32(at, 0x6fffffff); /* traffic class and flow label */
	at[6] = 17;
	at[7] = 0xff; /* hop limit */
	memcpy(at + 8, flow->src, 16);
	memcpy(at + 24, flow->dst, 16);
	return IPV6_LENGTH;
}

static void put_udp(const struct vb_icrc_flow *flow, uint8_t *at)
{
	vb_put16(at, flow->src_port);
	vb_put16(at + 2, flow->dst_port);
	vb_put16(at + 4, 0);
	vb_put16(at + 6, 0xffff); /* checksum */
}

void vb_icrc_flow_init(struct vb_icrc_flow *flow)
{
	uint8_t bytes[ONES_LENGTH + IPV6_LENGTH + UDP_LENGTH + VB_BTH_LENGTH] = { 0 };
	size_t length = ONES_LENGTH;

	pthread_once(&tables_once, tables_init);
	memset(bytes, 0xff, ONES_LENGTH);
	length += flow->ipv6 ? put_ipv6(flow, bytes + length) : put_ipv4(flow, bytes + length);
	put_udp(flow, bytes + length);
	length += UDP_LENGTH;
	bytes[length + VARIANT_BYTE] = 0xff;
	length += VB_BTH_LENGTH;
	/* ISA-L inverts the state at both ends. The seed is the state inside, not inverted. */
	flow->seed = ~crc32_gzip_refl(0, bytes, length);
}

uint32_t vb_icrc_head(const struct vb_icrc_flow *flow, const uint8_t *bth, size_t length)
{
	unsigned udp_length = (unsigned)(UDP_LENGTH + length + VB_ICRC_LENGTH);
	uint32_t state = flow->seed ^ add16(AT_UDP_LENGTH, udp_length);

	if (flow->ipv6)
		state ^= add16(AT_IPV6_LENGTH, udp_length);
	else
		state ^= add16(AT_IPV4_LENGTH, IPV4_LENGTH + udp_length);
	for (unsigned i = 0; i < VB_ICRC_HEAD; i++)
		state ^= i == VARIANT_BYTE ? 0 : tables.byte[VB_BTH_LENGTH - 1 - i][bth[i]];
	return state;
}

/* The state behind the BTH of a packet. */
static uint32_t state_at_bth_end(const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
				 const uint8_t *bth)
{
	uint32_t state = head;

	for (unsigned i = VB_ICRC_HEAD; i < VB_BTH_LENGTH; i++)
		state ^= tables.byte[VB_BTH_LENGTH - 1 - i][bth[i]];
	return flow->ipv6 || !id ? state : state ^ add16(AT_IPV4_ID, id);
}

/*
 * The widest versions of ISA-L leave the upper halves of the vector registers in use. All SSE
 * instructions of the program wait for them then: longer than the CRC itself takes.
 */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
	_mm256_zeroupper();
}

static uint32_t crc32(uint32_t seed, const uint8_t *bytes, size_t length)
{
	uint32_t crc = crc32_gzip_refl(seed, bytes, length);

	if (__builtin_cpu_supports("avx"))
		clear_upper_halves();
	return crc;
}
#else
static uint32_t crc32(uint32_t seed, const uint8_t *bytes, size_t length)
{
	return crc32_gzip_refl(seed, bytes, length);
}
#endif

static uint32_t finish_state(uint32_t state, const uint8_t *at, size_t length)
{
	if (length > SHORT_LENGTH || length % 4)
		return crc32(~state, at, length);
	for (; length; at += 4, length -= 4)
		state = times_x32(state ^ get_le32(at));
	return ~state;
}

uint32_t vb_icrc_behind(const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
			const uint8_t *packet, size_t length)
{
	assert(length >= VB_BTH_LENGTH);
	return finish_state(state_at_bth_end(flow, head, id, packet), packet + VB_BTH_LENGTH,
			    length - VB_BTH_LENGTH);
}

uint32_t vb_icrc(const struct vb_icrc_flow *flow, uint16_t id, const uint8_t *packet, size_t length)
{
	return vb_icrc_behind(flow, vb_icrc_head(flow, packet, length), id, packet, length);
}

void vb_icrc_put_behind(const struct vb_icrc_flow *flow, uint32_t head, uint16_t id,
			uint8_t *packet, size_t length)
{
	uint32_t icrc = vb_icrc_behind(flow, head, id, packet, length);

	for (unsigned i = 0; i < VB_ICRC_LENGTH; i++)
		packet[length + i] = (uint8_t)(icrc >> 8 * i);
}

void vb_icrc_put(const struct vb_icrc_flow *flow, uint16_t id, uint8_t *packet, size_t length)
{
	vb_icrc_put_behind(flow, vb_icrc_head(flow, packet, length), id, packet, length);
}

/*
 * Exactly one change to the four bytes of identification, flags and fragment offset explains the
 * difference of the CRC. It is the true one only if it leaves flags and offset alone.
 */
static bool explained_by_id(uint32_t difference, size_t length, uint16_t *id)
{
	uint32_t word = multiply_states(difference, tables.back[ID_TO_BTH + length]);

	*id = (uint16_t)((word & 0xff) << 8 | (word >> 8 & 0xff));
	return !(word >> 16);
}

bool vb_icrc_check_behind(const struct vb_icrc_flow *flow, uint32_t head, const uint8_t *packet,
			  size_t length, uint16_t *id)
{
	uint32_t difference =
		vb_icrc_behind(flow, head, *id, packet, length) ^ get_le32(packet + length);
	uint16_t change = 0;
	bool right = !difference || (!flow->ipv6 && explained_by_id(difference, length, &change));

	*id ^= right ? change : 0;
	return right;
}

bool vb_icrc_check_guess(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
			 uint16_t *id)
{
	if (length < VB_BTH_LENGTH || length > VB_PACKET_MAX)
		return false;
	return vb_icrc_check_behind(flow, vb_icrc_head(flow, packet, length), packet, length, id);
}

bool vb_icrc_check(const struct vb_icrc_flow *flow, const uint8_t *packet, size_t length,
		   uint16_t *id)
{
	uint16_t any = 0;
	bool right = vb_icrc_check_guess(flow, packet, length, &any);

	if (right && id)
		*id = any;
	return right;
}
