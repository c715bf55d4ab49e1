/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract of the verbs API as tests, written against <infiniband/verbs.h> alone.
 *
 *      the test ──── near end: agent ── verbs ──┐
 *          │                                    │  whatever path connects them
 *          └──────── far end:  agent ── verbs ──┘
 *                    called directly (one process), or behind a socket pair (two processes)
 *
 * A test drives both ends through the same calls, so it cannot know where the far end lives nor
 * which path the bytes take. Objects are numbered per end; WRs, attributes and completions are
 * the structs of verbs.h, with addresses that are valid at the end they are given to.
 * Each test runs in a process of its own: a failed check ends it on the spot.
 */
#ifndef CT_H
#define CT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	CT_DEADLINE_MS = 20000, /* of every wait: generous, reached only when something is broken */
	CT_ARENA_BYTES = 8 << 20,
	CT_SGE_MAX = 64,
	CT_WC_MAX = 1024, /* completions fetched by one call */
	CT_CQE = 1024,    /* of the CQs that every end starts with */
	CT_GRH_BYTES = 40,
	CT_QKEY = 0x11111111,
	CT_ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC,
	CT_ACCESS_REMOTE = CT_ACCESS_ALL & ~IBV_ACCESS_LOCAL_WRITE,
};

/* ---- cases (ct_main.c) ----------------------------------------------------------------------- */

struct ct {
	struct ct_end *near, *far;
	enum ibv_qp_type type; /* the transport this instance of the case is about */
	bool infiniband;       /* link layer InfiniBand: LIDs, no GRH */
	bool two_processes;
};

enum ct_flags {
	CT_RC = 1 << 0, /* one instance of the case per transport named here */
	CT_UC = 1 << 1,
	CT_UD = 1 << 2,
	CT_IB = 1 << 3,       /* also over the InfiniBand link layer */
	CT_SOLO = 1 << 4,     /* about objects: one end, runs once */
	CT_TWO = 1 << 5,      /* needs a far end that is another process */
	CT_HUGE = 1 << 6,     /* needs gigabytes: only if VERBENA_TEST_HUGE is set */
	CT_DISTINCT = 1 << 7, /* about keys that differ: only if VERBENA_KEYS=distinct */
	CT_ONLY_IB = 1 << 12, /* over the InfiniBand link layer only */
};

struct ct_case {
	const char *name; /* the promise */
	void (*run)(struct ct *t);
	unsigned flags;
	void (*prepare)(void); /* the environment, before the first verbs call; NULL: as it is */
};

/* The other process of ct_import.c, which has nothing but this socket; never returns. */
_Noreturn void ct_importer(int sock);

/* ---- checks: the first that fails ends the test ---------------------------------------------- */

void ct_here(const char *file, int line);
_Noreturn void ct_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* VERBENA_PATH makes everything go by packets, which hold less than a look at the peer shows. */
bool ct_by_packets(void);
/* VERBENA_TEST_BUILDERS: work requests are built by ibv_wr_* calls (ct_builder.c). */
bool ct_with_builders(void);
/* VERBENA_KEYS: the lkey and the rkey of a region differ. */
bool ct_distinct_keys(void);
_Noreturn void ct_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ct_equal(const char *what, long long got, const char *wanted_text, long long wanted);

#define CT_HERE            ct_here(__FILE__, __LINE__)
#define CT_TRUE(condition) (CT_HERE, (condition) ? (void)0 : ct_fail("not true: %s", #condition))
#define CT_EQ(got, wanted) (CT_HERE, ct_equal(#got, (long long)(got), #wanted, (long long)(wanted)))
/* A call that fails both ways: it returns the error and sets errno to it. */
#define CT_ERROR(call, wanted)                                                     \
	do {                                                                       \
		errno = 0;                                                         \
		CT_HERE, ct_equal(#call, (call), #wanted, (wanted));               \
		CT_HERE, ct_equal("errno after " #call, errno, #wanted, (wanted)); \
	} while (0)
/* A call that answers NULL with errno. */
#define CT_NULL(call, wanted)                                                      \
	do {                                                                       \
		errno = 0;                                                         \
		CT_TRUE((call) == NULL);                                           \
		CT_HERE, ct_equal("errno after " #call, errno, #wanted, (wanted)); \
	} while (0)
#define CT_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

double ct_now_s(void);
/* ibv_start_poll for a completion that is there; one that the adversary hides comes soon. */
int ct_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);

/* ---- an end and its verbs (ct_end.c; executed by ct_agent.c) --------------------------------- */

struct ct_mr {
	int handle;
	uint64_t addr; /* as a peer or an SGE names it */
	uint64_t length;
	uint32_t lkey, rkey;
};

struct ct_end {
	const char *name;
	struct ct_agent *agent; /* NULL: it lives in another process, behind sock */
	int sock;
	int pid;
	struct ct_msg *msg; /* the request, then its reply */
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	uint64_t base; /* of the arena, in that process */
	/* What every test starts with: */
	int pd, scq, rcq;
	struct ct_mr mr; /* the whole arena, every right */
};

void ct_end_open(struct ct_end *e, bool infiniband);
void ct_end_close(struct ct_end *e); /* destroys everything; a destroy that fails is a failure */
void ct_end_kill(struct ct_end *e);  /* the process dies, without a word */
/* It ends by itself, with all its objects, right after it has polled so many completions. */
void ct_end_leave(struct ct_end *e, int cq, int completions);
void ct_end_has_left(struct ct_end *e);

/* For tests of objects, which speak verbs directly. Near end only. */
struct ibv_context *ct_context(struct ct_end *e);
void *ct_object(struct ct_end *e, int handle);
/* What a test made itself, as an object of the end: answers the handle. */
int ct_adopt_cq(struct ct_end *e, struct ibv_cq *cq);
int ct_adopt_pd(struct ct_end *e, struct ibv_pd *pd);
/* What was adopted, and the test has disposed of itself. */
void ct_forget(struct ct_end *e, int handle);

/* Makers answer the handle, or -errno if the verb failed. */
int ct_alloc_pd(struct ct_end *e);
int ct_reg_mr(struct ct_end *e, int pd, uint64_t offset, uint64_t length, int access,
	      struct ct_mr *mr);
int ct_reg_mr_iova(struct ct_end *e, int pd, uint64_t offset, uint64_t length, uint64_t iova,
		   int access, struct ct_mr *mr);
int ct_rereg_mr(struct ct_end *e, struct ct_mr *mr, int flags, int pd, uint64_t offset,
		uint64_t length, int access);
int ct_create_channel(struct ct_end *e);
int ct_create_cq(struct ct_end *e, int cqe, int channel);
int ct_create_srq(struct ct_end *e, int pd, uint32_t max_wr, uint32_t max_sge);
int ct_create_ah(struct ct_end *e, int pd, const struct ibv_ah_attr *attr);
int ct_destroy(struct ct_end *e, int handle); /* whatever it is */

int ct_modify_srq(struct ct_end *e, int srq, struct ibv_srq_attr *attr, int mask);
int ct_query_srq(struct ct_end *e, int srq, struct ibv_srq_attr *attr);
int ct_post_srq_recv(struct ct_end *e, int srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ct_resize_cq(struct ct_end *e, int cq, int cqe);
int ct_req_notify_cq(struct ct_end *e, int cq, bool solicited_only);

/* Waits for `count` completions or the deadline; answers how many came. */
int ct_poll_cq(struct ct_end *e, int cq, int count, int deadline_ms, struct ibv_wc *wc);
/* Waits for an event of the channel, acks it; answers the CQ, or 0 if none came. */
int ct_get_cq_event(struct ct_end *e, int channel, int deadline_ms);
/* Waits for an async event, acks it; false if none came. */
bool ct_get_async_event(struct ct_end *e, int deadline_ms, enum ibv_event_type *type, int *handle);

/* Memory of an end. A pattern is told apart by its seed. */
void ct_fill(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed);
/* The first byte that differs from the pattern, or -1. */
long long ct_differs_at(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed);
uint64_t ct_peek(struct ct_end *e, uint64_t offset);
void ct_poke(struct ct_end *e, uint64_t offset, uint64_t value);
void ct_peek_bytes(struct ct_end *e, uint64_t offset, uint32_t length, void *bytes);
/*
 * A thread there waits for the last byte of a buffer to become 1, 2, … rounds, each time looks
 * whether the whole buffer has arrived, and then says so in the 8 bytes at `reply`.
 */
void ct_watch_start(struct ct_end *e, uint64_t offset, uint64_t length, uint64_t reply, int rounds);
int ct_watch_join(struct ct_end *e); /* how often the last byte came before the rest */

/* ---- queue pairs (ct_qp.c) ------------------------------------------------------------------- */

struct ct_opts {
	enum ibv_qp_type type;
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	int srq_a, srq_b;               /* handles, or 0 */
	int scq_a, rcq_a, scq_b, rcq_b; /* handles; 0: those of the end */
	int access_a, access_b;         /* rights of the QP */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
};

struct ct_qp {
	struct ct_end *end;
	int handle, scq, rcq, srq;
	enum ibv_qp_type type;
	uint32_t qpn, psn;
	uint32_t srqn; /* XRC_RECV: of its SRQ, which messages name */
	int access;
	struct ibv_qp_cap cap; /* as returned */
};

/* Two QPs, one per end. Messages go from a to b unless the link is turned round. */
struct ct_link {
	struct ct_opts o;
	struct ct_qp a, b;
	int ah_a, ah_b; /* UD: a's handle for b, b's for a */
};

struct ct_opts ct_defaults(const struct ct *t);
/* Opens the link in RTS on both sides; NULL: the defaults. */
void ct_link_open(struct ct *t, struct ct_link *l, const struct ct_opts *o);
void ct_link_create(struct ct *t, struct ct_link *l, const struct ct_opts *o); /* both in RESET */
void ct_link_connect(struct ct_link *l); /* both from RESET to RTS */
struct ct_link ct_reverse(const struct ct_link *l);

int ct_qp_create(struct ct_end *e, struct ibv_qp_init_attr *init, int pd, int scq, int rcq, int srq,
		 struct ct_qp *qp);
int ct_modify_qp(const struct ct_qp *qp, struct ibv_qp_attr *attr, int mask);
int ct_query_qp(const struct ct_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
enum ibv_qp_state ct_qp_state(const struct ct_qp *qp);
void ct_wait_state(const struct ct_qp *qp, enum ibv_qp_state state);
int ct_to_state(const struct ct_qp *qp, enum ibv_qp_state state); /* nothing but the state */

int ct_attach_mcast(const struct ct_qp *qp, const union ibv_gid *gid, uint16_t lid);
int ct_detach_mcast(const struct ct_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* The attributes of a transition, filled in; they answer the mask. */
int ct_attr_init(const struct ct_qp *qp, struct ibv_qp_attr *attr);
int ct_attr_rtr(const struct ct_qp *qp, const struct ct_qp *peer, const struct ct_opts *o,
		struct ibv_qp_attr *attr);
int ct_attr_rts(const struct ct_qp *qp, const struct ct_opts *o, struct ibv_qp_attr *attr);
void ct_address(const struct ct_end *from, const struct ct_end *to, struct ibv_ah_attr *ah);
/* The same transitions, done. */
void ct_init(const struct ct_qp *qp);
void ct_rtr(const struct ct_qp *qp, const struct ct_qp *peer, const struct ct_opts *o);
void ct_rts(const struct ct_qp *qp, const struct ct_opts *o);

/* ---- XRC (ct_xrc_link.c): a is an XRC_SEND QP, b an XRC_RECV QP with an SRQ of its domain ---- */

void ct_xrc_link_create(struct ct *t, struct ct_link *l);
/* A domain of the open file, or with -1 of the end alone; the handle, or -errno. */
int ct_open_xrcd(struct ct_end *e, const char *path, int oflags);
int ct_create_xrc_srq(struct ct_end *e, int xrcd, int pd, int cq, uint32_t max_wr, uint32_t max_sge,
		      uint32_t *srqn);
int ct_create_xrc_recv(struct ct_end *e, int xrcd, struct ct_qp *qp);
/* Another handle for it, here or in another process. */
int ct_open_qp(struct ct_end *e, int xrcd, uint32_t qpn, struct ct_qp *qp);

/* ---- work requests and completions (ct_qp.c) ------------------------------------------------- */

int ct_post_send(const struct ct_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ct_post_recv(const struct ct_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * A thread there posts the WR `count` times, at most `depth` unpolled, and polls the send CQ,
 * which must be its own. Answers the hammer; join answers how many of the WRs succeeded, or -1 if
 * some did not complete at all.
 */
int ct_hammer_start(const struct ct_qp *qp, struct ibv_send_wr *wr, int count, int depth);
int ct_hammer_join(struct ct_end *e, int hammer);

/*
 * A thread there receives `count` messages as event-driven programs do: arm, poll until empty,
 * sleep. It posts the receive again for each message. Join answers how many came.
 */
void ct_sleeper_start(const struct ct_qp *qp, int channel, struct ibv_recv_wr *wr, int count);
int ct_sleeper_join(struct ct_end *e);

struct ibv_sge ct_sge(const struct ct_end *e, uint64_t offset, uint32_t length);
/* A signalled WR from a to the start of b's arena. */
struct ibv_send_wr ct_wr(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id,
			 struct ibv_sge *sge, int num_sge);
void ct_aim(struct ibv_send_wr *wr, uint64_t remote_addr, uint32_t rkey); /* RDMA or atomic */

#define ct_post(qp, wr)                  (CT_HERE, ct_post_at(qp, wr))
#define ct_recv(qp, wr_id, offset, len)  (CT_HERE, ct_recv_at(qp, wr_id, offset, len))
#define ct_send(l, wr_id, offset, len)   (CT_HERE, ct_send_at(l, IBV_WR_SEND, wr_id, offset, len))
#define ct_do(l, op, wr_id, offset, len) (CT_HERE, ct_send_at(l, op, wr_id, offset, len))
#define ct_wait(e, cq)                   (CT_HERE, ct_wait_at(e, cq))
#define ct_expect(e, cq, wr_id, status)  (CT_HERE, ct_expect_at(e, cq, wr_id, status))
#define ct_sent(l, id, status)           ct_expect((l)->a.end, (l)->a.scq, id, status)
#define ct_got(l, id, status)            ct_expect((l)->b.end, (l)->b.rcq, id, status)
#define ct_none(e, cq)                   (CT_HERE, ct_none_at(e, cq))
#define ct_event(e, type, handle)        (CT_HERE, ct_event_at(e, type, handle))
#define ct_no_event(e)                   (CT_HERE, ct_no_event_at(e))
#define ct_same(e, offset, len, seed)    (CT_HERE, ct_same_at(e, offset, len, seed))
#define ct_usable(l)                     (CT_HERE, ct_usable_at(l))

void ct_post_at(const struct ct_qp *qp, struct ibv_send_wr *wr);
void ct_recv_at(const struct ct_qp *qp, uint64_t wr_id, uint64_t offset, uint32_t length);
/* One WR whose local and remote offset are the same. */
void ct_send_at(const struct ct_link *l, enum ibv_wr_opcode opcode, uint64_t wr_id, uint64_t offset,
		uint32_t length);
struct ibv_wc ct_wait_at(struct ct_end *e, int cq);
struct ibv_wc ct_expect_at(struct ct_end *e, int cq, uint64_t wr_id, enum ibv_wc_status status);
void ct_none_at(struct ct_end *e, int cq);
void ct_event_at(struct ct_end *e, enum ibv_event_type type, int handle);
void ct_no_event_at(struct ct_end *e);
void ct_same_at(struct ct_end *e, uint64_t offset, uint64_t length, unsigned seed);
/* The link still carries a message: what went wrong elsewhere did not touch it. */
void ct_usable_at(const struct ct_link *l);

/* Bytes in front of the payload of a receive: the GRH on UD. */
static inline uint32_t ct_headroom(const struct ct_link *l)
{
	return l->a.type == IBV_QPT_UD ? CT_GRH_BYTES : 0;
}

/* The largest message that the transport of the link carries. */
static inline uint32_t ct_message_max(const struct ct_link *l)
{
	return l->a.type == IBV_QPT_UD ? 128u << l->a.end->port.active_mtu : 1u << 31;
}

#endif
