/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/field.h"

#include <string.h>

enum { INTEGER_BITS_MAX = 64 };

/* Reads an integer of any width and place, at most a byte at a time. */
static uint64_t get_bits(const uint8_t *data, unsigned bit, unsigned width)
{
	uint64_t value = 0;

	while (width) {
		unsigned room = 8 - bit % 8, take = width < room ? width : room;

		value = value << take | (data[bit / 8] >> (room - take) & ((1u << take) - 1));
		bit += take;
		width -= take;
	}
	return value;
}

/* The bits must be zero before. */
static void put_bits(uint8_t *data, unsigned bit, unsigned width, uint64_t value)
{
	while (width) {
		unsigned room = 8 - bit % 8, take = width < room ? width : room;
		uint64_t part = value >> (width - take) & ((1u << take) - 1);

		data[bit / 8] |= (uint8_t)(part << (room - take));
		bit += take;
		width -= take;
	}
}

static uint64_t member_get(const void *member, unsigned size)
{
	uint32_t word;
	uint16_t half;
	uint64_t value;

	switch (size) {
	case sizeof(value):
		memcpy(&value, member, sizeof(value));
		return value;
	case sizeof(word):
		memcpy(&word, member, sizeof(word));
		return word;
	case sizeof(half):
		memcpy(&half, member, sizeof(half));
		return half;
	default:
		return *(const uint8_t *)member;
	}
}

static void member_put(void *member, unsigned size, uint64_t value)
{
	uint32_t word = (uint32_t)value;
	uint16_t half = (uint16_t)value;

	switch (size) {
	case sizeof(value):
		memcpy(member, &value, sizeof(value));
		break;
	case sizeof(word):
		memcpy(member, &word, sizeof(word));
		break;
	case sizeof(half):
		memcpy(member, &half, sizeof(half));
		break;
	default:
		*(uint8_t *)member = (uint8_t)value;
	}
}

static void parse_field(const struct vb_field *field, const uint8_t *data, void *value)
{
	uint8_t *member = (uint8_t *)value + field->member;
	uint64_t bits;

	if (field->width > INTEGER_BITS_MAX) {
		memcpy(member, data + field->bit / 8, field->size);
		return;
	}
	bits = get_bits(data, field->bit, field->width) << field->shift;
	member_put(member, field->size, member_get(member, field->size) | bits);
}

static void emit_field(const struct vb_field *field, const void *value, uint8_t *data)
{
	const uint8_t *member = (const uint8_t *)value + field->member;

	if (field->width > INTEGER_BITS_MAX)
		memcpy(data + field->bit / 8, member, field->size);
	else
		put_bits(data, field->bit, field->width,
			 member_get(member, field->size) >> field->shift);
}

void vb_fields_parse(const struct vb_field *fields, unsigned count, const uint8_t *data,
		     void *value)
{
	for (unsigned i = 0; i < count; i++)
		parse_field(&fields[i], data, value);
}

void vb_fields_emit(const struct vb_field *fields, unsigned count, const void *value, uint8_t *data)
{
	for (unsigned i = 0; i < count; i++)
		emit_field(&fields[i], value, data);
}
