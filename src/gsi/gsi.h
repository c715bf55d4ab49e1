/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general services interface: QP 1 of this host, which all its processes share. MADs of the
 * connection manager reach a process through abstract unix datagram sockets:
 *
 *   that of the slot     answers: the slot (shm/slot.h) is in the comm id that a message names as
 *                        ours
 *   a claim's name       REQ and SIDR_REQ: port space, port and address (gsi/cm_name.h)
 *
 * To a process of this host the sender writes there itself. From other hosts they come as packets
 * for QP 1, to whatever process has the UDP port, which routes them on. Where nobody is, the sender
 * gets the answer that a host gives without knowing anything (vb_cm_stray).
 *
 * Any thread, no lock held. 0 (or a descriptor) or -errno.
 */
#ifndef VB_GSI_GSI_H
#define VB_GSI_GSI_H

#include <stdbool.h>
#include <sys/socket.h>

#include "gsi/cm_name.h"
#include "nic/nic.h"
#include "wire/gsi_datagram.h"

/* The socket of the slot, which takes datagrams from now on. Not to be closed. */
int vb_gsi_open(struct vb_nic *nic);

/*
 * Claims a port: a descriptor on which its REQs and SIDR_REQs arrive. Port 0: some free port of the
 * ephemeral range, which is put into claim->port. -EADDRINUSE as for TCP: the same address, or a
 * wildcard beside any address of its family.
 */
int vb_gsi_claim(struct vb_nic *nic, struct vb_cm_claim *claim);
/* Frees a claim. A descriptor that a parent process claimed is left alone. */
void vb_gsi_release(int fd);

/* UDP is listened to on an own address; NULL: on all addresses of all devices. */
int vb_gsi_listen(struct vb_nic *nic, const union ibv_gid *own);

/*
 * Sends datagram->mad from datagram->src, an own address, to datagram->dst; scope: the interface of
 * a link-local one. What cannot be sent now is lost, as on a wire: -ENETUNREACH, -EADDRNOTAVAIL,
 * -EINVAL only if it could never be.
 */
int vb_gsi_send(struct vb_nic *nic, const struct vb_gsi_datagram *datagram);
/*
 * One that has arrived on a descriptor of ours, from a process of this user; -EAGAIN: none. What is
 * malformed is not shown, nor what cannot have come through the port as it says: -EBADMSG, one at a
 * time, since anybody on this host can write there without end.
 */
int vb_gsi_receive(struct vb_nic *nic, int fd, struct vb_gsi_datagram *datagram, uid_t *uid);

/*
 * Sends it as a packet to another host through a socket of its own: that descriptor, or -errno. Some
 * time later vb_gsi_refused closes it and tells whether that host itself said, about the MAD with this
 * transaction, that it has nobody who takes such packets.
 */
int vb_gsi_knock(const struct vb_gsi_datagram *datagram);
bool vb_gsi_refused(int fd, const union ibv_gid *host, uint64_t transaction_id);

/* From now on this process takes packets for QP 1 in, and hands them out to the processes of the host. */
void vb_gsi_serve(void);

/* Every counter, by name; also where nothing was counted yet. */
void vb_gsi_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

#endif
