/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The preload library of `verbena run --check`: it stands between a program and libibverbs, keeps
 * a shadow of the objects and of the posted work, and reports misuse that happens to work.
 *
 * Control calls are replaced by name. Calls of the data path are replaced in the tables of
 * functions that a context, an extended QP and an extended CQ carry. libibverbs itself knows
 * nothing of it, so a program that is not checked pays nothing.
 *
 * Locks, in this order: `order` of a QP, SRQ or CQ (held while the real call runs, so that the
 * shadow sees posts and completions in their order), vb_check_lock (the shadow).
 */
#ifndef VB_CHECK_CHECK_H
#define VB_CHECK_CHECK_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/symver.h"
#include "check/rules.h"
#include "check/stack.h"

/* --- the shadow of objects --- */

enum vb_kind {
	VB_KIND_CONTEXT,
	VB_KIND_PD,
	VB_KIND_MR,
	VB_KIND_CQ,
	VB_KIND_QP,
	VB_KIND_SRQ,
	VB_KIND_AH,
	VB_KIND_CHANNEL,
	VB_KIND_MW,
	VB_KIND_COUNT,
};

/* Memory that posted work reads or writes; one for each start and length. */
struct vb_range {
	uint64_t addr, length;
	uint32_t reads, writes;       /* posted work requests that read it, and that write it */
	uint64_t written;             /* vb_work_epoch when the last one that writes ended */
	bool alone;                   /* no other range ever overlapped it */
	const struct vb_stack *stack; /* the last post */
	struct vb_range *left, *right;
	uint64_t end_max; /* of this subtree */
	uint32_t priority;
};

enum { VB_PIECES_INSIDE = 2, VB_SUMS = 5 };

struct vb_piece {
	struct vb_range *range;
	uint32_t lkey;
};

enum vb_work_kind { VB_WORK_SEND, VB_WORK_FETCH, VB_WORK_RECEIVE };

/* A posted work request. */
struct vb_work {
	uint64_t wr_id;
	const struct vb_stack *stack;
	const struct vb_stack *rival; /* a receive: the post of another one with the same memory */
	enum vb_work_kind kind;
	bool signaled;
	bool summed;   /* sum has a meaning */
	bool whole;    /* ... over all bytes */
	bool doubtful; /* it may be complete: wr_ids of an SRQ are not unique */
	bool needs_receive;
	bool watched; /* a receive: see watch.c */
	uint16_t piece_count;
	uint64_t epoch; /* a send: of its post */
	uint64_t length;
	uint64_t window;       /* a send that is not summed wholly: see sum.c */
	uint64_t sum[VB_SUMS]; /* a send: the first; a receive: of its parts, see sum.c */
	union {
		struct vb_piece inside[VB_PIECES_INSIDE];
		struct vb_piece *outside; /* owned; more than VB_PIECES_INSIDE */
	};
};

struct vb_queue {
	struct vb_work *works; /* capacity is mask + 1 */
	uint32_t mask, head, tail;
	uint32_t long_count; /* long buffers that were posted; see sum.c */
	bool lost;           /* completions did not fit to posts: nothing is said any more */
};

/* One object of the program. It stays when the object is gone. */
struct vb_object {
	enum vb_kind kind;
	void *handle;
	const struct vb_stack *made;
	_Atomic(const struct vb_stack *) gone; /* NULL: it lives */
	bool by_library;                       /* librdmacm made it for itself */
	bool alone;                            /* one thread at a time may use it */
	pthread_mutex_t order;
	_Atomic(const struct vb_stack *) user; /* inside a call now */
	_Atomic(const void *) holder; /* the thread between ibv_wr_start and ibv_wr_complete, or
					 between ibv_start_poll and ibv_end_poll */
	struct vb_object *next;       /* all objects, the newest first */

	/* QP, SRQ */
	struct vb_queue sends, receives;
	struct vb_object *send_cq, *receive_cq, *srq;
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	uint32_t qpn;
	bool sig_all;
	bool untracked; /* its completions do not say enough */
	uint8_t rnr_retry, min_rnr_timer;
	const struct vb_stack *no_reads; /* set max_rd_atomic to 0; NULL: it is not */
	int (*wr_complete)(struct ibv_qp_ex *);
	void (*wr_start)(struct ibv_qp_ex *);
	void (*wr_abort)(struct ibv_qp_ex *);

	/* CQ */
	uint32_t owed; /* completions that posted work can still bring */
	uint64_t polls, sends_signaled;
	bool overrun_ignored;
	uint32_t events, events_acked;
	const struct vb_stack *event_stack;
	int (*start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
	int (*next_poll)(struct ibv_cq_ex *);
	void (*end_poll)(struct ibv_cq_ex *);

	/* MR */
	uint64_t addr, length, iova;
	uint32_t lkey, rkey;
	int access;
	bool cached;      /* a cache of registrations made it, and follows the memory */
	bool host_memory; /* it can be read here at its address */
	const struct vb_stack *unmapped; /* its memory is gone */
};

extern pthread_mutex_t vb_check_lock;
/* A thread inside the check: its own calls of replaced functions go through. */
extern __thread bool vb_check_inside __attribute__((tls_model("initial-exec")));

static inline void vb_check_enter(void)
{
	pthread_mutex_lock(&vb_check_lock);
	vb_check_inside = true;
}

static inline void vb_check_leave(void)
{
	vb_check_inside = false;
	pthread_mutex_unlock(&vb_check_lock);
}

/* --- objects.c --- */

/* NULL: not one that the check has seen being made. No lock is needed. */
struct vb_object *vb_object_of(const void *handle);
struct vb_object *vb_object_of_qpn(uint32_t qpn);
struct vb_object *vb_object_of_lkey(uint32_t lkey);
struct vb_object *vb_object_of_rkey(uint32_t rkey);
struct vb_object *vb_objects_first(void);
/* Under the lock. NULL: no memory; then the object is not checked. */
struct vb_object *vb_object_add(enum vb_kind kind, void *handle, const struct vb_stack *made);
void vb_object_name_qpn(struct vb_object *object);
void vb_object_name_keys(struct vb_object *object);
/* Before and after a call that destroys. The memory of the handle stays if the call succeeds. */
void vb_object_dying(struct vb_object *object);
void vb_object_ended(struct vb_object *object, bool destroyed, const struct vb_stack *stack);
/* True: p is the memory of a handle that dies now, and stays. */
bool vb_object_keeps(void *p, size_t (*size_of)(void *));
void vb_objects_forget(void);
const char *vb_kind_name(enum vb_kind kind);

/* --- ranges.c: under the lock --- */

struct vb_range *vb_range_get(uint64_t addr, uint64_t length);
/* Another range in use that overlaps: one that is written, or with `any` one that is read, too. */
struct vb_range *vb_range_rival(struct vb_range *range, bool any);
/* The device may have written to it since then: a receive or READ with such memory. */
bool vb_range_written(struct vb_range *range, uint64_t since);
/* Memory of posted work that lies in [addr, addr + length). */
struct vb_range *vb_range_in_use(uint64_t addr, uint64_t length);
void vb_ranges_forget(void);

/* --- sum.c --- */

void vb_sum_send(struct vb_queue *queue, struct vb_work *work);
bool vb_sum_send_same(const struct vb_work *work);
void vb_sum_receive(struct vb_queue *queue, struct vb_work *work);
/* The bytes from `filled` on are as they were. */
bool vb_sum_receive_same(const struct vb_work *work, uint64_t filled);

/* --- work.c: under the lock --- */

extern uint64_t vb_work_epoch; /* counts the ends of receives and READs */

struct vb_piece *vb_work_pieces(struct vb_work *work);
struct vb_work *vb_queue_push(struct vb_queue *queue);
struct vb_work *vb_queue_at(struct vb_queue *queue, uint32_t index);
void vb_work_end(struct vb_work *work);
/* Takes posts back that the device refused. */
void vb_queue_cut(struct vb_queue *queue, uint32_t tail, struct vb_object *cq);
/* The pieces of a work request in memory that the check can see. */
void vb_work_gather(struct vb_work *work, const struct ibv_sge *sges, int count);
/* No other posted work uses its memory, or ever did. */
bool vb_work_alone(struct vb_work *work);
/* A peer may write to its memory by RDMA, or could once. */
bool vb_work_open_to_peers(const struct vb_work *work);
/* A completion that the program has seen. */
void vb_work_completed(struct vb_object *cq, const struct ibv_wc *wc, const struct vb_stack *stack);

/* --- threads.c --- */

/*
 * False: the object is gone, or this thread is inside a section of it; that has been reported. Else
 * `order` is locked.
 */
bool vb_use_begin(struct vb_object *object, const char *call, const struct vb_stack *stack);
void vb_use_end(struct vb_object *object);
/* Sections: calls that belong together, by one thread, with `order` locked. */
void vb_section_begin(struct vb_object *object);
bool vb_section_mine(struct vb_object *object);
/* Before the call that ends one. False: there is none, which has been reported. */
bool vb_section_end(struct vb_object *object, const char *call, const struct vb_stack *stack);
void vb_section_report(struct vb_object *object, const char *call, const struct vb_stack *stack);
/* Before a call that destroys: another thread may be inside a call. */
void vb_check_used(struct vb_object *object, const char *call, const struct vb_stack *stack);

/* --- layers on the tables of functions --- */

void vb_check_wrap_context(struct ibv_context *context);
void vb_check_wrap_qp(struct vb_object *object, struct ibv_qp_ex *ex);
void vb_check_wrap_cq(struct vb_object *object, struct ibv_cq_ex *ex);
extern struct ibv_context_ops vb_check_ops; /* the real ones */

int vb_check_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int vb_check_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int vb_check_post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int vb_check_bind_mw(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
int vb_check_poll_cq(struct ibv_cq *, int, struct ibv_wc *);

/* --- rules on attributes --- */

/* Of a QP or an AH. */
void vb_check_route(struct ibv_context *context, const struct ibv_ah_attr *attr, uint8_t port,
		    const struct vb_stack *stack);
void vb_check_attributes(struct vb_object *qp, const struct ibv_qp_attr *attr, int mask,
			 const struct vb_stack *stack);
void vb_check_limits(const struct ibv_qp_init_attr_ex *attr, const struct vb_stack *stack);
void vb_check_queried(void); /* the program has asked for the limits of the device */

/* --- the end --- */

void vb_check_in_flight(struct vb_object *object, const char *call, const struct vb_stack *stack);
void vb_check_unacked(struct vb_object *cq, const struct vb_stack *stack);
void vb_check_at_end(void);

/* RNR: the engine tells of messages without a receive, at any time and under its locks. */
void vb_check_watch_rnr(void);
void vb_check_tell_rnr(void);

/* The function of libibverbs. NULL: this libibverbs has none. */
void *vb_check_real(const char *name);
#define VB_CHECK_REAL(name) ((__typeof__(&name))vb_check_real(#name))

/* The stack of a replaced call: to be used in the replacing function itself. */
#define VB_HERE() vb_stack_here(__builtin_return_address(0), __builtin_frame_address(0))

#endif
