/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies in a process's segment, the only memory that it shares with peers.
 *
 * The segment has two parts, each a file of its own. The *shown* part is written by its owner; the
 * kernel lets peers read it and no more. The *lent* part is written by peers as well.
 *
 * Rules: offsets, never pointers. Each line says who writes it: "owner" is the process whose
 * segment it is, "sender" an attached peer (or the owner itself, for peers within the process).
 * Addresses, keys, rights, lengths and offsets are shown, never lent. The owner checks whatever it
 * reads from the lent part, as it checks a packet: any attached process may have written it.
 * A dying sender can leave behind: a cell in state TAKEN (the owner re-posts it), a counted but
 * unpublished completion (recounted), a set attention or ready bit (harmless), the atomics lock
 * (the owner takes it back). It cannot leave a receive half completed: one compare-and-swap of the
 * cell commits.
 */
#ifndef VB_NIC_LAYOUT_H
#define VB_NIC_LAYOUT_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "nic/limits.h"

/* Another process may change a field at any moment: a value that was checked is not read again. */
#define VB_READ_ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

enum {
	VB_LAYOUT_VERSION = 7,
	VB_LINE = 64,
	VB_EXTENTS = 64,   /* of both parts */
	VB_QP_PAGE = 64,   /* QP entries per page */
	VB_OWN_SLOTS = 16, /* slots that one process can hold */
	VB_QP_PAGES = VB_OWN_SLOTS * VB_QP_PER_SLOT / VB_QP_PAGE,
	VB_SRQ_PAGE = 64, /* XRC SRQ entries per page */
	VB_SRQ_PAGES = VB_XRC_SRQ_MAX / VB_SRQ_PAGE,
	VB_KEY_PAGE = 256, /* key entries per page */
	VB_KEY_PAGES = VB_KEY_MAX / VB_KEY_PAGE,
	VB_KEY_ALIASES = 128, /* keys of imported regions, one or two each */
	VB_HAZARD_PAGE = 64,  /* hazard cells per page */
	VB_HAZARD_PAGES = 64,
	VB_INLINE_CELL = 24,     /* payload bytes that ride in a cell */
	VB_SPILL = 256,          /* and in the spill area behind it */
	VB_INLINE_STAMPED = 16,  /* of them where the cell carries a stamp */
	VB_READY_PAGE = 64 * 64, /* ready bits per page */
	VB_READY_DIRECT = 2,     /* words of a page without a bit in the summary */
	VB_READY_PAGES = 34,     /* both queues of every QP, and XRC SRQs */
	VB_ATTENTION_WORDS = 64, /* one bit per QP index */
};

/* An offset with this bit is one into the lent part. */
#define VB_LENT (1ull << 62)

/* --- receive queues --- */

enum vb_cell_state {
	VB_CELL_FREE,
	VB_CELL_POSTED,
	VB_CELL_TAKEN, /* many senders: by the claimant */
	VB_CELL_DONE,
	VB_CELL_FLUSHED,
	VB_CELL_RETURNED, /* taken and not used: the owner posts it anew, at the end */
};
enum { /* flags of a receive; in a cell they are hints, for messages that ride */
       VB_CELL_KEYS_OK = 1, /* every lkey of the receive was valid and still is */
       VB_CELL_PLACE = 2,   /* memory that may not be there: the sender must place the bytes */
};

/* The word of a cell: index 32 | claimant 16 | flags 8 | state 8. */
static inline uint64_t vb_cell_word(uint32_t index, uint16_t claimant, uint8_t flags,
				    enum vb_cell_state state)
{
	return (uint64_t)index << 32 | (uint64_t)claimant << 16 | (uint64_t)flags << 8 | state;
}

static inline uint32_t vb_cell_index(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static inline uint16_t vb_cell_claimant(uint64_t word)
{
	return (uint16_t)(word >> 16);
}

static inline uint8_t vb_cell_flags(uint64_t word)
{
	return (uint8_t)(word >> 8);
}

static inline enum vb_cell_state vb_cell_state(uint64_t word)
{
	return (enum vb_cell_state)(word & 0xff);
}

enum vb_cell_where { VB_PAYLOAD_PLACED, VB_PAYLOAD_INLINE, VB_PAYLOAD_SPILL };

/* Lent. One posted receive and, once it is DONE, its completion: a single cache line. */
struct vb_cell {
	_Atomic uint64_t word;  /* owner posts and flushes; sender takes and completes */
	uint32_t posted_length; /* owner, before POSTED: room for a message; a hint */
	uint32_t byte_length;   /* from here on: sender, before DONE */
	uint32_t imm;           /* network order, as in the work request; raw: the flow's tag */
	uint32_t src_qpn;
	uint32_t qpn;   /* which QP of the owner: a shared queue serves many; with TAKEN */
	uint8_t opcode; /* enum ibv_wc_opcode, less IBV_WC_RECV */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t wc_flags;
	uint8_t where;  /* enum vb_cell_where */
	uint8_t reason; /* enum vb_reason, behind a bad status */
	uint8_t sl;
	uint16_t slid;   /* raw: the VLAN tag that was cut out */
	uint8_t stamped; /* stamp is set, and payload has VB_INLINE_STAMPED bytes */
	uint8_t pad0[3];
	union {
		uint8_t payload[VB_INLINE_CELL];
		struct {
			uint8_t payload_stamped[VB_INLINE_STAMPED];
			uint64_t stamp; /* number or time of the completion, as the CQ asks */
		};
	};
};
static_assert(offsetof(struct vb_cell, stamp) == 56, "behind what rides");
static_assert(sizeof(struct vb_cell) == VB_LINE, "a receive and its completion are one line");

/* Shown. Where the bytes of a receive go, for senders: written before the cell is POSTED. */
struct vb_recv_sges {
	uint32_t count;
	uint32_t index;         /* of the receive that is or was here */
	uint32_t length;        /* room for a message */
	_Atomic uint32_t flags; /* VB_CELL_KEYS_OK; a deregistration takes it back */
	struct ibv_sge sge[];
};
static_assert(sizeof(struct vb_recv_sges) == sizeof(struct ibv_sge),
	      "lists end at a multiple of 16");

struct vb_rq_shared { /* shown */
	/* owner, once */
	uint64_t cells; /* offsets */
	uint64_t spill;
	uint64_t sges;
	uint64_t lent;
	uint32_t mask; /* cells - 1 */
	uint32_t sges_stride;
	uint32_t many;            /* several senders: take a cell before completing it */
	_Atomic uint32_t version; /* odd: the ring is being replaced, look again later */
	uint32_t pd; /* that the keys of its receives must belong to; an SRQ has one of its own */
	uint8_t pad0[12];
	/* owner, each post; only where there are many senders */
	_Alignas(VB_LINE) _Atomic uint32_t tail;
};
static_assert(sizeof(struct vb_rq_shared) == 2 * VB_LINE, "");

struct vb_rq_lent {
	/* sender: index from which a POSTED cell may be found; a hint */
	_Atomic uint32_t head;
	_Atomic uint32_t limit_reached;
	_Atomic uint32_t returned; /* there are RETURNED cells */
	/* sender waits for a receive to be posted; the owner takes it back and rings */
	_Alignas(VB_LINE) _Atomic uint32_t waiting;
	_Atomic uint32_t
		limit; /* SRQ limit that is armed; 0: none. The sender that trips it clears it */
};
static_assert(sizeof(struct vb_rq_lent) == 2 * VB_LINE, "");

/* --- completion queues --- */

enum vb_cq_armed { VB_CQ_UNARMED, VB_CQ_ARMED_SOLICITED, VB_CQ_ARMED_ANY };

enum {
	VB_CQ_COUNTS = 1 << 0,  /* attached depths exceed cqe: be counted */
	VB_CQ_STAMPS = 1 << 1,  /* carry its time; set once */
	VB_CQ_NUMBERS = 1 << 2, /* carry its number; set once, not with STAMPS */
	VB_CQ_ORDERED = VB_CQ_STAMPS | VB_CQ_NUMBERS,
	VB_CQ_PAIR = 1 << 3, /* the two queues of one QP, and nothing else: its sends tell (cq.h) */
};

/*
 * Ready bits: a word's bit in the summary is set after the bits in it, and taken before them. The
 * first words have none: they are looked at in any case.
 */
struct vb_ready_page { /* lent: sender sets, owner takes */
	_Alignas(VB_LINE) _Atomic uint64_t words[VB_READY_PAGE / 64];
	_Alignas(
		VB_LINE) _Atomic uint64_t summary; /* bit per word, but the first VB_READY_DIRECT */
};
static_assert(sizeof(struct vb_ready_page) == 9 * VB_LINE, "");

struct vb_cq_shared {               /* lent */
	_Atomic uint32_t armed;     /* owner arms; who fires takes it back */
	_Atomic uint32_t fired;     /* events that senders left for the owner to signal */
	_Atomic uint32_t use_ready; /* owner: many queues, set ready bits */
	_Atomic uint32_t asks;      /* owner: what each completion must do besides; mostly 0 */
	_Atomic uint32_t cqe;       /* owner */
	_Alignas(VB_LINE) _Atomic uint32_t count; /* completions not polled; only if it COUNTS */
	_Atomic uint32_t overrun;                 /* whoever found it full */
	/* whoever completes: the last number that was given out; only if it asks for NUMBERS */
	_Alignas(VB_LINE) _Atomic uint64_t number;
	_Alignas(VB_LINE) _Atomic uint64_t
		ready_pages_set; /* bit per page with a summary, but the first */
	/* owner: offsets of struct vb_ready_page; 0: none of its bits is in use */
	_Alignas(VB_LINE) _Atomic uint64_t ready_pages[VB_READY_PAGES];
};
static_assert(sizeof(struct vb_cq_shared) == 9 * VB_LINE, "");

/* --- XRC --- */

/* A domain, the same in every process of the host that opened it with the same file. */
struct vb_xrcd_id {
	uint64_t word[2];
};

/* Shown. What peers see of an XRC SRQ: receives that messages name by number. */
struct vb_srq_entry {
	/* owner */
	_Atomic uint64_t gate; /* 0: no SRQ here. Never used twice by a process */
	uint64_t rq;           /* offsets */
	uint64_t cq;
	struct vb_xrcd_id xrcd;
	uint32_t number;
	uint32_t pd;
	uint32_t ready_bit;
	uint8_t pad0[12];
};
static_assert(sizeof(struct vb_srq_entry) == VB_LINE, "");

/* --- queue pairs --- */

/*
 * The gate: epoch 40 | P_Key 16 | state 8. An epoch is never used twice by a process. The P_Key is
 * there because a sender compares the whole gate: it notices another key without looking for it.
 */
static inline uint64_t vb_gate(uint64_t epoch, uint16_t pkey, enum ibv_qp_state state)
{
	return epoch << 24 | (uint64_t)pkey << 8 | (uint64_t)state;
}

static inline enum ibv_qp_state vb_gate_state(uint64_t gate)
{
	return (enum ibv_qp_state)(gate & 0xff);
}

static inline uint64_t vb_gate_epoch(uint64_t gate)
{
	return gate >> 24;
}

static inline uint16_t vb_gate_pkey(uint64_t gate)
{
	return (uint16_t)(gate >> 8);
}

static inline bool vb_gate_open(uint64_t gate)
{
	enum ibv_qp_state state = vb_gate_state(gate);

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

/* What senders ask of the owner of a QP: low 8 bits a reason, then flags. */
enum {
	VB_QP_ATTN_FAIL = 1 << 8,     /* go to ERR for the reason */
	VB_QP_ATTN_COMM_EST = 1 << 9, /* first message arrived in RTR */
	VB_QP_ATTN_QUIET = 1 << 10,   /* fail without an event: a receive completion tells it */
	VB_QP_ATTN_MIGRATE = 1 << 11, /* the sender's mig_state has changed */
};

enum {                           /* why the owner of a QP has to look at each message itself */
       VB_BY_PACKETS_TAGS = 1,   /* it matches tags */
       VB_BY_PACKETS_MEMORY = 2, /* it has memory that the kernel copies for nobody (dmabuf.h) */
       VB_BY_PACKETS_DENIED = 4, /* it may not touch its peer's memory any more; until RESET */
};

struct vb_qp_entry {           /* shown */
	_Atomic uint64_t gate; /* 0: no QP here. The fields below are written before it opens */
	uint64_t rq;           /* offset of the receive queue, its own or an SRQ */
	uint64_t recv_cq;
	uint32_t qpn;
	uint32_t dest_qpn;
	uint32_t rq_psn;
	uint32_t pd;
	_Atomic uint32_t qkey;
	_Atomic uint32_t access;
	uint32_t ready_bit;
	uint8_t type; /* enum ibv_qp_type */
	uint8_t path_mtu;
	_Atomic uint8_t max_dest_rd_atomic;
	_Atomic uint8_t min_rnr_timer;
	uint8_t has_srq;
	_Atomic uint8_t mig_state;  /* enum ibv_mig_state */
	_Atomic uint8_t by_packets; /* also from this host; VB_BY_PACKETS_*, mostly 0 */
	_Alignas(VB_LINE) union ibv_gid sgid;
	union ibv_gid dgid;
	struct vb_xrcd_id xrcd; /* XRC_RECV: whose SRQs it serves */
	uint64_t lent;          /* offset of what senders write */
};
static_assert(sizeof(struct vb_qp_entry) == 2 * VB_LINE, "");

struct vb_qp_lent {              /* sender */
	_Atomic uint64_t binder; /* epoch of the QP that is connected to us */
	_Atomic uint64_t
		closed; /* a gate that a sender has closed: its owner has still to learn of it */
	_Atomic uint32_t attention;
	_Atomic uint32_t dropped;            /* messages that arrived and could not be taken */
	_Atomic uint32_t waiting;            /* someone retries until the gate opens: ring */
	_Atomic uint32_t bad_pkey, bad_qkey; /* messages with another key than the QP's */
	uint8_t pad0[28];
};
static_assert(sizeof(struct vb_qp_lent) == VB_LINE, "");

/* A sender closed it, in whichever state it was open. */
static inline bool vb_gate_is_closed(const struct vb_qp_lent *lent, uint64_t gate)
{
	uint64_t closed = atomic_load_explicit(&lent->closed, memory_order_acquire);

	return closed && vb_gate_open(gate) && vb_gate_epoch(closed) == vb_gate_epoch(gate);
}

/* --- keys --- */

/* The word of a key entry: lkey tag 8 | rkey tag 8 | valid 1 | equal 1; 0: free. */
enum {
	VB_KEY_VALID = 1 << 16,
	VB_KEY_EQUAL = 1 << 17, /* the lkey is the rkey as well: there is no other */
	VB_KEY_AS_RKEY =
		VB_KEY_VALID | VB_KEY_EQUAL | 0xff00, /* what concerns a user of its rkey */
};

enum vb_key_kind { VB_KEY_REGION, VB_KEY_WINDOW_1, VB_KEY_WINDOW_2 };

struct vb_key_entry { /* shown */
	_Atomic uint32_t word;
	uint32_t pd;
	uint32_t access;
	uint32_t tags; /* last ones given to this entry */
	uint64_t iova;
	uint64_t length;
	uint64_t addr;  /* of iova, in the owner's address space */
	uint32_t kind;  /* enum vb_key_kind */
	uint32_t qpn;   /* type 2 window: the only QP through which it may be used */
	uint64_t lent;  /* offset of the page's struct vb_key_lent ... */
	uint32_t place; /* ... and which of its words is this entry's */
	uint8_t pad0[4];
};
static_assert(sizeof(struct vb_key_entry) == VB_LINE, "");

/* Type 2 windows that senders took back (SEND_WITH_INV): the word that is valid no more; 0: none. */
struct vb_key_lent {
	_Atomic uint32_t invalid[VB_KEY_PAGE];
};

/* An imported region has the keys of the original: numbers that another NIC made. */
struct vb_key_alias {         /* shown */
	_Atomic uint32_t key; /* 0: free */
	uint32_t index;       /* of its entry; written before */
	uint32_t rkey_only;   /* it is no lkey; written before */
};

/* --- hazards --- */

enum {                       /* how a thread copies: flags of vb_hazard_cell.copy */
       VB_COPY_NOW = 1,      /* between begin and end */
       VB_COPY_ONE_CALL = 2, /* of the kernel; when that has returned nothing follows */
};

/*
 * Shown. What a thread is touching right now. The owner is the thread that holds the cell. Of a thread
 * that is stopped or dies inside, everything stays as it was.
 */
struct vb_hazard_cell {
	/* sequence 24 | QP number there 24, 0: any | slot of the process 16, 0: none */
	_Alignas(VB_LINE) _Atomic uint64_t word;
	_Atomic uint64_t copy;     /* sequence 62 | VB_COPY_*; the range is written before */
	_Atomic uint64_t from, to; /* memory of the application there that the copy reaches */
	_Atomic uint32_t tid;
};
static_assert(sizeof(struct vb_hazard_cell) == VB_LINE, "");

/* --- the heads of a segment --- */

enum { /* process-wide attention: what to look at */
       VB_ATTN_QP = 1 << 0,
       VB_ATTN_CQ = 1 << 1,
       VB_ATTN_SRQ = 1 << 2,
       VB_ATTN_RETRY = 1 << 3, /* a receive was posted, a QP became ready: retry what pends */
       VB_ATTN_ENDED = 1 << 4, /* a peer ended: look for what it did not say any more */
};

struct vb_extent { /* of either part */
	uint64_t offset, size;
};

struct vb_segment_head { /* shown */
	/* owner, once */
	uint64_t magic;
	uint32_t layout_version;
	uint32_t slot; /* the first of the process; names it in hazard words */
	uint64_t nonce;
	struct vb_permutation keys;
	uint8_t pad0[16];
	/* The service thread holds it for life; the kernel marks it when the process ends or execs. */
	_Alignas(VB_LINE) pthread_mutex_t life;
	/* Moves after a QP, a key or a receive was taken away. Beside the mutex, which every sender
	 * reads. */
	_Atomic uint64_t revocations;
	/* owner, at growth */
	_Alignas(VB_LINE) _Atomic uint32_t extent_count;
	_Atomic uint32_t hazard_count; /* cells ever used */
	_Atomic uint32_t
		own_slots[VB_OWN_SLOTS]; /* in the page that every process touches anyway */
	struct vb_extent extents[VB_EXTENTS];
	_Atomic uint64_t hazard_pages[VB_HAZARD_PAGES];
	_Atomic uint64_t qp_pages[VB_QP_PAGES];
	_Atomic uint64_t key_pages[VB_KEY_PAGES];
	_Atomic uint64_t srq_pages[VB_SRQ_PAGES];
	_Atomic uint32_t alias_count; /* that were ever used */
	struct vb_key_alias aliases[VB_KEY_ALIASES];
};

struct vb_lent_head { /* the first thing of the lent part */
	/* sender sets, owner clears */
	_Alignas(VB_LINE) _Atomic uint32_t attention;
	_Alignas(VB_LINE) _Atomic uint64_t qp_attention[VB_ATTENTION_WORDS];
	/* Serializes RDMA atomics to this process: 1 + claimant of the holder; 0: free. Never waited
	 * for; the owner takes it back from a process that has ended. */
	_Alignas(VB_LINE) _Atomic uint32_t atomics;
};

#define VB_SEGMENT_MAGIC 0x31616e6562726576ull /* "verbena1" */

#endif
