/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as an Ethernet frame: nothing is read or written beyond it, a checksum that was filled
 * in is found right, and as the header of a large send it becomes frames of TCP or none.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "path/raw/tso.h"

enum { PAYLOAD = 100, MSS = 40 };

static const uint8_t hash_key[VB_RX_HASH_KEY_SIZE] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b };

/* All of what the checksum is over is there. */
static bool is_whole(const struct vb_frame *frame)
{
	return frame->headers.key.l4 && frame->l3_end <= frame->length &&
	       !(frame->headers.key.ip_flags & VB_IP_MORE_FRAGMENTS);
}

static void check_frame(uint8_t *bytes, uint32_t length)
{
	struct vb_frame frame, again;
	uint8_t fcs[VB_FCS];

	fuzz_check(vb_frame_parse(&frame, bytes, length) == (length >= VB_FRAME_MIN));
	if (length < VB_FRAME_MIN)
		return;
	fuzz_check(frame.l3 <= length);
	vb_frame_checksum_good(&frame);
	vb_frame_hash(&frame, VB_RX_HASH_FIELDS, hash_key);
	vb_frame_fcs(&frame, fcs);
	vb_frame_checksum_fill(&frame);
	fuzz_check(vb_frame_parse(&again, bytes, length));
	fuzz_check(!memcmp(&frame.headers, &again.headers, sizeof(frame.headers)));
	fuzz_check(vb_frame_checksum_good(&again) == is_whole(&again));
}

static void check_segment(const struct vb_tso *tso, const uint8_t *payload, uint32_t offset)
{
	uint32_t part = PAYLOAD - offset < MSS ? PAYLOAD - offset : MSS;
	uint8_t *out = malloc(tso->header_length + part);
	struct vb_frame frame;

	fuzz_check(out);
	if (vb_tso_segment(tso, payload, PAYLOAD, offset, out, &frame)) {
		fuzz_check(frame.headers.key.l4 == IPPROTO_TCP);
		fuzz_check(frame.length == tso->header_length + part);
		fuzz_check(frame.l3_end == frame.length);
		fuzz_check(vb_frame_checksum_good(&frame) == is_whole(&frame));
	}
	free(out);
}

static void check_large_send(const uint8_t *header, uint16_t length)
{
	struct vb_tso *tso = malloc(sizeof(*tso) + length);
	const uint8_t payload[PAYLOAD] = { 1, 2, 3 };

	fuzz_check(tso);
	*tso = (struct vb_tso){ .header_length = length, .mss = MSS };
	memcpy(tso->header, header, length);
	for (uint32_t offset = 0; offset < PAYLOAD; offset += MSS)
		check_segment(tso, payload, offset);
	free(tso);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint8_t *copy;

	if (!length || length > VB_FRAME_MAX)
		return 0;
	copy = malloc(length);
	fuzz_check(copy);
	memcpy(copy, bytes, length);
	check_frame(copy, (uint32_t)length);
	free(copy);
	if (length <= VB_TSO_HEADER_MAX)
		check_large_send(bytes, (uint16_t)length);
	return 0;
}
