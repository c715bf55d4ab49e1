/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A slot is a number that a process holds by bound abstract sockets. It is unique per network
 * namespace, across users and containers, and free again the moment its process ends or execs. Any
 * user can bind any abstract name, so there are two ranges of numbers:
 *
 *   1 to 2047      shared: @verbena.<slot>. The first process that binds the name has the slot. One
 *                  user takes at most about half of them, root all.
 *   2048 to 4094   own: @verbena.<slot>.<random>, a name that nobody can take in advance. The
 *                  kernel lists such names and the users that hold them. Each user has some of
 *                  these numbers for itself (slot_user.h); a name that another user binds for such
 *                  a number is ignored.
 *
 * Shared slots need no question to the kernel. Own slots are for the time when all shared slots are
 * taken, by one user or by many.
 *
 * A process binds three names with its first slot, so that nobody can take one of them later:
 *
 *   shared                   own
 *   verbena.<slot>           verbena.<slot>.<random>        peers attach
 *   verbena.cm.<slot>        verbena.<slot>.<random>.cm     answers to its connection manager
 *   verbena.cm.life.<slot>   verbena.<slot>.<random>.life   peers see its death (peer_watch.h)
 */
#ifndef VB_SHM_SLOT_H
#define VB_SHM_SLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum vb_slot_use { VB_SLOT_ATTACH, VB_SLOT_CM, VB_SLOT_LIFE };

struct vb_slot_name {
	struct sockaddr_un address;
	socklen_t length;
};

struct vb_slot_claim {
	uint32_t slot;
	int listener;
	int cm;   /* takes no datagram before vb_slot_open_cm; -1: not the process's first slot */
	int life; /* bound, not listening: librdmacm listens; -1: as for cm */
};

/* Claims a free slot and listens on it. 0 or -errno (-EMFILE: this user can have no more). */
int vb_slot_claim(struct vb_slot_claim *claim, bool first);
void vb_slot_release(struct vb_slot_claim *claim);
/* From now on datagrams arrive at claim->cm. 0 or -errno. */
int vb_slot_open_cm(int cm);

/*
 * Connects to the process that holds a slot, for one use (ATTACH or LIFE). A descriptor or -errno.
 * -ECONNREFUSED: no process holds it. -EAGAIN: busy, or the kernel was asked too often.
 */
int vb_slot_connect_for(uint32_t slot, enum vb_slot_use use);
int vb_slot_connect(uint32_t slot);
/* The name for one use of a slot, held or not; 0, -ECONNREFUSED or -EAGAIN as above. */
int vb_slot_find(uint32_t slot, enum vb_slot_use use, struct vb_slot_name *name);
/* No process was at that name: the next search asks the kernel again. */
void vb_slot_lost(uint32_t slot);
/* In a forked child: forgets names, and a search that another thread was doing. */
void vb_slot_forget(void);

#endif
