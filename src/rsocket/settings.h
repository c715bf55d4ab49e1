/* SPDX-License-Identifier: BSD-2-Clause */
/* The administrator's settings for all rsockets: one integer per file in a directory. */
#ifndef VB_RSOCKET_SETTINGS_H
#define VB_RSOCKET_SETTINGS_H

#include <stdint.h>

#define VB_RS_SETTINGS_DIRECTORY "/etc/rdma/rsocket"

enum {
	VB_RS_QUEUE_MIN = 16,
	VB_RS_QUEUE_MAX = 0xfffe,
	VB_RS_BUFFER_MIN = 4096,
	VB_RS_BUFFER_DEFAULT = 1 << 17,
	VB_RS_BUFFER_MAX = 1 << 30,
	VB_RS_IOMAP_MAX = 127 << 8,
};

struct vb_rs_settings {
	uint32_t receive_size;    /* mem_default, bytes */
	uint32_t send_size;       /* wmem_default, bytes */
	uint16_t sq_size;         /* sqsize_default, work requests */
	uint16_t rq_size;         /* rqsize_default, work requests */
	uint16_t inline_size;     /* inline_default, bytes */
	uint16_t iomap_count;     /* iomap_size, mappings that a peer may offer */
	uint32_t polling_time_us; /* polling_time: how long a call polls before it sleeps */
};

/* A value out of range becomes the nearest legal one. An unreadable file means the default. */
void vb_rs_settings_read(const char *directory, struct vb_rs_settings *settings);
/* The settings of this machine, read once. */
const struct vb_rs_settings *vb_rs_settings(void);

#endif
