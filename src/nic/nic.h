/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NIC of this process: its slots, its segment, its peers and the tables of its objects. A
 * process has one NIC, made when the first device is opened; a forked child makes its own.
 * ARCHITECTURE.md has the lock order.
 */
#ifndef VB_NIC_NIC_H
#define VB_NIC_NIC_H

#include <pthread.h>

#include "base/list.h"
#include "nic/device.h"
#include "nic/grace.h"
#include "shm/segment.h"

struct vb_qp;
struct vb_mr;
struct vb_null;
struct vb_maps;
struct vb_srq;
struct vb_pd;
struct vb_cq;

/* The indexes of a slot's QPs. All are zeros at first: pages without a QP cost nothing. */
struct vb_qp_indexes {
	/* Free ones of each row, first in first out: not reused soon. Each less its position and
	 * free_first. */
	uint8_t free_ring[VB_QP_ROWS][VB_QP_PER_ROW];
	struct vb_qp *qps[VB_QP_PER_SLOT];
};

struct vb_own_slot {
	uint32_t slot;
	int listener;
	struct vb_qp_indexes *indexes;
	uint32_t free_first; /* random: the index of each row that is given out first */
	struct {
		uint32_t free_head, free_tail;
	} rows[VB_QP_ROWS];
};

/* The QPs of a lane, wired or not, and the row that gives out their numbers; under nic->lock. */
struct vb_lane_use {
	uint32_t qps;
	uint32_t row;             /* counted over all slots */
	uint32_t row_used;        /* numbers that were taken from it in turn */
	_Atomic uint64_t idle_ns; /* time since which it has no QP; 0: it has, or was never used */
};

struct vb_nic {
	struct vb_segment seg;
	pthread_mutex_t lock; /* of the control path: all members that name no other lock */
	struct vb_own_slot slots[VB_OWN_SLOTS];
	unsigned slot_count;
	int cm, life; /* sockets of the first slot (slot.h), for the connection manager */
	/* Eventfds that wake the service thread; -1: there is no such thread yet. */
	int doorbell;       /* private: peers must not change its flags */
	int peers_doorbell; /* the same for peers */
	struct vb_peer *self;
	struct vb_spin peers_lock;
	struct vb_stuck stuck[VB_STUCK_MAX]; /* under peers_lock */
	unsigned stuck_next;
	struct vb_list peers; /* the own process included */
	struct vb_list qps, srqs, cqs, quarantine;
	struct vb_spin rqs_lock;
	struct vb_list rqs; /* every receive queue, shared or not */
	struct vb_spin mcast_lock;
	struct vb_list memberships; /* of QPs in multicast groups */
	struct vb_list mws;         /* memory windows, under lock */
	struct vb_list free_mws;    /* structs of deallocated windows, under lock */
	uint32_t mw_count;
	struct vb_spin umr_lock;     /* taken last */
	struct vb_list indirects;    /* struct vb_indirect (umr.h); under umr_lock */
	struct vb_spin cross_lock;   /* managed.h, cross.h */
	_Atomic uint32_t enable_due; /* enum vb_enable_due of cross.h; the engine takes it */
	uint32_t shelf_count;        /* receive queues with a shelf, under lock */
	uint64_t dropped; /* count of messages that destroyed QPs could not take, under lock */
	struct {          /* counts of messages with a wrong key to destroyed QPs, per device */
		uint64_t pkey, qkey;
	} violations[VB_DEVICES_MAX];
	uint32_t qp_count, cq_count, srq_count, mr_count, pd_count, ah_count;
	bool distinct_keys;  /* VERBENA_KEYS: the two keys of a region differ */
	uint32_t *free_keys; /* ring of free key indexes */
	uint32_t free_keys_head, free_keys_tail, free_keys_size, keys_made;
	uint32_t next_pd, next_srq;
	struct vb_list xrcds; /* XRC domains, under lock */
	uint32_t xrcd_count, next_xrcd;
	struct vb_list xrc_handles; /* handles to QPs of other processes, under lock */
	struct vb_srq **xrc_srqs;   /* by index, under lock; NULL: no XRC SRQ was made yet */
	uint32_t next_xrc_srq;
	struct vb_pd *xrc_pd;           /* the PD of all XRC_RECV QPs ... */
	struct vb_cq *xrc_cq;           /* ... and their CQ; made with the first such QP */
	_Atomic uint32_t mr_generation; /* moves when a region ends or changes: caches end */
	_Atomic uint64_t next_epoch;
	struct vb_spin waiting_lock;
	struct vb_list waiting_cqs; /* CQs with send queues that wait (waiters.h); under its lock */
	_Atomic uint32_t waiting;   /* count of these CQs, and of flushes that wait: pollers help */
	_Atomic uint32_t map_wanted;      /* a peer asks for vb_map_turn (map.h) */
	_Atomic uint32_t flushes_pending; /* count of QPs in ERR whose grace period runs */
	bool unregistered_barrier;        /* peers cannot make us fence: we do it at each post */
	uint64_t private_nonce;           /* a peer that can read it may touch our memory */
	bool untouchable; /* a system call filter forbids process_vm_*: peers have no path */
	struct vb_engine *engine;
	/* Lanes (lane.h, engine/wire/wire.h): one that was opened once stays in memory. */
	struct vb_lane *_Atomic lanes[VB_LANES_MAX]; /* written under lanes_lock */
	_Atomic uint32_t lanes_open;                 /* a bit per open lane; likewise */
	_Atomic uint32_t lanes_grouped; /* a bit per lane with members of multicast groups */
	pthread_mutex_t lanes_lock;
	unsigned lanes_max; /* this process opens no more */
	struct vb_lane_use lane_uses[VB_LANES_MAX];
	_Atomic uint8_t row_lanes[VB_OWN_SLOTS * VB_QP_ROWS]; /* written under lock */
	bool own_hands;              /* only this process can reach a certain region; under lock */
	_Atomic uint64_t kept_bytes; /* packets of all lanes that came behind a gap */
	_Atomic uint32_t on_demand;  /* count of regions whose memory may be missing (odp.h) */
	struct vb_null *null;        /* memory behind null regions; under lock */
	struct vb_maps *maps;        /* mapped regions; under lock; NULL: there was none */
	_Atomic uint64_t event_due_ns; /* time of the first event that moderation holds; 0: none */
	/* Tables come last: most of their pages are never touched. */
	uint8_t claimant_used[65536 / 8]; /* claimant ids of peers; bit 0 is this process */
	uint8_t hazard_used[VB_HAZARD_PAGES * VB_HAZARD_PAGE]; /* under peers_lock */
	_Atomic uint64_t seen[(VB_SLOT_MAX + 1 + 63) / 64]; /* a bit per slot: vb_nic_slot_seen */
	_Atomic uint64_t refused[64]; /* slots without a holder, and how long this is believed */
	_Atomic uint64_t busy[64];    /* the same of slots that took no connection */
	struct vb_mr **mrs[VB_KEY_PAGES]; /* by key index, pages as in the segment */
};

/* The NIC, made on demand; NULL and errno if the environment does not allow one. */
struct vb_nic *vb_nic_get(void);
extern struct vb_nic *_Atomic vb_the_nic; /* read through vb_nic_get and vb_nic_current only */

/* The NIC, or NULL if none was made. */
static inline struct vb_nic *vb_nic_current(void)
{
	return atomic_load_explicit(&vb_the_nic, memory_order_acquire);
}
/* In a forked child: forgets the parent's NIC without touching memory that it shares. */
void vb_nic_forget(void);

struct vb_hazard_cell *vb_nic_hazard_alloc(struct vb_nic *nic, uint32_t *cell);
void vb_nic_hazard_free(struct vb_nic *nic, uint32_t cell);

/* A QP number of a lane, and its entry; -ENOMEM: none is left. A freed number is used again when no
 * thread is inside the entry any more. Under nic->lock. */
int vb_nic_qpn_alloc(struct vb_nic *nic, struct vb_qp *qp, unsigned lane, uint32_t *qpn);
void vb_nic_qpn_free(struct vb_nic *nic, uint32_t qpn);
struct vb_qp *vb_nic_qp(struct vb_nic *nic, uint32_t qpn);
/* A slot of this process, or NULL: it is another's. */
struct vb_own_slot *vb_nic_own_slot(struct vb_nic *nic, uint32_t slot);
/* The free index of a row at a position between free_head and free_tail. */
static inline uint16_t vb_own_slot_free(const struct vb_own_slot *own, unsigned row,
					uint32_t position)
{
	uint32_t stored = own->indexes->free_ring[row][position % VB_QP_PER_ROW];

	return (uint16_t)(row * VB_QP_PER_ROW +
			  (stored + own->free_first + position) % VB_QP_PER_ROW);
}

/* A small number that names a peer in our cells; 0: none is left. Under nic->peers_lock. */
uint16_t vb_nic_claimant_alloc(struct vb_nic *nic);
void vb_nic_claimant_free(struct vb_nic *nic, uint16_t id);

/* The peer that holds a slot, referenced, or NULL. */
struct vb_peer *vb_nic_peer(struct vb_nic *nic, uint32_t slot);

/* Frees shared memory once no thread can be inside it any more. Threads reach it through QP qpn
 * only; 0: through any QP. Under nic->lock. */
void vb_nic_free_later(struct vb_nic *nic, uint32_t qpn, uint64_t offset, size_t size);
void vb_nic_quarantine_check(struct vb_nic *nic);

/* A process held this slot: if no process holds it now, that process has ended. */
void vb_nic_slot_seen(struct vb_nic *nic, uint32_t slot);
bool vb_nic_slot_was_seen(const struct vb_nic *nic, uint32_t slot);
/* No process held the slot a moment ago. */
void vb_nic_slot_refuse(struct vb_nic *nic, uint32_t slot);
bool vb_nic_slot_refused(struct vb_nic *nic, uint32_t slot);
/* A process holds the slot, and took no further connection a moment ago. */
void vb_nic_slot_set_busy(struct vb_nic *nic, uint32_t slot);
bool vb_nic_slot_is_busy(struct vb_nic *nic, uint32_t slot);

static inline void vb_nic_flush_count(struct vb_nic *nic, int by)
{
	atomic_fetch_add(&nic->flushes_pending, (uint32_t)by);
	atomic_fetch_add(&nic->waiting, (uint32_t)by);
}

/* Makes the doorbells, before there is a service thread; under nic->lock. */
int vb_nic_doorbells_make(struct vb_nic *nic);
/* Wakes the service thread of this process. Without one, its first turn finds all work. */
void vb_nic_ring(struct vb_nic *nic);

#endif
