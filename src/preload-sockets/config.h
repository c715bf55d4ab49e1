/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which sockets become rsockets, and with which sizes.
 *
 * /etc/rdma/rsocket/preload_config has lines "PROGRAM DOMAIN TYPE PROTOCOL", each a word or *:
 * INET or INET6, STREAM or DGRAM, TCP or UDP; PROGRAM is the beginning of a name. With such lines
 * a socket must match one. RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE set sizes. With RDMAV_FORK_SAFE=1
 * servers listen for TCP only, so that children of fork have the connections that they inherit.
 */
#ifndef VB_SOCKETS_CONFIG_H
#define VB_SOCKETS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct vb_sockets_config {
	bool listen;                       /* for RDMA, too */
	int sq_size, rq_size, inline_size; /* 0: as usual */
	uint64_t connect_wait_ns;          /* for an answer by RDMA, before TCP is tried */
};

const struct vb_sockets_config *vb_sockets_config(void);
bool vb_sockets_wanted(int domain, int type, int protocol);
/* One line of the file, for a program; type without flags. */
bool vb_sockets_line_matches(const char *line, const char *program, int domain, int type,
			     int protocol);
/* Whether the line says anything. */
bool vb_sockets_line_counts(const char *line);

#endif
