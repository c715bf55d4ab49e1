/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general services interface: QP 1 of this host, which all its processes share. MADs of the
 * connection manager reach a process through abstract unix datagram sockets:
 *
 *   socket of the slot   answers: our comm id in the message names the slot (shm/slot.h)
 *   name of a claim      REQ and SIDR_REQ: port space, port and address (gsi/cm_name.h)
 *
 * A sender on this host writes there itself. From other hosts MADs come as packets for QP 1. The
 * process that has the UDP port gets them, and routes them to their owner. If there is none, the
 * host gives the answer for unknown endpoints (vb_cm_stray).
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

/* The socket of the slot. It takes datagrams from now on. The caller must not close it. */
int vb_gsi_open(struct vb_nic *nic);

/*
 * Claims a port: a descriptor on which its REQs and SIDR_REQs arrive. Port 0: a free port of the
 * ephemeral range is written to claim->port. -EADDRINUSE as for TCP: another claim has the same
 * address, or one of the two is a wildcard of the other's family.
 */
int vb_gsi_claim(struct vb_nic *nic, struct vb_cm_claim *claim);
/* Frees a claim. A descriptor that a parent process claimed is left alone. */
void vb_gsi_release(int fd);

/* Opens the UDP port at an own address; NULL: at all addresses of all devices. */
int vb_gsi_listen(struct vb_nic *nic, const union ibv_gid *own);

/*
 * Sends datagram->mad from datagram->src, an own address, to datagram->dst; scope: the interface of
 * a link-local dst. A MAD that cannot be sent now is lost, as on a wire. -ENETUNREACH,
 * -EADDRNOTAVAIL or -EINVAL only if it could never be sent.
 */
int vb_gsi_send(struct vb_nic *nic, const struct vb_gsi_datagram *datagram);
/*
 * Reads one datagram from a descriptor of ours. *uid is the user of the process that wrote it.
 * -EAGAIN: there is none. -EBADMSG: it is malformed, or claims a way through the port that it
 * cannot have taken. One datagram per call, since any process of this host can write without end.
 */
int vb_gsi_receive(struct vb_nic *nic, int fd, struct vb_gsi_datagram *datagram, uid_t *uid);

/*
 * Sends the MAD as a packet to another host, through a socket of its own: that descriptor, or
 * -errno. Some time later vb_gsi_refused closes the socket. True: the host itself has answered the
 * MAD with this transaction by "port unreachable".
 */
int vb_gsi_knock(const struct vb_gsi_datagram *datagram);
bool vb_gsi_refused(int fd, const union ibv_gid *host, uint64_t transaction_id);

/* From now on this process takes packets for QP 1, and gives them to the processes of the host. */
void vb_gsi_serve(void);

/* Counts a MAD that its receiver has refused: forged, or of another transaction. */
void vb_gsi_count_refused(struct vb_nic *nic);
/* Calls each for every counter, also for those that are 0. */
void vb_gsi_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

#endif
