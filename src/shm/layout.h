/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment of a process: the only memory that the process shares with peers.
 *
 * "Owner" is the process whose segment it is. "Sender" is an attached peer, or the owner itself
 * when it sends to itself. The segment has two parts, each in a file of its own:
 *
 *   shown: owner writes, peers read          lent: owner and senders write
 *   +------------------------------------+   +--------------------------------------+
 *   | vb_segment_head: life, extents     |   | vb_lent_head: attention, atomics     |
 *   | vb_qp_entry: gate, rights          |-->| vb_qp_lent: binder, attention        |
 *   |   and vb_srq_entry, for XRC        |-->| vb_cq_shared, vb_ready_page, trail   |
 *   | vb_rq_shared: tail                 |-->| vb_rq_lent: hints; spill areas       |
 *   | vb_recv_sges: place of the bytes   |   | vb_cell: see below                   |
 *   | vb_key_entry: regions, windows     |-->| vb_key_lent: invalidated windows     |
 *   | vb_hazard_cell: copies of a thread |   |                                      |
 *   +------------------------------------+   +--------------------------------------+
 *
 *   vb_cell, 64 bytes: a posted receive, then its completion
 *   +-------+---------------+-------------------------+----------------------------+
 *   | word  | posted_length | byte_length ... stamped | payload, at its end: stamp |
 *   +-------+---------------+-------------------------+----------------------------+
 *     both    owner           sender                    sender
 *   word: POSTED by the owner, TAKEN (if there are many senders) and DONE by a sender
 *
 * Rules: offsets, never pointers. Each line names its writer. Addresses, keys, rights, lengths and
 * offsets are shown, never lent. The owner checks whatever it reads from the lent part, as it
 * checks a packet: any attached process may have written it.
 *
 * A dying sender can leave behind: a cell in state TAKEN (the owner posts it again), a counted but
 * unpublished completion (the owner counts again), a set attention or ready bit (harmless), the
 * lock of atomics (the owner frees it). A sender cannot leave a receive half completed: one
 * compare-and-swap of the cell commits.
 */
#ifndef VB_SHM_LAYOUT_H
#define VB_SHM_LAYOUT_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/random.h"

/* Another process may change a field at any moment: read it once, check it, and use that value. */
#define VB_READ_ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

enum {
	VB_LAYOUT_VERSION = 13,
	VB_LINE = 64,
	VB_EXTENTS = 64,   /* of both parts together */
	VB_QP_PAGE = 64,   /* QP entries per page */
	VB_OWN_SLOTS = 16, /* slots that one process can hold */
	VB_QP_PAGES = VB_OWN_SLOTS * VB_QP_PER_SLOT / VB_QP_PAGE,
	VB_SRQ_PAGE = 64, /* XRC SRQ entries per page */
	VB_SRQ_PAGES = VB_XRC_SRQ_MAX / VB_SRQ_PAGE,
	VB_KEY_PAGE = 256, /* key entries per page */
	VB_KEY_PAGES = VB_KEY_MAX / VB_KEY_PAGE,
	VB_KEY_ALIASES = 128, /* keys of imported regions, one or two each */
	VB_MAPS_MAX = 32,     /* mapped regions of a process */
	VB_HAZARD_PAGE = 64,  /* hazard cells per page */
	VB_HAZARD_PAGES = 64,
	VB_INLINE_CELL = 24,    /* payload bytes that ride in a cell */
	VB_SPILL = 256,         /* payload bytes that ride in the spill area of a cell */
	VB_INLINE_STAMPED = 16, /* payload bytes that ride in a cell with a stamp */
	VB_SHELF_PLACE = 8192,  /* payload bytes that ride in a place of a shelf */
	VB_SHELF_PLACES = 32,
	VB_READY_PAGE = 64 * 64, /* ready bits per page */
	VB_READY_DIRECT = 2,     /* words of a page that have no bit in the summary */
	VB_READY_PAGES = 34,     /* for both queues of every QP, and XRC SRQs */
	VB_TRAIL_MIN = 64,       /* entries of a CQ's trail */
	VB_TRAIL_MAX = 1 << 16,
	VB_ATTENTION_WORDS = 64, /* one bit per QP index */
};

/* An offset with this bit points into the lent part. */
#define VB_LENT (1ull << 62)

/* --- receive queues --- */

enum vb_cell_state {
	VB_CELL_FREE,
	VB_CELL_POSTED,
	VB_CELL_TAKEN, /* many senders: the claimant works on it */
	VB_CELL_DONE,
	VB_CELL_FLUSHED,
	VB_CELL_RETURNED, /* taken and not used: the owner posts the receive again, at the end */
};
enum { /* flags of a receive; in a cell they are hints, for messages that ride */
       VB_CELL_KEYS_OK = 1, /* every lkey of the receive was valid at the post and still is */
       VB_CELL_PLACE = 2,   /* the sender places the bytes: pages may be missing (on demand), or
			     * the program may look at them before it polls (nic/comp_cntr.h) */
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

enum vb_cell_where { VB_PAYLOAD_PLACED, VB_PAYLOAD_INLINE, VB_PAYLOAD_SPILL, VB_PAYLOAD_SHELF };

/* Lent. One posted receive and, once it is DONE, its completion: a single cache line. */
struct vb_cell {
	_Atomic uint64_t word;  /* owner posts and flushes; sender takes and completes */
	uint32_t posted_length; /* owner, before POSTED: room for a message; a hint */
	uint32_t byte_length;   /* sender, before DONE; so are all fields from here on */
	uint32_t imm;           /* network order, as in the work request; raw: the flow's tag */
	uint32_t src_qpn;
	uint32_t qpn;   /* the QP of the owner, since a shared queue serves many; with TAKEN */
	uint8_t opcode; /* enum ibv_wc_opcode, less IBV_WC_RECV */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t wc_flags;
	uint8_t where;  /* enum vb_cell_where */
	uint8_t reason; /* enum vb_reason: the cause of a bad status */
	uint8_t sl;
	uint16_t slid;   /* raw: the VLAN tag that was cut out */
	uint8_t stamped; /* stamp is set, and payload has no more than VB_INLINE_STAMPED bytes */
	uint8_t place;   /* 1 + the place in the shelf that the message has taken; 0: none */
	uint8_t pad0[2];
	union {
		uint8_t payload[VB_INLINE_CELL];
		struct {
			uint8_t payload_stamped[VB_INLINE_STAMPED];
			uint64_t stamp; /* number or time of the completion, as the CQ wants */
		};
	};
};
static_assert(offsetof(struct vb_cell, stamp) == 56, "behind what rides");
static_assert(sizeof(struct vb_cell) == VB_LINE, "a receive and its completion are one line");

/*
 * Shown. The place of a receive's bytes, for senders. The owner writes it before the cell is
 * POSTED.
 */
struct vb_recv_sges {
	uint32_t count;
	uint32_t index;         /* of the last receive that was posted here */
	uint32_t length;        /* room for a message */
	_Atomic uint32_t flags; /* VB_CELL_KEYS_OK; a deregistration clears it */
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
	uint32_t many;            /* several senders: each takes a cell before completing it */
	_Atomic uint32_t version; /* odd: the owner replaces the ring, look again later */
	uint32_t pd; /* PD that the keys of its receives must belong to; an SRQ has its own */
	uint8_t pad0[4];
	/* One sender: offset of places that the sender uses by turns, lent; 0: none. */
	_Atomic uint64_t shelf;
	/* owner, at each post; only if there are many senders */
	_Alignas(VB_LINE) _Atomic uint32_t tail;
	/* owner; one sender: count of messages that were in the shelf and were polled */
	_Atomic uint32_t shelf_left;
};
static_assert(sizeof(struct vb_rq_shared) == 2 * VB_LINE, "");

struct vb_rq_lent {
	/* sender: a POSTED cell, if there is one, has this index or a later one; a hint */
	_Atomic uint32_t head;
	_Atomic uint32_t limit_reached;
	_Atomic uint32_t returned; /* there are RETURNED cells */
	/* sender: it waits for a post. The owner clears it and rings */
	_Alignas(VB_LINE) _Atomic uint32_t waiting;
	/* the armed SRQ limit; 0: none. The sender that reaches the limit clears it */
	_Atomic uint32_t limit;
};
static_assert(sizeof(struct vb_rq_lent) == 2 * VB_LINE, "");

/* --- completion queues --- */

enum vb_cq_armed { VB_CQ_UNARMED, VB_CQ_ARMED_SOLICITED, VB_CQ_ARMED_ANY };

enum {
	VB_CQ_COUNTS = 1 << 0,  /* count it: the attached queues are deeper than cqe */
	VB_CQ_STAMPS = 1 << 1,  /* write its time into it; set once */
	VB_CQ_NUMBERS = 1 << 2, /* write its number into it; set once, not with STAMPS */
	VB_CQ_ORDERED = VB_CQ_STAMPS | VB_CQ_NUMBERS,
	/* The two queues of one QP are all: a send notes the receives before it (nic/cq.h). */
	VB_CQ_PAIR = 1 << 3,
};

/*
 * Ready bits. A sender sets the bit in a word first, and then the word's bit in the summary; the
 * owner takes them in the other order. The first words have no bit in the summary: the owner always
 * looks at them.
 */
struct vb_ready_page { /* lent: sender sets, owner takes */
	_Alignas(VB_LINE) _Atomic uint64_t words[VB_READY_PAGE / 64];
	/* one bit per word, except for the first VB_READY_DIRECT words */
	_Alignas(VB_LINE) _Atomic uint64_t summary;
};
static_assert(sizeof(struct vb_ready_page) == 9 * VB_LINE, "");

/*
 * The trail: for each number the queue whose completion has it. The completing thread writes the
 * entry after the completion is visible. An entry has 14 bits of its number, above those that
 * choose the place, and 1 + the bit of the queue.
 */
enum { VB_TRAIL_BIT_BITS = 18 };
static_assert(VB_READY_PAGES * VB_READY_PAGE < 1 << VB_TRAIL_BIT_BITS, "a bit fits");

static inline uint32_t vb_trail_entry(uint64_t number, uint32_t queue)
{
	return (uint32_t)(number / VB_TRAIL_MIN) << VB_TRAIL_BIT_BITS | queue;
}

/* Pairs with the load in cq_trail.c. */
static inline void vb_trail_mark(_Atomic uint32_t *trail, uint32_t mask, uint64_t number,
				 uint32_t bit)
{
	atomic_store_explicit(&trail[number & mask], vb_trail_entry(number, 1 + bit),
			      memory_order_release);
}

struct vb_cq_shared {                /* lent */
	_Atomic uint32_t armed;      /* owner arms; the thread that fires disarms */
	_Atomic uint32_t fired;      /* events of senders that the owner has still to signal */
	_Atomic uint32_t use_ready;  /* owner: many queues, senders set ready bits */
	_Atomic uint32_t asks;       /* owner: extra work of each completion, VB_CQ_*; mostly 0 */
	_Atomic uint32_t cqe;        /* owner */
	_Atomic uint32_t trail_mask; /* owner: entries of the trail, less 1; before trail */
	_Atomic uint64_t trail;      /* owner: its offset, while NUMBERS is asked; 0: none */
	_Atomic uint32_t caught_up;  /* owner: polls keep up with a stream of messages; a hint */
	_Alignas(VB_LINE) _Atomic uint32_t count; /* completions not polled; only with COUNTS */
	_Atomic uint32_t overrun;                 /* the thread that found the CQ full */
	/* completing threads: the last number given out; only with NUMBERS */
	_Alignas(VB_LINE) _Atomic uint64_t number;
	/* count of the numbers that no poll will meet; written after number, read before it */
	_Atomic uint64_t voids;
	/* one bit per page with a bit in its summary, except for the first page */
	_Alignas(VB_LINE) _Atomic uint64_t ready_pages_set;
	/* owner: offsets of struct vb_ready_page; 0: no bit of the page is in use */
	_Alignas(VB_LINE) _Atomic uint64_t ready_pages[VB_READY_PAGES];
};
static_assert(sizeof(struct vb_cq_shared) == 9 * VB_LINE, "");

/* --- XRC --- */

/* A domain: processes of the host that open it with the same file get the same id. */
struct vb_xrcd_id {
	uint64_t word[2];
};

/* Shown. An XRC SRQ, as peers see it. A message names it by its number. */
struct vb_srq_entry {
	/* owner */
	_Atomic uint64_t gate; /* 0: no SRQ here. A process uses each value once */
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
 * The gate: epoch 40 | P_Key 16 | state 8. A process uses each epoch once. A sender compares the
 * whole gate, so it notices another P_Key without a look at the key itself.
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

/* Requests of senders to the owner of a QP: low 8 bits a reason, then flags, and in the upper half
 * access bits that a refused request needed. */
enum {
	VB_QP_ATTN_FAIL = 1 << 8,     /* go to ERR for the reason */
	VB_QP_ATTN_COMM_EST = 1 << 9, /* the first message arrived in RTR */
	VB_QP_ATTN_QUIET = 1 << 10,   /* fail without an event: a receive completion says it */
	VB_QP_ATTN_MIGRATE = 1 << 11, /* the sender's mig_state has changed */
	VB_QP_ATTN_SHELF = 1 << 12,   /* many messages would ride in a shelf */
	VB_QP_ATTN_ACCESS_SHIFT = 16,
};

enum {                           /* reasons why a QP takes packets only */
       VB_BY_PACKETS_TAGS = 1,   /* its SRQ matches tags */
       VB_BY_PACKETS_MEMORY = 2, /* process_vm_* cannot copy some memory of the owner (dmabuf.h) */
       VB_BY_PACKETS_DENIED = 4, /* the owner lost the right to touch its peer; until RESET */
};

/* RDMA operations of peers that completion counters of the owner count (nic/comp_cntr.h). */
enum vb_served { VB_SERVED_READ, VB_SERVED_WRITE, VB_SERVED_OPS };
enum { VB_COUNTS_NUMBER = 1, VB_COUNTS_BYTES = 4 }; /* of vb_qp_entry.counts, << vb_served */

struct vb_qp_entry {           /* shown */
	_Atomic uint64_t gate; /* 0: no QP here. It opens after all fields below are written */
	uint64_t rq;           /* offset of the receive queue, its own or that of an SRQ */
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
	_Atomic uint8_t by_packets; /* VB_BY_PACKETS_*: senders of this host, too; mostly 0 */
	_Atomic uint8_t counts;     /* VB_COUNTS_*: what senders add to served; mostly 0 */
	_Alignas(VB_LINE) union ibv_gid sgid;
	union ibv_gid dgid;
	struct vb_xrcd_id xrcd; /* XRC_RECV: the domain of the SRQs that it serves */
	uint64_t lent;          /* offset of struct vb_qp_lent */
};
static_assert(sizeof(struct vb_qp_entry) == 2 * VB_LINE, "");

struct vb_qp_lent {                 /* sender */
	_Atomic uint64_t binder;    /* epoch of the sender's QP that is bound to this one */
	_Atomic uint64_t closed;    /* a gate that a sender closed; the owner has still to notice */
	_Atomic uint32_t attention; /* VB_QP_ATTN_* and a reason; the owner takes it */
	_Atomic uint32_t dropped;   /* messages that arrived and found no place */
	_Atomic uint32_t waiting;   /* a sender waits for the gate to open: the owner rings */
	_Atomic uint32_t bad_pkey, bad_qkey; /* messages with another key than the QP's */
	_Atomic uint32_t refused_key;        /* the rkey of the request that failed the QP */
	/* by enum vb_served: operations, or their bytes, as counts asks; and refused ones */
	_Atomic uint64_t served[VB_SERVED_OPS];
	_Atomic uint32_t served_errors[VB_SERVED_OPS];
};
static_assert(sizeof(struct vb_qp_lent) == VB_LINE, "");

/* A sender closed this gate, whatever its open state was. */
static inline bool vb_gate_is_closed(const struct vb_qp_lent *lent, uint64_t gate)
{
	uint64_t closed = atomic_load_explicit(&lent->closed, memory_order_acquire);

	return closed && vb_gate_open(gate) && vb_gate_epoch(closed) == vb_gate_epoch(gate);
}

/* --- keys --- */

/* The word of a key entry: lkey tag 8 | rkey tag 8 | valid 1 | equal 1; 0: free. */
enum {
	VB_KEY_VALID = 1 << 16,
	VB_KEY_EQUAL = 1 << 17, /* the lkey is also the rkey, the only one */
	/* the bits that matter to a user of the rkey */
	VB_KEY_AS_RKEY = VB_KEY_VALID | VB_KEY_EQUAL | 0xff00,
};

enum vb_key_kind { VB_KEY_REGION, VB_KEY_WINDOW_1, VB_KEY_WINDOW_2, VB_KEY_INDIRECT };

struct vb_key_entry { /* shown */
	_Atomic uint32_t word;
	uint32_t pd;
	uint32_t access;
	uint32_t tags; /* the last tags of this entry; the next key gets others */
	uint64_t iova;
	uint64_t length;
	/* The address of iova in the owner's address space; indirect: offset of the vb_pattern. */
	uint64_t addr;
	uint32_t kind; /* enum vb_key_kind */
	/* Type 2 window: the only QP that may use it; indirect: parts that the pattern can have. */
	uint32_t qpn;
	uint64_t lent;        /* offset of the page's struct vb_key_lent ... */
	uint32_t place;       /* ... and the index of this entry's words there */
	_Atomic uint32_t map; /* 1 + index in vb_segment_head.maps; 0: not mapped */
};
static_assert(sizeof(struct vb_key_entry) == VB_LINE, "");

/*
 * Shown. The memory behind an indirect key, whose entry grants no right by itself: rounds over a
 * list of parts. A part is at another address in each round. The owner changes it while version is
 * odd; a reader looks at version before and after.
 */
struct vb_pattern_part {
	uint64_t start; /* bytes of the round before it */
	uint64_t addr, bytes;
	uint64_t stride; /* from one round to the next */
};

struct vb_pattern { /* owner */
	_Atomic uint32_t version;
	uint32_t access; /* the rights of the key */
	uint64_t rounds, round_bytes;
	uint32_t count;
	uint32_t pad;
	struct vb_pattern_part parts[];
};
static_assert(sizeof(struct vb_pattern) == 32 && sizeof(struct vb_pattern_part) == 32, "");

struct vb_key_page { /* shown */
	struct vb_key_entry entries[VB_KEY_PAGE];
	/* Owner: the time at which the region of the last key was deregistered; for sentences. */
	_Atomic uint64_t ended_ns[VB_KEY_PAGE];
};
static_assert(sizeof(struct vb_key_page) == VB_KEY_PAGE * (VB_LINE + 8), "");

struct vb_key_lent {
	/* Type 2 windows that senders invalidated (SEND_WITH_INV): the void word; 0: none. */
	_Atomic uint32_t invalid[VB_KEY_PAGE];
	/* Time in ns that senders have spent in system calls for the region; a hint. */
	_Atomic uint32_t spent_ns[VB_KEY_PAGE];
};

/*
 * Shown. A mapped region: its whole pages lie in a file of their own, from the beginning on. A peer
 * that asks for the file proves that it can read the owner's memory: it tells the number at
 * proof_at. Fields change only while serial is 0 and no thread is inside (nic/map.h).
 */
struct vb_shown_map {            /* owner */
	_Atomic uint64_t serial; /* 0: none here. A process uses each value once */
	uint64_t start, length;  /* in the owner's address space */
	uint64_t proof_at;
};
static_assert(sizeof(struct vb_shown_map) == 32, "");

/* An imported region has the keys of the original: numbers that another NIC made. */
struct vb_key_alias {         /* shown */
	_Atomic uint32_t key; /* 0: free */
	uint32_t index;       /* of its entry; written before key */
	uint32_t rkey_only;   /* the key is no lkey; written before key */
};

/* --- hazards --- */

enum {                       /* the way a thread copies: flags of vb_hazard_cell.copy */
       VB_COPY_NOW = 1,      /* between begin and end */
       VB_COPY_ONE_CALL = 2, /* a single system call: when it has returned, nothing follows */
       VB_COPY_MAPPED = 4,   /* through a view: it reaches the file of a mapped region only */
       VB_COPY_FLAG_BITS = 3,
};

/*
 * Shown. The process, QP and memory that a thread touches right now. The thread that holds the cell
 * writes it. A thread that is stopped or dies inside leaves the cell as it was.
 */
struct vb_hazard_cell {
	/* sequence 24 | QP number there 24, 0: any | slot of the process 16, 0: none */
	_Alignas(VB_LINE) _Atomic uint64_t word;
	_Atomic uint64_t copy;     /* sequence 61 | VB_COPY_*; written after the range */
	_Atomic uint64_t from, to; /* range of application memory there that the copy reaches */
	_Atomic uint32_t tid;
};
static_assert(sizeof(struct vb_hazard_cell) == VB_LINE, "");

/* --- the heads of a segment --- */

enum { /* process-wide attention: objects that the owner has to look at */
       VB_ATTN_QP = 1 << 0,
       VB_ATTN_CQ = 1 << 1,
       VB_ATTN_SRQ = 1 << 2,
       VB_ATTN_RETRY = 1 << 3, /* a receive was posted, or a QP became ready: retry send queues */
       VB_ATTN_ENDED = 1 << 4, /* a peer ended, perhaps before it set attention: look for more */
       VB_ATTN_MAP = 1 << 5,   /* mapping the region of wanted_key would pay */
};

struct vb_extent { /* of one of the parts */
	uint64_t offset, size;
};

struct vb_segment_head { /* shown */
	/* owner, once */
	uint64_t magic;
	uint32_t layout_version;
	uint32_t slot; /* the first slot of the process: it names the process in hazard words */
	uint64_t nonce;
	struct vb_permutation keys;
	uint8_t pad0[16];
	/* The service thread holds it for life. The kernel marks it at the end of the process. */
	_Alignas(VB_LINE) pthread_mutex_t life;
	/*
	 * Counts QPs, keys and receives that were taken away, by 2. While it is odd, the owner's
	 * memory is frozen: no peer copies from or to it (nic/freeze.h). On the mutex's cache line,
	 * which every sender reads anyway.
	 */
	_Atomic uint64_t revocations;
	/* owner, at growth */
	_Alignas(VB_LINE) _Atomic uint32_t extent_count;
	_Atomic uint32_t hazard_count;            /* cells that were ever used */
	_Atomic uint32_t own_slots[VB_OWN_SLOTS]; /* in a page that every process touches anyway */
	struct vb_extent extents[VB_EXTENTS];
	_Atomic uint64_t hazard_pages[VB_HAZARD_PAGES];
	_Atomic uint64_t qp_pages[VB_QP_PAGES];
	_Atomic uint64_t key_pages[VB_KEY_PAGES];
	_Atomic uint64_t srq_pages[VB_SRQ_PAGES];
	_Atomic uint32_t alias_count; /* aliases that were ever used */
	struct vb_key_alias aliases[VB_KEY_ALIASES];
	struct vb_shown_map maps[VB_MAPS_MAX];
};

struct vb_lent_head { /* the beginning of the lent part */
	/* sender sets, owner clears */
	_Alignas(VB_LINE) _Atomic uint32_t attention;
	_Alignas(VB_LINE) _Atomic uint64_t qp_attention[VB_ATTENTION_WORDS];
	/* Serializes RDMA atomics to this process: 1 + claimant of the holder; 0: free. No thread
	 * waits for it. The owner frees the lock of a process that has ended. */
	_Alignas(VB_LINE) _Atomic uint32_t atomics;
	/* sender, with VB_ATTN_MAP: 1 + index of a key; a hint */
	_Atomic uint32_t wanted_key;
};

#define VB_SEGMENT_MAGIC 0x31616e6562726576ull /* "verbena1" */

#endif
