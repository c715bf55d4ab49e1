/* SPDX-License-Identifier: BSD-2-Clause */
#include "bytes.h"

#include <string.h>

static uint64_t stream_word(uint64_t key, size_t index)
{
	uint64_t z = (key + index) * 0x9e3779b97f4a7c15ull;

	return z ^ z >> 32;
}

static uint8_t stream_byte(uint64_t key, size_t offset)
{
	return (uint8_t)(stream_word(key, offset / 8) >> offset % 8 * 8);
}

void bytes_fill(void *buffer, size_t offset, size_t length, uint64_t key)
{
	uint8_t *out = buffer;
	size_t i = 0;

	for (; i < length && (offset + i) % 8; i++)
		out[i] = stream_byte(key, offset + i);
	for (; i + 8 <= length; i += 8) {
		uint64_t word = stream_word(key, (offset + i) / 8);

		memcpy(out + i, &word, 8);
	}
	for (; i < length; i++)
		out[i] = stream_byte(key, offset + i);
}

size_t bytes_right(const void *buffer, size_t offset, size_t length, uint64_t key)
{
	const uint8_t *in = buffer;
	size_t i = 0;

	while (i < length) {
		uint64_t word = stream_word(key, (offset + i) / 8);

		if ((offset + i) % 8 == 0 && i + 8 <= length && !memcmp(in + i, &word, 8))
			i += 8;
		else if (in[i] == stream_byte(key, offset + i))
			i++;
		else
			break;
	}
	return i;
}

size_t canaries_right(const void *buffer, size_t length, uint8_t canary)
{
	const uint8_t *in = buffer;
	size_t i = 0;

	/* All equal to the first one, which is a canary: one memcmp for the usual case. */
	if (length && in[0] == canary && !memcmp(in, in + 1, length - 1))
		return length;
	while (i < length && in[i] == canary)
		i++;
	return i;
}
