/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP sockets of this network namespace, as /proc/net/udp and /proc/net/udp6 list them. The
 * kernel prints a page at a time, and finds the next page by the number of lines. A socket that is
 * made between two pages shifts the lines, so that another socket may be seen twice.
 */
#ifndef VB_BASE_UDP_TABLE_H
#define VB_BASE_UDP_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct vb_udp_table {
	FILE *file;
	bool ipv6;
	char page[4096];
};

struct vb_udp_socket {
	uint8_t address
		[16]; /* the address that the socket is bound to; IPv4: the first four bytes */
	uint16_t port;
	uid_t uid;
	unsigned long inode; /* 0: a socket of the kernel itself */
};

/* False: the table cannot be read. */
bool vb_udp_table_open(struct vb_udp_table *table, bool ipv6);
bool vb_udp_table_next(struct vb_udp_table *table, struct vb_udp_socket *socket);
void vb_udp_table_close(struct vb_udp_table *table);

/* True: the socket is bound to all addresses. */
bool vb_udp_socket_is_everywhere(const struct vb_udp_socket *socket);

#endif
