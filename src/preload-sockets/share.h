/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that several processes hold.
 *
 * An rsocket belongs to the process that made it. After fork the child has, under the same number,
 * one end of a pair of unix sockets. A thread of the parent, the pump, carries bytes between the
 * other end and the rsocket. Bytes of the children go out at once. Bytes of the peer go to the
 * parent until it has closed its last number, then to the children, as servers that accept and fork
 * expect. The connection ends when no process holds it any more.
 */
#ifndef VB_SOCKETS_SHARE_H
#define VB_SOCKETS_SHARE_H

#include "rsocket/rsocket.h"

struct vb_share;

/* NULL: no descriptors or memory; in the child the socket is not connected then. */
struct vb_share *vb_share_create(struct vb_rs *rs);
/* Before fork: the children's end gets the O_NONBLOCK of the program. */
void vb_share_set_nonblock(struct vb_share *share, bool nonblock);
/* The children's end, to be sent to another process. */
int vb_share_theirs(const struct vb_share *share);
/* In the child: fd becomes the children's end. */
void vb_share_take(const struct vb_share *share, int fd);
/* In the child, after vb_share_take for all numbers. */
void vb_share_leave(struct vb_share *share);
/* The parent has closed its last number: its children, if any, have the connection alone. */
void vb_share_hand_over(struct vb_share *share);
/* Waits until all connections that were handed over have ended. */
void vb_share_wait_all(void);
void vb_share_after_fork(void);

/* In the child: the addresses of the connection. */
void vb_share_name_local(const struct vb_share *share, struct sockaddr *addr, socklen_t *size);
void vb_share_name_peer(const struct vb_share *share, struct sockaddr *addr, socklen_t *size);

#endif
