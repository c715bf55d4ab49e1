/* SPDX-License-Identifier: BSD-2-Clause */
/* The internet checksum of IPv4, TCP and UDP, and the check sequence of Ethernet. */
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <string.h>

#include "path/raw/frame.h"

enum { IPV4_CHECKSUM = 10, TCP_CHECKSUM = 16, UDP_CHECKSUM = 6 };

/* Sums 16-bit words in network order: a ones' complement sum is the same in either byte order. */
static uint64_t words_sum(const uint8_t *at, uint32_t length, uint64_t so_far)
{
	uint16_t word;

	for (; length >= 2; at += 2, length -= 2) {
		memcpy(&word, at, 2);
		so_far += word;
	}
	if (length) {
		const uint8_t last[2] = { *at, 0 };

		memcpy(&word, last, 2);
		so_far += word;
	}
	return so_far;
}

static uint16_t sum_fold(uint64_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return (uint16_t)~total;
}

void vb_frame_fcs(const struct vb_frame *frame, uint8_t out[4])
{
	uint32_t crc = crc32_gzip_refl(0, frame->at, frame->length);

	for (unsigned i = 0; i < VB_FCS; i++)
		out[i] = (uint8_t)(crc >> 8 * i);
}

static uint32_t ipv4_header(const struct vb_frame *frame)
{
	return (frame->at[frame->l3] & 15u) * 4;
}

/* The transport layer's bytes, as the IP header counts them; 0: the frame lacks some of them. */
static uint32_t l4_length(const struct vb_frame *frame)
{
	return frame->l3_end <= frame->length ? frame->l3_end - frame->l4 : 0;
}

/* The sum of TCP and UDP includes a pseudo header: addresses, protocol and length. */
static uint16_t l4_sum(const struct vb_frame *frame)
{
	const struct vb_flow_key *key = &frame->headers.key;
	uint32_t ip = key->l3 == 4 ? 4 : 16, length = l4_length(frame);
	uint64_t total = words_sum(key->src_ip, ip, words_sum(key->dst_ip, ip, 0));

	total += htons((uint16_t)key->l4);
	total += htons((uint16_t)(length >> 16)) + (uint64_t)htons((uint16_t)length);
	return sum_fold(words_sum(frame->at + frame->l4, length, total));
}

/* Fragments of a datagram have no checksum of their own. */
static bool has_l4_sum(const struct vb_frame *frame)
{
	return frame->headers.key.l4 && !(frame->headers.key.ip_flags & VB_IP_MORE_FRAGMENTS) &&
	       l4_length(frame);
}

static uint8_t *l4_checksum_place(const struct vb_frame *frame)
{
	return frame->at + frame->l4 +
	       (frame->headers.key.l4 == IPPROTO_TCP ? TCP_CHECKSUM : UDP_CHECKSUM);
}

void vb_frame_checksum_fill_l4(struct vb_frame *frame)
{
	uint16_t value = 0;
	uint8_t *place;

	if (!has_l4_sum(frame))
		return;
	place = l4_checksum_place(frame);
	memcpy(place, &value, 2);
	value = l4_sum(frame);
	if (!value && frame->headers.key.l4 == IPPROTO_UDP)
		value = 0xffff; /* 0 means "no checksum" */
	memcpy(place, &value, 2);
}

void vb_frame_checksum_fill(struct vb_frame *frame)
{
	uint16_t value = 0;

	if (frame->headers.key.l3 == 4) {
		uint8_t *place = frame->at + frame->l3 + IPV4_CHECKSUM;

		memcpy(place, &value, 2);
		value = sum_fold(words_sum(frame->at + frame->l3, ipv4_header(frame), 0));
		memcpy(place, &value, 2);
	}
	vb_frame_checksum_fill_l4(frame);
}

bool vb_frame_checksum_good(const struct vb_frame *frame)
{
	const struct vb_flow_key *key = &frame->headers.key;
	uint16_t stored;

	if (key->l3 == 4 && sum_fold(words_sum(frame->at + frame->l3, ipv4_header(frame), 0)))
		return false;
	if (!key->l3 || !has_l4_sum(frame))
		return false;
	memcpy(&stored, l4_checksum_place(frame), 2);
	if (!stored && key->l4 == IPPROTO_UDP)
		return key->l3 == 4; /* "no checksum", which IPv6 does not allow */
	return !l4_sum(frame);
}
