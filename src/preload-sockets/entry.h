/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket of the program that is, or may become, an rsocket.
 *
 * Its number is a TCP socket of the kernel from beginning to end: options are kept there, and
 * when RDMA does not work out it is what the program gets. As long as an rsocket is in charge
 * the TCP socket is not used; a listening one listens for both.
 */
#ifndef VB_SOCKETS_ENTRY_H
#define VB_SOCKETS_ENTRY_H

#include "preload-sockets/config.h"
#include "preload-sockets/real.h"
#include "rsocket/rsocket.h"

enum vb_kind {
	VB_KIND_FRESH,      /* neither connected nor listening */
	VB_KIND_LISTENER,   /* both; rs may be missing: TCP only, with the kernel not blocking */
	VB_KIND_CONNECTING, /* rs is trying; TCP comes next */
	VB_KIND_STREAM,     /* rs */
	VB_KIND_PLAIN,      /* TCP */
};

struct vb_entry {
	struct vb_fd_object object;
	atomic_int numbers; /* descriptors that name it */
	int domain;
	atomic_uint generation; /* of the process that may use rs */

	pthread_mutex_t lock; /* before the lock of rs */
	enum vb_kind kind;
	struct vb_rs *rs; /* a reference */
	bool nonblock;    /* as the program sees it */
	bool receive_size_set, send_size_set;
	int error; /* of a connect by TCP that came too late to be returned; positive */
	union vb_rs_addr target;
	uint64_t give_up_at_ns; /* connecting: then TCP is tried */
	struct vb_list members; /* of epoll sets; under vb_epoll_lock */

	/* Where fork comes in: fork.c. */
	struct vb_share *share; /* NULL: no child has had the connection */
	bool lent;              /* this is a child: the number is an end of share's pair */
	int backlog;            /* of a listener */
	bool awaited;   /* a listener: this process accepts, or waits for somebody to come */
	bool suspended; /* a listener: TCP only until it is awaited */
};

/* NULL: an ordinary descriptor. Else put it when done. */
struct vb_entry *vb_entry_get(int fd);
void vb_entry_put(struct vb_entry *entry);
/* Gives fd, a new TCP socket, an entry; rs (taken over) may be NULL. */
int vb_entry_add(int fd, int domain, bool nonblock, struct vb_rs *rs);
/* newfd, which has been made, means the same as entry. */
int vb_entry_alias(struct vb_entry *entry, int newfd);
/* fd is about to be closed, or to mean something else. */
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
/* A child of vfork: the numbers are its own, but the table is its parent's. */
bool vb_entry_is_guest(void);

/* The rsocket that is in charge, with a reference; NULL: TCP is. Moves connecting ones on. */
struct vb_rs *vb_entry_rsocket(struct vb_entry *entry, int fd);
/* The same by the number; NULL also for an ordinary descriptor. */
struct vb_rs *vb_entry_rsocket_of(int fd);
/* What of the kernel's socket and of the rsocket is to be looked at. */
struct vb_entry_parts {
	struct vb_rs *rs; /* with a reference */
	bool kernel;
	uint64_t look_again_at_ns;
};
struct vb_entry_parts vb_entry_parts(struct vb_entry *entry, int fd);
/* A new rsocket with the options of the TCP socket. */
int vb_entry_make_rsocket(struct vb_entry *entry, int fd, struct vb_rs **rs);
int vb_entry_connect(struct vb_entry *entry, int fd, const struct sockaddr *addr, socklen_t size);
int vb_entry_listen(struct vb_entry *entry, int fd, int backlog);
int vb_entry_accept(struct vb_entry *entry, int fd, struct sockaddr *addr, socklen_t *size,
		    int flags);
void vb_entry_set_nonblock(struct vb_entry *entry, bool nonblock);
/* Somebody waits for connections. */
void vb_entry_await(struct vb_entry *entry, int fd);
/* Under the entry's lock: listens by RDMA as well as by TCP. */
int vb_entry_listen_rdma(struct vb_entry *entry, int fd);
void vb_entry_each(void (*each)(int fd, struct vb_fd_object *object, void *arg));

/* --- fork.c --- */
/* From the first rsocket on. */
void vb_sockets_watch_fork(void);
/* What another process gets instead of fd; fd itself if that is an ordinary descriptor. */
int vb_entry_for_others(int fd);

#endif
