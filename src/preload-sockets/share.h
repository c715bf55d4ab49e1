/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that more processes than its own hold.
 *
 * An rsocket belongs to the process that made it. At fork the child gets, under the same number,
 * one end of a pair of unix sockets; a thread of the parent, the pump, carries between the other
 * end and the rsocket. What the children write goes out at once. What arrives is the parent's
 * until it has closed its last number, and the children's from then on, as it is with servers
 * that accept and fork. The connection ends when nobody holds it any more.
 */
#ifndef VB_SOCKETS_SHARE_H
#define VB_SOCKETS_SHARE_H

#include "rsocket/rsocket.h"

struct vb_share;

/* NULL: no descriptors or memory; the child will find the socket not connected. */
struct vb_share *vb_share_create(struct vb_rs *rs);
/* Before fork: the children's end blocks as the program wants it to. */
void vb_share_set_nonblock(struct vb_share *share, bool nonblock);
/* The children's end, for processes that are sent a descriptor. */
int vb_share_theirs(const struct vb_share *share);
/* In the child: fd becomes the children's end. */
void vb_share_take(const struct vb_share *share, int fd);
/* In the child, when all numbers have been taken. */
void vb_share_leave(struct vb_share *share);
/* The parent has closed its last number: the children have the connection, if there are any. */
void vb_share_hand_over(struct vb_share *share);
/* Until all connections that were handed over have ended. */
void vb_share_wait_all(void);
void vb_share_after_fork(void);

/* In the child: what TCP would say of the connection. */
void vb_share_name_local(const struct vb_share *share, struct sockaddr *addr, socklen_t *size);
void vb_share_name_peer(const struct vb_share *share, struct sockaddr *addr, socklen_t *size);

#endif
