/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An entry is a socket of the program that is, or may become, an rsocket.
 *
 * Its number always names a TCP socket of the kernel. The TCP socket keeps the options, and the
 * program gets it if RDMA does not work. The TCP socket is idle while an rsocket has the
 * connection. A listener listens for both.
 */
#ifndef VB_SOCKETS_ENTRY_H
#define VB_SOCKETS_ENTRY_H

#include "preload-sockets/real.h"

#include "preload-sockets/config.h"
#include "rsocket/rsocket.h"

enum vb_kind {
	VB_KIND_FRESH,      /* neither connected nor listening */
	VB_KIND_LISTENER,   /* rs (unless NULL) and TCP; the kernel's socket does not block */
	VB_KIND_CONNECTING, /* rs tries first, then TCP */
	VB_KIND_STREAM,     /* rs has the connection */
	VB_KIND_PLAIN,      /* TCP has the connection */
};

struct vb_entry {
	struct vb_fd_object object;
	atomic_int numbers; /* count of descriptors */
	int domain;
	atomic_uint generation; /* of the process that may use rs */

	pthread_mutex_t lock; /* before the lock of rs */
	enum vb_kind kind;
	struct vb_rs *rs; /* a reference */
	bool nonblock;    /* O_NONBLOCK of the program */
	bool receive_size_set, send_size_set;
	int error; /* of a late connect by TCP, for SO_ERROR; positive */
	union vb_rs_addr target;
	uint64_t give_up_at_ns; /* connecting: the time to try TCP */
	struct vb_list members; /* in epoll sets; under vb_epoll_lock */

	/* For fork.c. */
	struct vb_share *share; /* NULL: no other process has had the connection */
	bool lent;              /* in a child: the number is an end of share's pair */
	int backlog;            /* of a listener */
	bool awaited;           /* a listener: this process waits for connections */
	bool suspended;         /* a listener: TCP only until it is awaited */
};

/* NULL: an ordinary descriptor. The caller puts the entry when done. */
struct vb_entry *vb_entry_get(int fd);
void vb_entry_put(struct vb_entry *entry);
void vb_entry_undo_get(void *entry); /* for vb_undo_push */
/* Makes an entry for fd, a new TCP socket. Takes over rs, which may be NULL. */
int vb_entry_add(int fd, int domain, bool nonblock, struct vb_rs *rs);
/* Adds newfd, an open descriptor, to the numbers of the entry. */
int vb_entry_alias(struct vb_entry *entry, int newfd);
/* The caller is about to close fd, or to replace it. */
void vb_entry_drop(int fd);
struct vb_fd_range {
	unsigned first, last;
};
static inline bool vb_fd_in_range(int fd, const struct vb_fd_range *range)
{
	return (unsigned)fd >= range->first && (unsigned)fd <= range->last;
}
void vb_entry_drop_range(unsigned first, unsigned last);
bool vb_entry_exists(int fd);
/* Is this a child of vfork? Its descriptors are its own, but the table is that of its parent. */
bool vb_entry_is_guest(void);

/* The rsocket that has the connection, with a reference; NULL: TCP has it. */
struct vb_rs *vb_entry_rsocket(struct vb_entry *entry, int fd);
/* The same for a number; NULL also for an ordinary descriptor. */
struct vb_rs *vb_entry_rsocket_of(int fd);
/* The parts that a poll has to look at. */
struct vb_entry_parts {
	struct vb_rs *rs;          /* with a reference; NULL: none */
	bool kernel;               /* the TCP socket */
	uint64_t look_again_at_ns; /* a connect by RDMA gives up at this time */
};
struct vb_entry_parts vb_entry_parts(struct vb_entry *entry, int fd);
/* A new rsocket with the options of the TCP socket. */
int vb_entry_make_rsocket(struct vb_entry *entry, int fd, struct vb_rs **rs);
int vb_entry_connect(struct vb_entry *entry, int fd, const struct sockaddr *addr, socklen_t size);
int vb_entry_listen(struct vb_entry *entry, int fd, int backlog);
int vb_entry_accept(struct vb_entry *entry, int fd, struct sockaddr *addr, socklen_t *size,
		    int flags);
void vb_entry_set_nonblock(struct vb_entry *entry, bool nonblock);
/* The program waits for connections. */
void vb_entry_await(struct vb_entry *entry, int fd);
/* Listens for RDMA, too. Under the entry's lock. */
int vb_entry_listen_rdma(struct vb_entry *entry, int fd);
void vb_entry_each(void (*each)(int fd, struct vb_fd_object *object, void *arg));

/* --- fork.c --- */
/* Registers the fork handlers, when the first rsocket is made. */
void vb_sockets_watch_fork(void);
/* The descriptor to send to another process instead of fd; fd itself if it is an ordinary one. */
int vb_entry_for_others(int fd);

#endif
