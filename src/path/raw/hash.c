/* SPDX-License-Identifier: BSD-2-Clause */
/* The Toeplitz hash that spreads frames over receive work queues. */
#include <netinet/in.h>
#include <string.h>

#include "path/raw/frame.h"

enum { INPUT_MAX = 36 }; /* two IPv6 addresses, two ports; the key is 4 bytes longer */

struct input {
	uint8_t bytes[INPUT_MAX];
	uint32_t length;
};

static void input_add(struct input *input, bool wanted, const void *at, uint32_t size)
{
	if (!wanted)
		return;
	memcpy(input->bytes + input->length, at, size);
	input->length += size;
}

/* Each bit of the input that is set adds the 32 bits of the key that begin at its place. */
static uint32_t toeplitz(const struct input *input, const uint8_t *key)
{
	uint32_t window =
		(uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];
	uint32_t hash = 0;

	for (uint32_t i = 0; i < input->length; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (input->bytes[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

uint32_t vb_frame_hash(const struct vb_frame *frame, uint64_t fields, const uint8_t key[40])
{
	const struct vb_flow_key *of = &frame->headers.key;
	bool v4 = of->l3 == 4, v6 = of->l3 == 6;
	bool tcp = of->l4 == IPPROTO_TCP, udp = of->l4 == IPPROTO_UDP;
	struct input input = { .length = 0 };

	input_add(&input, v4 && fields & IBV_RX_HASH_SRC_IPV4, of->src_ip, 4);
	input_add(&input, v6 && fields & IBV_RX_HASH_SRC_IPV6, of->src_ip, 16);
	input_add(&input, v4 && fields & IBV_RX_HASH_DST_IPV4, of->dst_ip, 4);
	input_add(&input, v6 && fields & IBV_RX_HASH_DST_IPV6, of->dst_ip, 16);
	input_add(&input,
		  (tcp && fields & IBV_RX_HASH_SRC_PORT_TCP) ||
			  (udp && fields & IBV_RX_HASH_SRC_PORT_UDP),
		  &of->src_port, 2);
	input_add(&input,
		  (tcp && fields & IBV_RX_HASH_DST_PORT_TCP) ||
			  (udp && fields & IBV_RX_HASH_DST_PORT_UDP),
		  &of->dst_port, 2);
	return toeplitz(&input, key);
}
