/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of an rsocket. Accepted connections inherit those of the listener. */
#ifndef VB_RSOCKET_OPTIONS_H
#define VB_RSOCKET_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct vb_rs_options {
	uint32_t receive_size, send_size; /* bytes */
	uint16_t sq_size, rq_size;        /* work requests */
	uint16_t inline_size;             /* bytes */
	uint16_t iomap_count;
	bool reuse_addr, keepalive, oob_inline, broadcast;
	bool nodelay, v6only;
	struct linger linger;
	int tos;
	int keep_idle_s, keep_interval_s, keep_count;
	uint64_t receive_timeout_ns, send_timeout_ns; /* 0: none */
	void *route;                                  /* struct ibv_path_data []; owned */
	size_t route_size;
};

struct vb_rs;

void vb_rs_options_init(struct vb_rs_options *options);
/* Copies all options but the route, which belongs to one connection. */
void vb_rs_options_inherit(struct vb_rs_options *to, const struct vb_rs_options *from);
int vb_rs_option_set(struct vb_rs *rs, int level, int name, const void *value, socklen_t size);
int vb_rs_option_get(struct vb_rs *rs, int level, int name, void *value, socklen_t *size);

#endif
