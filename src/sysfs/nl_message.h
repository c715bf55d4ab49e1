/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building netlink messages. The output is a row of datagrams, each behind its length, as the
 * program's socket is to receive them.
 */
#ifndef VB_SYSFS_NL_MESSAGE_H
#define VB_SYSFS_NL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel fills a page less its overhead, and readers have a page of room. */
enum { VB_NL_DATAGRAM_MAX = 3712 };
/* More than the objects of any host; a datagram may hold thousands of requests. */
enum { VB_NL_OUT_MAX = 64 << 20 };

struct vb_nl_out {
	unsigned char *bytes; /* owned */
	size_t length, room;
	size_t datagram; /* the open datagram: the place of its length */
	size_t message;  /* the open message: the place of its header */
	size_t limit;    /* of the open datagram; 0: none */
	uint32_t portid; /* of the socket that receives the messages */
	bool full;       /* something found no room in the datagram, and was left out */
	bool failed;     /* no memory, or too long; nothing is added any more */
};

void vb_nl_datagram_begin(struct vb_nl_out *out, size_t limit);
/* An empty datagram vanishes. */
void vb_nl_datagram_end(struct vb_nl_out *out);
bool vb_nl_datagram_is_empty(const struct vb_nl_out *out);

void vb_nl_message_begin(struct vb_nl_out *out, uint16_t type, uint16_t flags, uint32_t sequence);
void vb_nl_message_end(struct vb_nl_out *out);
/* Bytes without an attribute around them, for the fixed part of a message. */
void vb_nl_raw(struct vb_nl_out *out, const void *bytes, size_t size);

/* --- attributes --- */

void vb_nl_put(struct vb_nl_out *out, uint16_t type, const void *bytes, size_t size);
void vb_nl_put_u8(struct vb_nl_out *out, uint16_t type, uint8_t value);
void vb_nl_put_u32(struct vb_nl_out *out, uint16_t type, uint32_t value);
void vb_nl_put_u64(struct vb_nl_out *out, uint16_t type, uint64_t value);
void vb_nl_put_string(struct vb_nl_out *out, uint16_t type, const char *text);

/* An attribute of attributes; the result is for vb_nl_nest_end. */
size_t vb_nl_nest_begin(struct vb_nl_out *out, uint16_t type);
void vb_nl_nest_end(struct vb_nl_out *out, size_t nest);

/* Takes back everything behind length, which is of the open datagram. */
void vb_nl_cut(struct vb_nl_out *out, size_t length);

void vb_nl_free(struct vb_nl_out *out);

#endif
