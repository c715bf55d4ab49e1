/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Views: the mapped regions of a peer, mapped here. Through the slot socket
 *
 *   user of the region                    owner
 *   ASK: serial, proof            --->    compares
 *   maps                          <---    FILE: serial, + the file
 *   unmaps                        <---    ENDED: serial
 *
 * The proof is a number in memory of the owner that is not shared: only a process that can read all
 * memory of the owner, at this time, gets a file. Until the file is here, and where it cannot be
 * mapped, copies go through the kernel as before: both ways lead to the same pages.
 */
#ifndef VB_SHM_VIEW_H
#define VB_SHM_VIEW_H

#include "shm/peer.h"

#define VB_VIEW_MAGIC 0x7765697662726576ull /* "verbview" */

enum vb_view_kind { VB_VIEW_ASK = 1, VB_VIEW_FILE, VB_VIEW_ENDED };

struct vb_view_message {
	uint64_t magic;
	uint32_t kind;
	uint32_t index; /* in vb_segment_head.maps of the owner */
	uint64_t serial;
	uint64_t proof;
};

/* A thread uses a view only inside a hazard that names the peer. */
struct vb_view {
	_Atomic uint64_t serial; /* 0: none; written last */
	char *base;
	uint64_t length;
	bool writes;
	_Atomic uint64_t asked; /* the serial that was asked for last */
};

struct vb_views {
	struct vb_view at[VB_MAPS_MAX];
};

/* Sends without waiting; fd -1: none. */
bool vb_view_send(int socket, const struct vb_view_message *message, int fd);

/* Maps the file of a message; takes fd. False: nothing has changed. */
bool vb_view_add(struct vb_peer *peer, const struct vb_view_message *message, int fd);
/* The view that another one replaces, or whose region has ended; its memory is still mapped.
 * False: there is none. */
bool vb_view_remove(struct vb_peer *peer, uint32_t index, char **base, uint64_t *length);
/* The bytes that all views of this process have, at most. */
enum { VB_VIEW_GB_MAX = 64 };
void vb_view_unmap(char *base, uint64_t length);
/* When no thread uses the peer any more. */
void vb_views_drop(struct vb_peer *peer);

#endif
