/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues, private to the process. Four indexes chase each other around the ring:
 *
 *   retired <= scanned <= done <= next <= tail
 *
 * WQEs before tail are posted; the WQE at next is being executed. WQEs before done are completed,
 * and wait for the poller; the poller has seen those before scanned. Entries before retired are
 * free for posts again: only a polled completion retires WQEs, as on a NIC.
 */
#ifndef VB_NIC_SQ_H
#define VB_NIC_SQ_H

#include "nic/ah.h"
#include "nic/mw.h"
#include "nic/pd.h"
#include "nic/wr_opcode.h"

enum vb_internal { VB_INTERNAL_NOT, VB_INTERNAL_READ, VB_INTERNAL_FIN }; /* rendezvous: tm.h */

enum vb_sq_hold {
	VB_SQ_FLOWS,
	VB_SQ_STUCK, /* the CQ overran, nothing completes any more */
	VB_SQ_LATE,  /* the adversary: the WQE at next completes some time after its execution */
};

struct vb_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t operand[2]; /* compare_add and swap; FLUSH: length, FETH */
	struct vb_ah *ah;    /* UD; referenced */
	uint32_t rkey;
	uint32_t remote_qpn, remote_qkey; /* UD */
	uint32_t srqn;                    /* XRC: number of the target SRQ */
	uint32_t imm;                     /* immediate, or the rkey that is invalidated */
	uint32_t length;                  /* of all elements */
	uint32_t psn, psn_count; /* wire: set when its first packet is sent; count 0: no packets */
	uint8_t opcode;          /* enum ibv_wr_opcode */
	uint8_t status;          /* enum ibv_wc_status; executor, before done */
	uint8_t reason;          /* enum vb_reason, behind a bad status */
	uint8_t sge_count;
	uint8_t internal; /* enum vb_internal: posted by the QP itself, makes no completion */
	bool signaled, solicited, inlined;
	bool foreign_ah; /* UD: the AH belonged to another PD at the post */
	bool checksum;   /* raw packet: the path fills in checksums */
	bool fenced;     /* wire only: on one host a READ is finished before the next WQE begins */
	union {
		struct ibv_sge sge[1];
		uint8_t bytes[16]; /* inlined payload */
		struct vb_mw_bind bind;
	};
};

/* A datagram that has completed and is not sent yet (path/local/aside.c). */
struct vb_aside {
	struct vb_aside *next;
	uint64_t until_ns; /* the target has answered by then, or never will */
	uint64_t late_ns;  /* no receive was posted: waits for one until then; 0: not yet */
	struct vb_ah ah;   /* a copy: only av is in use */
	struct vb_wqe wqe; /* last: its payload follows */
};

/* The executor holds the token. While no thread holds it, path/local/fast_send.c may do the
 * executor's work under lock. */
struct vb_sq {
	struct vb_spin lock;       /* tail, executing */
	bool executing;            /* a thread, or the wire, holds the token */
	_Atomic uint32_t internal; /* count of internal WQEs from retired to tail */
	uint32_t tail;
	uint8_t *slots;
	uint64_t *stamps;  /* of each completion if the CQ asks, else 0; memory behind the slots */
	uint64_t receives; /* executor: count of receives completed at its last look (cq.h) */
	struct vb_pd *pd;  /* its allocator made the memory; NULL: none */
	uint32_t depth, mask, stride;
	uint32_t sge_max, inline_max;
	struct vb_mr_cache mr_cache;  /* executor */
	uint8_t hold;                 /* executor: enum vb_sq_hold */
	_Atomic uint32_t aside_count; /* executor; a thread that ends the queue reads it */
	struct vb_aside *aside;       /* executor: list, the oldest first */
	uint32_t next;                /* executor */
	_Atomic uint32_t offset;      /* executor: bytes of the WQE at next that are transferred */
	/* Executor: bytes of completed work requests, to the target and from it; never reset. */
	_Atomic uint64_t bytes_out, bytes_read;
	struct {                        /* executor, while captured (path/local/capture.c); ... */
		uint32_t psn, messages; /* ... counted since RESET, up to the WQE at index */
		uint32_t index;
	} captured;
	/* Executor; pairs with the load of the poller. An index, as wide as the word of a cell:
	 * pollers watch both alike. */
	_Alignas(64) _Atomic uint64_t done;
	_Alignas(64) uint32_t scanned; /* poller, under the CQ's poll lock */
	_Atomic uint32_t retired;      /* poller; pairs with the load of the poster */
};

int vb_sq_init(struct vb_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_max);
void vb_sq_fini(struct vb_sq *sq);
/* Forgets all posted WQEs. No thread may execute or poll meanwhile. */
void vb_sq_reset(struct vb_sq *sq);
/* By the executor: removes an entry of the list and frees it. */
void vb_sq_drop_aside(struct vb_sq *sq, struct vb_aside *aside);

static inline struct vb_wqe *vb_sq_wqe(const struct vb_sq *sq, uint32_t index)
{
	return (void *)(sq->slots + (size_t)(index & sq->mask) * sq->stride);
}

static inline bool vb_sq_has_aside(const struct vb_sq *sq)
{
	return __builtin_expect(atomic_load_explicit(&sq->aside_count, memory_order_relaxed), 0);
}

/* Counts the bytes of a completed work request. Only the executor writes, so no atomic addition. */
__attribute__((always_inline)) static inline void vb_sq_count(_Atomic uint64_t *bytes,
							      uint32_t length)
{
	atomic_store_explicit(bytes, atomic_load_explicit(bytes, memory_order_relaxed) + length,
			      memory_order_relaxed);
}

static inline bool vb_sq_full(const struct vb_sq *sq)
{
	return sq->tail - atomic_load_explicit(&sq->retired, memory_order_acquire) >=
	       sq->depth + atomic_load_explicit(&sq->internal, memory_order_relaxed);
}

/* The poller has just scanned an internal WQE: retires it, and the unsignalled ones before it. */
static inline void vb_sq_retire_internal(struct vb_sq *sq)
{
	atomic_store_explicit(&sq->retired, sq->scanned, memory_order_release);
	atomic_fetch_sub(&sq->internal, 1);
}

#endif
