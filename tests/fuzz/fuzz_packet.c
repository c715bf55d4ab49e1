/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a UDP payload: parsing reads no further than told, and what it accepts can be
 * printed, and emitted to the same bytes, but for reserved bits.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/packet.h"

static void check_emitted(const struct vb_packet *packet, const uint8_t *bytes, size_t length)
{
	uint8_t headers[VB_HEADERS_MAX];
	size_t headers_length = vb_packet_emit(packet, headers);

	fuzz_check(headers_length == vb_opcode_row(packet->opcode)->headers_length);
	fuzz_check(packet->reserved || !memcmp(headers, bytes, headers_length));
	fuzz_check(packet->payload == bytes + headers_length);
	fuzz_check(vb_packet_length(packet) == length);
	fuzz_check(headers_length + packet->payload_length + packet->pad + VB_ICRC_LENGTH ==
		   length);
	fuzz_check(packet->payload_length <= VB_MTU_MAX);
}

/* The last byte of the packet picks a size that may be too small. */
static void check_printed(const struct vb_packet *packet, size_t size)
{
	char *line = malloc(size);

	fuzz_check(line && vb_packet_print(packet, line, size) == line);
	fuzz_check(strlen(line) < size && !strchr(line, '\n'));
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct vb_packet packet;
	enum vb_packet_flaw fault = vb_packet_parse(bytes, length, &packet);

	fuzz_check(fault < VB_PACKET_FLAWS);
	if (fault)
		return 0;
	check_emitted(&packet, bytes, length);
	check_printed(&packet, 1 + bytes[length - 1]);
	check_printed(&packet, 256);
	return 0;
}
