/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapped regions, the owner's side. The whole pages of a region that peers may write or read lie in
 * a file (move.h). The key table says so, and a peer asks for the file (shm/view.h). From then on
 * the peer copies with plain loads and stores.
 *
 *   plain ----- vb_map_region -----> mapped ----- vb_map_leave --> plain
 *     ^                                                               |
 *     '-------------------- later calls <------- left <---- not now --'
 *
 * A peer gets the file for reading only, unless the region grants REMOTE_WRITE or REMOTE_ATOMIC. A
 * region that grants nothing is not mapped. Pages that cannot move back when their region ends are
 * left in their file; no peer is told of it any more, and later calls try again.
 *
 * Regions move when it pays. Peers count the time that their system calls for a region take
 * (vb_key_lent), and ask the owner when moving it would have cost as much. A small region moves
 * when a QP of its PD is connected, from a budget that regions use up for nothing.
 */
#ifndef VB_NIC_MAP_H
#define VB_NIC_MAP_H

#include "nic/move.h"
#include "nic/mr.h"

enum {
	VB_MAP_BASE_NS = 500000,      /* cost of a move, whatever its size ... */
	VB_MAP_NS_PER_KB = 700,       /* ... and for each KB */
	VB_MAP_BYTES_MAX = 256 << 20, /* a larger region would freeze peers for too long */
	VB_MAP_EARLY_BYTES = 4 << 20, /* the budget of moves that no peer has asked for */
};

/* Time that peers spend in system calls before a region of so many bytes should move. */
static inline uint64_t vb_map_cost_ns(uint64_t length)
{
	return VB_MAP_BASE_NS + length / 1024 * VB_MAP_NS_PER_KB;
}

/* Pages move under it; before nic->lock. */
extern pthread_mutex_t vb_map_moving;

struct vb_map {          /* under nic->lock */
	uint64_t serial; /* 0: free */
	uint64_t proof;  /* a peer that knows it can read this process */
	struct vb_range range;
	struct vb_mr *mr; /* NULL: left behind by a region that has ended */
	int file;
	int given;  /* the same file, opened again for peers */
	bool asked; /* a peer has the file, or had it */
	bool early; /* moved from the budget */
};

struct vb_maps {
	struct vb_map at[VB_MAPS_MAX];
	uint64_t next_serial;
	uint64_t early_bytes; /* the rest of the budget */
	uint64_t retry_ns;    /* no move before */
	unsigned failures;    /* in a row: each makes the next try wait longer */
};

/* Registration, before any peer knows the key: VERBENA_MAP=always moves the region at once. */
void vb_map_registered(struct vb_mr *mr);
/* A QP of the PD is connected to a process of this host: small regions move. */
void vb_map_connected(struct vb_pd *pd);
/* By a thread of the program, outside of hazards: does what peers have asked for. */
void vb_map_turn(struct vb_nic *nic);

/*
 * A region ends, or changes. Its key is void before begin, and no peer uses the region before end.
 * With severed, views do not count: the pages will leave their file.
 */
struct vb_map_leave {
	uint32_t mapped; /* 1 + place in the table; 0: the region is not mapped */
	bool severed;
	struct vb_move move;
};
void vb_map_leave_begin(struct vb_mr *mr, struct vb_map_leave *leave);
/* False: the pages are still in their file, and views count after all. */
bool vb_map_leave_end(struct vb_mr *mr, struct vb_map_leave *leave);
/* The region has not ended after all. */
void vb_map_leave_cancel(struct vb_map_leave *leave);

/* The descriptor for a peer that proves its right; -1: there is no such region now, or no proof. */
int vb_map_give(struct vb_nic *nic, uint32_t index, uint64_t serial, uint64_t proof);

/* Maps the region now; NULL, or the reason why not. */
const char *vb_map_region(struct vb_mr *mr, bool early);

#endif
