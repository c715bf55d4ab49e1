/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer: another process of this host, or this process itself. The segment of a READY peer is
 * mapped here, and the kernel lets us copy from and to its memory.
 */
#ifndef VB_SHM_PEER_H
#define VB_SHM_PEER_H

#include <sys/types.h>
#include <linux/futex.h>

#include "base/list.h"
#include "base/spin.h"
#include "shm/layout.h"

enum vb_peer_state {
	VB_PEER_CONNECTING, /* hello sent, no verdict yet */
	VB_PEER_READY,      /* each side has read the other's nonce */
	VB_PEER_NO_PATH,    /* alive, but one side may not touch the other's memory */
	VB_PEER_GONE,       /* ended, or replaced by exec */
};

struct vb_segment;
struct vb_views;

struct vb_peer {
	struct vb_list node; /* in nic->peers, under nic->peers_lock */
	_Atomic int refs;    /* held by the list, every bound QP, every grace period */
	_Atomic int state;   /* enum vb_peer_state */
	_Atomic bool denied; /* READY, but the kernel no longer lets us touch its memory */
	bool self;
	bool accepted;              /* the peer connected to us, not we to the peer */
	bool may_touch;             /* we read its nonce; not accepted: and it read ours */
	_Atomic uint32_t slot;      /* the slot that we connected to, else the peer's first slot */
	_Atomic uint32_t head_slot; /* its first slot, its name in hazard words; 0: unknown */
	uint16_t id_there;          /* our number as a claimant in its segment */
	uint16_t id_here;           /* its number as a claimant in our segment */
	pid_t tid;                  /* its service thread: the target of process_vm_* */
	uint64_t nonce_at;          /* the address of its nonce, in its memory */
	pid_t pid;                  /* of its socket, from the kernel; 0: another pid namespace */
	uid_t uid;
	bool stranger;     /* the process of another user, which may mean harm */
	uint64_t asked_ns; /* time at which the attach began */
	int socket, memfd, lent_memfd, doorbell;
	/*
	 * NULL until the segment is mapped; other threads find the peer in the list before. A
	 * thread that sees head sees maps as well. A peer with NO_PATH is never mapped.
	 */
	struct vb_segment_head *_Atomic head;
	struct vb_lent_head *lent;    /* of its segment; written before head */
	const struct vb_segment *own; /* self only */
	struct vb_spin map_lock;
	_Atomic uint32_t map_count; /* extents mapped here */
	struct {
		char *base;
		uint64_t offset, size;
	} maps[VB_EXTENTS];
	struct vb_views *_Atomic views; /* its mapped regions here; NULL: none was asked for */
	bool has_views;                 /* it has mapped regions of ours; service thread sets it */
	_Atomic uint64_t stuck_ns; /* a hint: it does not read, so no datagrams until then; or 0 */
};

enum { VB_PEER_ANSWER_NS = 1000000000 }; /* an attach without an answer for so long has failed */

struct vb_peer *vb_peer_new(void);
void vb_peer_get(struct vb_peer *peer);
void vb_peer_put(struct vb_peer *peer);
/* Maps the segment of the process whose first slot is slot. 0 or -errno; -EPROTO: the file is no
 * segment of our layout, or that of another slot. */
int vb_peer_map(struct vb_peer *peer, uint32_t slot);
/* size bytes of its segment; NULL: they lie outside of it. */
void *vb_peer_at(struct vb_peer *peer, uint64_t offset, uint64_t size);
/*
 * The same for bytes that the caller writes. NULL also outside of the lent part: a write would
 * fault.
 */
void *vb_peer_lent_at(struct vb_peer *peer, uint64_t offset, uint64_t size);
/* Wakes its service thread. */
void vb_peer_ring(const struct vb_peer *peer);
/* Sets attention bits, then rings. */
void vb_peer_attend(const struct vb_peer *peer, uint32_t bits);
void vb_peer_attend_qp(struct vb_peer *peer, const struct vb_qp_entry *entry, uint32_t bits);

/* The entry of a QP number in the peer's segment, or NULL. */
struct vb_qp_entry *vb_peer_qp(struct vb_peer *peer, uint32_t qpn);
/* The part of a QP that senders write, or NULL. */
struct vb_qp_lent *vb_peer_qp_lent(struct vb_peer *peer, const struct vb_qp_entry *entry);
/* The entry of an XRC SRQ number, or NULL. */
struct vb_srq_entry *vb_peer_srq(struct vb_peer *peer, uint32_t number);
/* The last rkey that was used, and its entry. Valid while the peer is mapped. */
struct vb_key_cache {
	uint32_t rkey;
	uint32_t word; /* VB_KEY_AS_RKEY bits of the entry while the key is good */
	const struct vb_key_entry *entry;
};

/* The entry that a key opens, as an rkey or as an lkey; or NULL. */
const struct vb_key_entry *vb_peer_key(struct vb_peer *peer, uint32_t key, bool as_rkey);
/* The entry that a key opened last, before it was freed, and the time of that; or NULL. */
const struct vb_key_entry *vb_peer_key_gone(struct vb_peer *peer, uint32_t key, bool as_rkey,
					    uint64_t *ended_ns);
/* The lkey lets the peer write these bytes of its own memory. addr is an address of the peer. */
bool vb_peer_key_covers(struct vb_peer *peer, uint32_t pd, const struct ibv_sge *sge);
/* The word by which senders invalidate a type 2 window; NULL: there is none. */
_Atomic uint32_t *vb_peer_key_invalid(struct vb_peer *peer, const struct vb_key_entry *entry);

static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word of the C library");

/* The kernel marked the mutex: its holder, the service thread, has ended. */
static inline bool vb_life_over(const pthread_mutex_t *life)
{
	const _Atomic uint32_t *word = (const void *)life;
	uint32_t value = atomic_load_explicit(word, memory_order_acquire);

	return !value || value & FUTEX_OWNER_DIED;
}

/* Both peers are the same process. Two processes that attach to each other at the same moment have
 * two sockets. */
static inline bool vb_peer_same(const struct vb_peer *a, const struct vb_peer *b)
{
	return a == b ||
	       (a && b && a->pid == b->pid && a->uid == b->uid && a->head_slot == b->head_slot);
}

static inline bool vb_peer_alive(const struct vb_peer *peer)
{
	return peer->self || !vb_life_over(&peer->head->life);
}

#endif
