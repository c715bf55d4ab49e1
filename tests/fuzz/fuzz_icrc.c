/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow, identification and packet from the input: the ICRC is that of the plain reference, it is
 * recognised without the identification, and whatever is recognised was right.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/wire/icrc_reference.h"
#include "fuzz.h"
#include "wire/bytes.h"
#include "wire/packet.h"

/* family, identification, ports, addresses; the packet with its ICRC follows. */
enum { HEAD_LENGTH = 1 + 2 + 4 + 32, DF = 0x4000 };

static struct vb_icrc_flow read_flow(const uint8_t *bytes)
{
	struct vb_icrc_flow flow = { .ipv6 = bytes[0] & 1 };
	size_t address_length = flow.ipv6 ? 16 : 4;

	flow.src_port = vb_get16(bytes + 3);
	flow.dst_port = vb_get16(bytes + 5);
	memcpy(flow.src, bytes + 7, address_length);
	memcpy(flow.dst, bytes + 23, address_length);
	vb_icrc_flow_init(&flow);
	return flow;
}

static uint32_t stored(const uint8_t *packet, size_t length)
{
	const uint8_t *at = packet + length;

	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static void check_given(const struct vb_icrc_flow *flow, uint16_t id, const uint8_t *packet,
			size_t length)
{
	uint32_t right = reference_icrc(flow, id, DF, packet, length);
	uint16_t found = 0;

	fuzz_check(vb_icrc(flow, id, packet, length) == right);
	if (vb_icrc_check(flow, packet, length, &found))
		fuzz_check(reference_icrc(flow, found, DF, packet, length) ==
			   stored(packet, length));
	else
		fuzz_check(right != stored(packet, length));
}

static void check_put(const struct vb_icrc_flow *flow, uint16_t id, uint8_t *packet, size_t length)
{
	size_t bit = (size_t)id * 31 % (8 * (length + VB_ICRC_LENGTH));
	uint16_t found = 0;

	vb_icrc_put(flow, id, packet, length);
	fuzz_check(vb_icrc_check(flow, packet, length, &found));
	fuzz_check(found == (flow->ipv6 ? 0 : id));
	packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
	fuzz_check(vb_icrc_check(flow, packet, length, NULL) == (bit / 8 == 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	size_t length = size - HEAD_LENGTH - VB_ICRC_LENGTH;
	struct vb_icrc_flow flow;
	uint8_t *packet;

	if (size < HEAD_LENGTH + VB_BTH_LENGTH + VB_ICRC_LENGTH || length > VB_PACKET_MAX)
		return 0;
	flow = read_flow(bytes);
	check_given(&flow, vb_get16(bytes + 1), bytes + HEAD_LENGTH, length);
	packet = malloc(length + VB_ICRC_LENGTH);
	fuzz_check(packet);
	memcpy(packet, bytes + HEAD_LENGTH, length + VB_ICRC_LENGTH);
	check_put(&flow, vb_get16(bytes + 1), packet, length);
	free(packet);
	return 0;
}
