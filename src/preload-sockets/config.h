/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration: which sockets become rsockets, and with which sizes.
 *
 * /etc/rdma/rsocket/preload_config has lines "PROGRAM DOMAIN TYPE PROTOCOL", each a word or *:
 * INET or INET6, STREAM or DGRAM, TCP or UDP; PROGRAM is the beginning of a name. If there are such
 * lines, a socket must match one of them. RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE set sizes. With
 * RDMAV_FORK_SAFE=1 servers listen for TCP only, so that children of fork inherit connections.
 */
#ifndef VB_SOCKETS_CONFIG_H
#define VB_SOCKETS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct vb_sockets_config {
	bool listen;                       /* servers listen for RDMA, too */
	int sq_size, rq_size, inline_size; /* 0: the default */
	uint64_t connect_wait_ns;          /* a connect waits for RDMA, then tries TCP */
};

const struct vb_sockets_config *vb_sockets_config(void);
bool vb_sockets_wanted(int domain, int type, int protocol);
/* Does this line of the file match a socket of the program? type: without flags. */
bool vb_sockets_line_matches(const char *line, const char *program, int domain, int type,
			     int protocol);
/* Is the line more than a comment or an empty line? */
bool vb_sockets_line_counts(const char *line);

#endif
