/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer: another process of this host (or this process itself) whose segment is mapped here
 * and whose memory the kernel lets us copy from and to.
 */
#ifndef VB_SHM_PEER_H
#define VB_SHM_PEER_H

#include <linux/futex.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/spin.h"
#include "shm/layout.h"

enum vb_peer_state {
	VB_PEER_CONNECTING, /* hello sent, verdict open */
	VB_PEER_READY,      /* both sides read the other's nonce */
	VB_PEER_NO_PATH,    /* alive, but one may not touch the other's memory */
	VB_PEER_GONE,       /* ended, or its image was replaced */
};

struct vb_segment;

struct vb_peer {
	struct vb_list node; /* in nic->peers, under nic->peers_lock */
	_Atomic int refs;    /* the list, every bound QP, every grace period */
	_Atomic int state;   /* enum vb_peer_state */
	_Atomic bool denied; /* READY, but the kernel does not let us touch its memory any more */
	bool self;
	bool accepted;              /* it connected to us, not we to it */
	bool may_touch;             /* we read its nonce; not accepted: and it read ours */
	_Atomic uint32_t slot;      /* a slot of it: the one we connected to, else its first */
	_Atomic uint32_t head_slot; /* its first slot, which names it in hazard words; 0: unknown */
	uint16_t id_there;          /* how its segment names us as a claimant */
	uint16_t id_here;           /* how our segment names it */
	pid_t tid;                  /* its service thread: the target of process_vm_* */
	uint64_t nonce_at;          /* where its nonce lies, in its memory */
	pid_t pid; /* of its socket, as the kernel says; 0: another pid namespace */
	uid_t uid;
	bool stranger;     /* another user's, which may mean harm */
	uint64_t asked_ns; /* when the attach began */
	int socket, memfd, lent_memfd, doorbell;
	/* NULL until it is mapped, while others find the peer in the list already: whoever sees it
	 * sees maps as well. One with NO_PATH never is. */
	struct vb_segment_head *_Atomic head;
	struct vb_lent_head *lent;    /* of its segment; before head */
	const struct vb_segment *own; /* self only */
	struct vb_spin map_lock;
	_Atomic uint32_t map_count; /* extents mapped here */
	struct {
		char *base;
		uint64_t offset, size;
	} maps[VB_EXTENTS];
	uint64_t stuck_ns; /* wire lock: it did not read, and gets no datagrams until then; or 0 */
};

enum { VB_PEER_ANSWER_NS = 1000000000 }; /* then an attach is taken for unanswered */

struct vb_peer *vb_peer_new(void);
void vb_peer_get(struct vb_peer *peer);
void vb_peer_put(struct vb_peer *peer);
/* Maps the heads of its segment, whose first slot is the one given; 0 or -errno (-EPROTO: not such a
 * segment of our layout). */
int vb_peer_map(struct vb_peer *peer, uint32_t slot);
/* size bytes of its segment, or NULL: what it names lies outside. */
void *vb_peer_at(struct vb_peer *peer, uint64_t offset, uint64_t size);
/* The same for what is to be written: only of the lent part, the other one would fault. */
void *vb_peer_lent_at(struct vb_peer *peer, uint64_t offset, uint64_t size);
/* Wakes its service thread. */
void vb_peer_ring(const struct vb_peer *peer);
/* Sets attention bits, then rings. */
void vb_peer_attend(const struct vb_peer *peer, uint32_t bits);
void vb_peer_attend_qp(struct vb_peer *peer, const struct vb_qp_entry *entry, uint32_t bits);

/* The entry of a QP number in the peer's segment, or NULL. */
struct vb_qp_entry *vb_peer_qp(struct vb_peer *peer, uint32_t qpn);
/* What senders write of a QP, or NULL. */
struct vb_qp_lent *vb_peer_qp_lent(struct vb_peer *peer, const struct vb_qp_entry *entry);
/* The entry of an XRC SRQ number, or NULL. */
struct vb_srq_entry *vb_peer_srq(struct vb_peer *peer, uint32_t number);
/* The key that was used last, and where it was found. Valid while the peer is mapped. */
struct vb_key_cache {
	uint32_t rkey;
	uint32_t word; /* VB_KEY_AS_RKEY of the entry's, as long as the key is good */
	const struct vb_key_entry *entry;
};

/* The entry that a key opens as an rkey, or as an lkey; or NULL. */
const struct vb_key_entry *vb_peer_key(struct vb_peer *peer, uint32_t key, bool as_rkey);
/* The key lets its owner write these bytes of its own, which have addresses of the process. */
bool vb_peer_key_covers(struct vb_peer *peer, uint32_t pd, const struct ibv_sge *sge);
/* Where senders take a type 2 window back that has this rkey; NULL: nowhere. */
_Atomic uint32_t *vb_peer_key_invalid(struct vb_peer *peer, const struct vb_key_entry *entry);

static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word of the C library");

/* The kernel marked it: its holder, the service thread, is no more. */
static inline bool vb_life_over(const pthread_mutex_t *life)
{
	const _Atomic uint32_t *word = (const void *)life;
	uint32_t value = atomic_load_explicit(word, memory_order_acquire);

	return !value || value & FUTEX_OWNER_DIED;
}

/* Two that attach to each other at the same moment have two sockets: are these of one process? */
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
