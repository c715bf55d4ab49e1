/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues, private to the process. Four indexes chase each other around the ring:
 *
 *   retired <= scanned <= done <= next <= tail
 *
 * tail: posted. next: being executed. done: completed, for the poller to look at. scanned: looked
 * at. retired: free for posting again, which only a polled completion brings about, as on a NIC.
 */
#ifndef VB_NIC_SQ_H
#define VB_NIC_SQ_H

#include "nic/ah.h"
#include "nic/mw.h"
#include "nic/pd.h"
#include "nic/wr_opcode.h"

enum vb_internal { VB_INTERNAL_NOT, VB_INTERNAL_READ, VB_INTERNAL_FIN }; /* rendezvous: tm.h */

struct vb_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t operand[2]; /* compare_add and swap */
	struct vb_ah *ah;    /* UD; referenced */
	uint32_t rkey;
	uint32_t remote_qpn, remote_qkey; /* UD */
	uint32_t srqn;                    /* XRC: the SRQ that it is for */
	uint32_t imm;                     /* immediate, or the rkey that is invalidated */
	uint32_t length;                  /* of all elements */
	uint32_t psn, psn_count; /* wire: given when its first packet is sent; 0: it stays here */
	uint8_t opcode;          /* enum ibv_wr_opcode */
	uint8_t status;          /* enum ibv_wc_status; executor, before done */
	uint8_t reason;          /* enum vb_reason, behind a bad status */
	uint8_t sge_count;
	uint8_t internal; /* enum vb_internal: posted by the QP itself, completes nowhere */
	bool signaled, solicited, inlined;
	bool foreign_ah; /* UD: it was of another PD when it was posted */
	bool checksum;   /* raw packet: to be filled in */
	bool fenced;     /* wire; on one host READs are over when they end */
	union {
		struct ibv_sge sge[1];
		uint8_t bytes[16]; /* inlined payload */
		struct vb_mw_bind bind;
	};
};

/* A datagram that is complete and was not sent yet (path/local/aside.c). */
struct vb_aside {
	struct vb_aside *next;
	uint64_t until_ns; /* its target has answered by then, or never will */
	uint64_t late_ns;  /* it found no receive, and waits for one until then; 0: not yet */
	struct vb_ah ah;   /* a copy: only av is in use */
	struct vb_wqe wqe; /* last: its payload follows */
};

struct vb_sq {
	struct vb_spin lock;       /* tail, executing */
	bool executing;            /* someone holds the executor's token */
	_Atomic uint32_t internal; /* entries from retired to tail that are not the application's */
	uint32_t tail;
	uint8_t *slots;
	uint64_t *stamps;  /* of each completion, if its CQ asks; else 0. Behind the slots */
	uint64_t receives; /* executor: that had completed when it last looked (cq.h) */
	struct vb_pd *pd;  /* whose allocator the memory is from; NULL: none */
	uint32_t depth, mask, stride;
	uint32_t sge_max, inline_max;
	struct vb_mr_cache mr_cache;  /* executor, or who sends without one under lock */
	bool stuck;                   /* executor: its CQ overran, nothing completes any more */
	_Atomic uint32_t aside_count; /* executor; whoever ends the queue looks at it */
	struct vb_aside *aside;       /* executor: the oldest first */
	uint32_t next;                /* executor */
	_Atomic uint32_t offset;      /* executor: bytes of the WQE at next that are transferred */
	_Alignas(64) _Atomic uint64_t
		done; /* executor; pairs with the load of the poller. An index, as wide
					     * as the word of a cell: pollers watch both alike */
	_Alignas(64) uint32_t scanned; /* poller, under the CQ's poll lock */
	_Atomic uint32_t retired;      /* poller; pairs with the load of the poster */
};

int vb_sq_init(struct vb_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_max);
void vb_sq_fini(struct vb_sq *sq);
/* Forgets everything posted. Nobody executes or polls. */
void vb_sq_reset(struct vb_sq *sq);
/* By the executor: one of those in the list. */
void vb_sq_drop_aside(struct vb_sq *sq, struct vb_aside *aside);

static inline struct vb_wqe *vb_sq_wqe(const struct vb_sq *sq, uint32_t index)
{
	return (void *)(sq->slots + (size_t)(index & sq->mask) * sq->stride);
}

static inline bool vb_sq_has_aside(const struct vb_sq *sq)
{
	return __builtin_expect(atomic_load_explicit(&sq->aside_count, memory_order_relaxed), 0);
}

static inline bool vb_sq_full(const struct vb_sq *sq)
{
	return sq->tail - atomic_load_explicit(&sq->retired, memory_order_acquire) >=
	       sq->depth + atomic_load_explicit(&sq->internal, memory_order_relaxed);
}

/* Passed by the poller, it was the last thing before scanned. What the application left unsignalled
 * before it is free as well. */
static inline void vb_sq_retire_internal(struct vb_sq *sq)
{
	atomic_store_explicit(&sq->retired, sq->scanned, memory_order_release);
	atomic_fetch_sub(&sq->internal, 1);
}

#endif
