/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/nl_message.h"

#include <stdlib.h>
#include <string.h>
#include <linux/netlink.h>

enum { ROOM_MIN = 8192 };

static bool make_room(struct vb_nl_out *out, size_t size)
{
	size_t room = out->room ? out->room : ROOM_MIN;
	unsigned char *bytes;

	if (out->length + size > VB_NL_OUT_MAX)
		return false;
	while (room - out->length < size)
		room *= 2;
	if (room == out->room)
		return true;
	bytes = realloc(out->bytes, room);
	if (!bytes)
		return false;
	out->bytes = bytes;
	out->room = room;
	return true;
}

static bool fits(const struct vb_nl_out *out, size_t size)
{
	return !out->limit || out->length - out->datagram - sizeof(uint32_t) + size <= out->limit;
}

/* Adds the bytes, and zeros up to the alignment of netlink. NULL: zeros only. */
void vb_nl_raw(struct vb_nl_out *out, const void *bytes, size_t size)
{
	const size_t aligned = NLMSG_ALIGN(size);

	if (out->failed || out->full)
		return;
	out->full = !fits(out, aligned);
	if (out->full)
		return;
	out->failed = !make_room(out, aligned);
	if (out->failed)
		return;
	memset(out->bytes + out->length, 0, aligned);
	if (bytes)
		memcpy(out->bytes + out->length, bytes, size);
	out->length += aligned;
}

/* --- datagrams and messages --- */

void vb_nl_datagram_begin(struct vb_nl_out *out, size_t limit)
{
	out->limit = 0;
	out->full = false;
	out->datagram = out->length;
	vb_nl_raw(out, NULL, sizeof(uint32_t));
	out->limit = limit;
}

bool vb_nl_datagram_is_empty(const struct vb_nl_out *out)
{
	return out->length <= out->datagram + sizeof(uint32_t);
}

void vb_nl_datagram_end(struct vb_nl_out *out)
{
	const uint32_t size = (uint32_t)(out->length - out->datagram - sizeof(uint32_t));

	if (out->failed)
		return;
	if (vb_nl_datagram_is_empty(out))
		out->length = out->datagram;
	else
		memcpy(out->bytes + out->datagram, &size, sizeof(size));
}

void vb_nl_message_begin(struct vb_nl_out *out, uint16_t type, uint16_t flags, uint32_t sequence)
{
	const struct nlmsghdr header = { .nlmsg_type = type,
					 .nlmsg_flags = flags,
					 .nlmsg_seq = sequence,
					 .nlmsg_pid = out->portid };

	out->message = out->length;
	vb_nl_raw(out, &header, sizeof(header));
}

void vb_nl_message_end(struct vb_nl_out *out)
{
	const uint32_t size = (uint32_t)(out->length - out->message);

	if (!out->failed && !out->full)
		memcpy(out->bytes + out->message + offsetof(struct nlmsghdr, nlmsg_len), &size,
		       sizeof(size));
}

void vb_nl_cut(struct vb_nl_out *out, size_t length)
{
	if (length < out->length)
		out->length = length;
	out->full = false;
}

void vb_nl_free(struct vb_nl_out *out)
{
	free(out->bytes);
	*out = (struct vb_nl_out){ 0 };
}

/* --- attributes --- */

void vb_nl_put(struct vb_nl_out *out, uint16_t type, const void *bytes, size_t size)
{
	const struct nlattr head = { (uint16_t)(NLA_HDRLEN + size), type };
	const size_t before = out->length;

	vb_nl_raw(out, &head, sizeof(head));
	vb_nl_raw(out, bytes, size);
	if (out->full)
		out->length = before;
}

void vb_nl_put_u8(struct vb_nl_out *out, uint16_t type, uint8_t value)
{
	vb_nl_put(out, type, &value, sizeof(value));
}

void vb_nl_put_u32(struct vb_nl_out *out, uint16_t type, uint32_t value)
{
	vb_nl_put(out, type, &value, sizeof(value));
}

void vb_nl_put_u64(struct vb_nl_out *out, uint16_t type, uint64_t value)
{
	vb_nl_put(out, type, &value, sizeof(value));
}

void vb_nl_put_string(struct vb_nl_out *out, uint16_t type, const char *text)
{
	vb_nl_put(out, type, text, strlen(text) + 1);
}

size_t vb_nl_nest_begin(struct vb_nl_out *out, uint16_t type)
{
	const struct nlattr head = { NLA_HDRLEN, type };
	const size_t nest = out->length;

	vb_nl_raw(out, &head, sizeof(head));
	return nest;
}

void vb_nl_nest_end(struct vb_nl_out *out, size_t nest)
{
	const uint16_t size = (uint16_t)(out->length - nest);

	if (!out->failed && !out->full)
		memcpy(out->bytes + nest + offsetof(struct nlattr, nla_len), &size, sizeof(size));
}
