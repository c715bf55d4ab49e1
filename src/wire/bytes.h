/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integers in network order, byte by byte, for any alignment. Compilers make one load and one swap
 * of each.
 */
#ifndef VB_WIRE_BYTES_H
#define VB_WIRE_BYTES_H

#include <stdint.h>

static inline uint16_t vb_get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t vb_get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static inline uint32_t vb_get32(const uint8_t *at)
{
	return (uint32_t)vb_get16(at) << 16 | vb_get16(at + 2);
}

static inline uint64_t vb_get64(const uint8_t *at)
{
	return (uint64_t)vb_get32(at) << 32 | vb_get32(at + 4);
}

static inline void vb_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static inline void vb_put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	vb_put16(at + 1, value);
}

static inline void vb_put32(uint8_t *at, uint32_t value)
{
	vb_put16(at, value >> 16);
	vb_put16(at + 2, value);
}

static inline void vb_put64(uint8_t *at, uint64_t value)
{
	vb_put32(at, (uint32_t)(value >> 32));
	vb_put32(at + 4, (uint32_t)value);
}

#endif
