/* SPDX-License-Identifier: BSD-2-Clause */
#include "pattern.h"

#include <stdio.h>
#include <string.h>

static uint64_t stream_word(uint64_t key, size_t index)
{
	return (key + index) * 0x9e3779b97f4a7c15ull;
}

void stream_fill(void *buffer, size_t offset, size_t length, uint64_t key)
{
	uint8_t *out = buffer;
	size_t index = offset / 8, done = 0;

	for (; done + 8 <= length; done += 8) {
		uint64_t word = stream_word(key, index++);

		memcpy(out + done, &word, 8);
	}
	if (done < length) {
		uint64_t word = stream_word(key, index);

		memcpy(out + done, &word, length - done);
	}
}

bool stream_right(const void *buffer, size_t offset, size_t length, uint64_t key)
{
	const uint8_t *in = buffer;
	size_t index = offset / 8, done = 0;
	uint64_t word;

	for (; done + 8 <= length; done += 8) {
		word = stream_word(key, index++);
		if (memcmp(in + done, &word, 8))
			return false;
	}
	word = stream_word(key, index);
	return !memcmp(in + done, &word, length - done);
}

static uint32_t stamp_check(uint32_t tag, uint32_t seq, uint32_t length)
{
	uint64_t mixed = ((uint64_t)tag << 32 | seq) * 0xd6e8feb86659fd93ull + length;

	return (uint32_t)(mixed ^ mixed >> 32);
}

static uint64_t message_key(uint32_t tag, uint32_t seq)
{
	return ((uint64_t)tag << 32 | seq) * 0xff51afd7ed558ccdull;
}

void message_fill(void *buffer, uint32_t length, uint32_t tag, uint32_t seq)
{
	struct stamp stamp = { tag, seq, length, stamp_check(tag, seq, length) };

	memcpy(buffer, &stamp, sizeof(stamp));
	stream_fill((uint8_t *)buffer + sizeof(stamp), 0, length - sizeof(stamp),
		    message_key(tag, seq));
}

const char *message_fault(const void *buffer, uint32_t length, uint32_t tag, uint32_t *seq)
{
	static _Thread_local char text[160];
	struct stamp stamp;

	if (length < sizeof(stamp))
		return "shorter than its stamp";
	memcpy(&stamp, buffer, sizeof(stamp));
	*seq = stamp.seq;
	if (stamp.check != stamp_check(stamp.tag, stamp.seq, stamp.length))
		return "the stamp is torn";
	if (stamp.tag != tag || stamp.length != length) {
		snprintf(text, sizeof(text), "tag %#x length %u, expected tag %#x length %u",
			 stamp.tag, stamp.length, tag, length);
		return text;
	}
	if (!stream_right((const uint8_t *)buffer + sizeof(stamp), 0, length - sizeof(stamp),
			  message_key(tag, stamp.seq)))
		return "the bytes behind the stamp are torn";
	return NULL;
}
