/* SPDX-License-Identifier: BSD-2-Clause */
#include "frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { ETHER_SIZE = 14, IPV4_SIZE_MIN = 20, IPV6_SIZE = 40, UDP_SIZE = 8 };
enum { ETHERTYPE_4 = 0x0800, ETHERTYPE_6 = 0x86dd };

static uint16_t get16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static void put16(uint8_t *bytes, uint16_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

/* The transport's protocol number, or -1: not IP, a fragment, a header chain we do not follow. */
static int look_ip(const uint8_t *frame, size_t length, struct frame_view *view)
{
	uint16_t type = get16(frame + 12);
	const uint8_t *ip = frame + ETHER_SIZE;

	if (type == ETHERTYPE_4 && length >= ETHER_SIZE + IPV4_SIZE_MIN && ip[0] >> 4 == 4) {
		view->ip = ETHER_SIZE;
		if (get16(ip + 6) & 0x3fff)
			return -1;
		view->transport = ETHER_SIZE + (size_t)(ip[0] & 15) * 4;
		return ip[9];
	}
	if (type == ETHERTYPE_6 && length >= ETHER_SIZE + IPV6_SIZE) {
		view->ip = ETHER_SIZE;
		view->transport = ETHER_SIZE + IPV6_SIZE;
		return ip[6];
	}
	return -1;
}

static void look_udp(const uint8_t *frame, size_t length, struct frame_view *view)
{
	const uint8_t *udp = frame + view->transport;
	size_t end = view->transport + get16(udp + 4);

	view->kind = FRAME_UDP;
	if (get16(udp) == ROCE_PORT || get16(udp + 2) == ROCE_PORT)
		view->kind = FRAME_ROCE;
	view->payload = view->transport + UDP_SIZE;
	view->payload_end = end < length ? end : length;
}

struct frame_view frame_look(const uint8_t *frame, size_t length)
{
	struct frame_view view = { .kind = FRAME_OTHER };
	int protocol = length < ETHER_SIZE ? -1 : look_ip(frame, length, &view);

	if (protocol == IPPROTO_UDP && view.transport + UDP_SIZE <= length)
		look_udp(frame, length, &view);
	else if (protocol == IPPROTO_TCP)
		view.kind = FRAME_TCP;
	return view;
}

static void flip(uint8_t *bytes, size_t length, uint64_t bit)
{
	bit %= (uint64_t)length * 8;
	bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

bool frame_corrupt(uint8_t *frame, size_t length, uint64_t bit)
{
	if (length <= ETHER_SIZE)
		return false;
	flip(frame + ETHER_SIZE, length - ETHER_SIZE, bit);
	return true;
}

/* Updates a ones' complement checksum for one 16-bit word that changed (RFC 1624). */
static uint16_t checksum_mend(uint16_t checksum, uint16_t before, uint16_t after)
{
	uint32_t sum = (uint16_t)~checksum + (uint32_t)(uint16_t)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

bool frame_tamper(uint8_t *frame, size_t length, uint64_t bit)
{
	struct frame_view view = frame_look(frame, length);
	size_t size = view.payload ? view.payload_end - view.payload : 0;
	uint8_t *udp = frame + view.transport;
	uint8_t word[2] = { 0, 0 }, changed[2] = { 0, 0 };

	if (!view.payload || view.payload_end <= view.payload)
		return false;
	/* The payload begins at an even offset of the checksummed bytes. */
	size_t at = bit % (size * 8) / 8, even = at & ~(size_t)1;
	size_t in_word = even + 1 < size ? 2 : 1;

	memcpy(word, frame + view.payload + even, in_word);
	flip(frame + view.payload, size, bit);
	memcpy(changed, frame + view.payload + even, in_word);
	if (!get16(udp + 6))
		return true; /* no checksum */
	uint16_t checksum = checksum_mend(get16(udp + 6), get16(word), get16(changed));

	put16(udp + 6, checksum ? checksum : 0xffff);
	return true;
}

int kinds_parse(const char *text, unsigned *kinds)
{
	static const struct {
		const char *name;
		unsigned kinds;
	} names[] = { { "roce", FRAME_ROCE },
		      { "udp", FRAME_ROCE | FRAME_UDP },
		      { "tcp", FRAME_TCP },
		      { "other", FRAME_OTHER },
		      { "all", FRAME_ALL } };

	for (*kinds = 0; *text; text += *text == ',') {
		size_t length = strcspn(text, ","), i = 0;

		while (i < 5 &&
		       (strlen(names[i].name) != length || strncmp(names[i].name, text, length)))
			i++;
		if (i == 5)
			return -EINVAL;
		*kinds |= names[i].kinds;
		text += length;
	}
	return *kinds ? 0 : -EINVAL;
}
