/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA in this process.
 *
 * Such a socket is a real netlink socket, but of NETLINK_USERSOCK, where the kernel answers
 * nothing and processes may write to each other. So names, options, poll, queues, MSG_PEEK and dup
 * are the kernel's. When the program sends a request, this library makes the answer in the same
 * call, and sends it to the program's socket from a socket of its own, which lives for that moment.
 * The program's socket is connected to that one, so that no other process can write to it.
 *
 * An answer that does not fit into the receive buffer waits here until the program has received
 * something. A request that comes by a way that is not replaced (write, sendmmsg) fails with
 * ECONNREFUSED.
 */
#ifndef VB_SYSFS_NL_SOCKET_H
#define VB_SYSFS_NL_SOCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { VB_NL_FDS = 1024, VB_NL_WORD = 64 };

/* Descriptors that may be such sockets. Higher ones than VB_NL_FDS share the last bit. */
extern _Atomic uint64_t vb_nl_suspects[VB_NL_FDS / VB_NL_WORD]
	__attribute__((visibility("hidden")));

/* Looks into the table. */
bool vb_nl_socket_is_ours(int fd);

/* Every call of the program on a socket looks at one bit. */
static inline bool vb_nl_is_ours(int fd)
{
	const unsigned bit = (unsigned)fd < VB_NL_FDS ? (unsigned)fd : VB_NL_FDS - 1;
	const uint64_t word =
		atomic_load_explicit(&vb_nl_suspects[bit / VB_NL_WORD], memory_order_relaxed);

	return __builtin_expect(word >> bit % VB_NL_WORD & 1, 0) && vb_nl_socket_is_ours(fd);
}

/* type: of socket(2), with its flags. The descriptor, or -1 with errno. */
int vb_nl_socket_open(int type);
/* After bind: only answers may come. */
void vb_nl_socket_seal(int fd);
/* A datagram of requests. 0 or -errno. */
int vb_nl_socket_request(int fd, const void *datagram, size_t size);
/* After the program has received something: sends what waits. */
void vb_nl_socket_resume(int fd);

#endif
