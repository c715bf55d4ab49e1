/* SPDX-License-Identifier: BSD-2-Clause */
/* rsockets. No descriptor is an rsocket yet, so every call on one fails. */
#include <rdma/rsocket.h>

#include "rdmacm/missing.h"

MISSING(rsocket, (int domain, int type, int protocol));
MISSING(rbind, (int socket, const struct sockaddr *addr, socklen_t addrlen));
MISSING(rlisten, (int socket, int backlog));
MISSING(raccept, (int socket, struct sockaddr *addr, socklen_t *addrlen));
MISSING(rconnect, (int socket, const struct sockaddr *addr, socklen_t addrlen));
MISSING(rshutdown, (int socket, int how));
MISSING(rclose, (int socket));

MISSING_TYPE(ssize_t, rrecv, (int socket, void *buf, size_t len, int flags));
MISSING_TYPE(ssize_t, rrecvfrom,
	     (int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
	      socklen_t *addrlen));
MISSING_TYPE(ssize_t, rrecvmsg, (int socket, struct msghdr *msg, int flags));
MISSING_TYPE(ssize_t, rread, (int socket, void *buf, size_t count));
MISSING_TYPE(ssize_t, rreadv, (int socket, const struct iovec *iov, int iovcnt));
MISSING_TYPE(ssize_t, rsend, (int socket, const void *buf, size_t len, int flags));
MISSING_TYPE(ssize_t, rsendto,
	     (int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr,
	      socklen_t addrlen));
MISSING_TYPE(ssize_t, rsendmsg, (int socket, const struct msghdr *msg, int flags));
MISSING_TYPE(ssize_t, rwrite, (int socket, const void *buf, size_t count));
MISSING_TYPE(ssize_t, rwritev, (int socket, const struct iovec *iov, int iovcnt));

MISSING(rgetpeername, (int socket, struct sockaddr *addr, socklen_t *addrlen));
MISSING(rgetsockname, (int socket, struct sockaddr *addr, socklen_t *addrlen));
MISSING(rsetsockopt, (int socket, int level, int optname, const void *optval, socklen_t optlen));
MISSING(rgetsockopt, (int socket, int level, int optname, void *optval, socklen_t *optlen));
MISSING(rfcntl, (int socket, int cmd, ...));

MISSING_TYPE(off_t, riomap, (int socket, void *buf, size_t len, int prot, int flags, off_t offset));
MISSING(riounmap, (int socket, void *buf, size_t len));
MISSING_TYPE(size_t, riowrite,
	     (int socket, const void *buf, size_t count, off_t offset, int flags));
