/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of several hosts in one process, one thread and virtual time. A host has an address and
 * a protocol core (struct vb_roce) per lane; all QPs are objects of the one NIC of this process,
 * which chooses their lanes. Between hosts lies a network that loses, repeats, delays and damages
 * packets; above them sit applications that post and poll. What they see is compared with a model
 * that knows what every byte must be.
 *
 *   load.c: posts  ->  engine of host A  ->  network.c  ->  engine of host B
 *      oracle.c: what completed, in which order, with which bytes
 */
#ifndef VB_TESTS_SIM_SIM_H
#define VB_TESTS_SIM_SIM_H

#include "agenda.h"
#include "base/clock.h"
#include "network.h"
#include "nic/mw.h"
#include "objects.h"
#include "path/roce/roce.h"
#include "rng.h"

enum {
	HOSTS_MAX = 4,
	CORES_MAX = 4, /* per host: one per lane */
	ENDS_MAX = 48, /* reconnected ones count again */
	CQS = 2,       /* per host */
	OPS_MAX = 48,  /* per end */
	SGES_MAX = 4,
	RECVS_MAX = 4096, /* per world */
	ARENA_BYTES = 24 << 20,
	GUARD_BYTES = 8,
	GUARD = 0xa5,
	UNWRITTEN = 0xee,
};

struct world;
struct end;

/* Memory of one work request: pieces with guards behind them. */
struct buffer {
	struct ibv_sge sge[SGES_MAX];
	unsigned count;
	uint32_t length;
	uint64_t hash; /* of its bytes once they were taken in; they must not change any more */
	bool settled;
};

/* The lane of a host. */
struct core {
	struct host *host;
	struct vb_roce roce;
	uint64_t turn_ns; /* when it has its turn */
	bool holding;     /* ACKs wait for that turn */
};

struct host {
	struct world *world;
	unsigned index;
	struct core cores[CORES_MAX];
	struct vb_pd *pd;
	struct vb_mr *arena_mr;
	struct vb_cq *cq[CQS];
	unsigned drowsy_us; /* how long it may be until it has a CPU */
};

/* What is wrong with a work request on purpose. */
enum flaw {
	FLAW_NONE,
	FLAW_RKEY, /* no such key */
	FLAW_RANGE,
	FLAW_RIGHT, /* of the region */
	FLAW_QP_RIGHT,
	FLAW_TOO_LONG, /* for any receive */
	FLAW_LKEY,
	FLAW_ALIGN,  /* of an atomic */
	FLAW_SIZE,   /* of an atomic's buffer */
	FLAW_WINDOW, /* invalidates what is no window */
	FLAW_COUNT,
};

struct op {
	uint8_t opcode; /* enum ibv_wr_opcode */
	bool signaled, fenced, inlined, done;
	enum flaw flaw;
	enum ibv_wc_status expect, status;
	struct buffer buffer;
	uint32_t offset; /* into the target's region */
	uint32_t imm;    /* or the rkey to invalidate */
	uint64_t operand[2];
	uint64_t original; /* of an atomic, as the model says */
	uint8_t *expected; /* of a READ, as the model says */
	unsigned target;   /* UD: index of the end */
	unsigned received; /* UD: how often */
	bool wrong_qkey;
	uint32_t rkey_window; /* the window's key is used instead of the region's */
};

struct recv {
	struct buffer buffer;
	struct recvq *recvq;
	bool done, bad_lkey;
};

/* Receives of an end, or of several ends of a host. */
struct recvq {
	struct host *host;
	struct vb_srq *srq;
	struct end *end;   /* whose own queue it is; NULL: shared */
	uint32_t capacity; /* bytes of each receive */
	unsigned depth, outstanding;
	unsigned lazy_us; /* how late it is posted */
	bool scheduled;
	bool bad_posted; /* a receive with a bad lkey is among them */
};

enum window_state { WINDOW_NONE, WINDOW_BINDING, WINDOW_BOUND, WINDOW_GOING };

struct end {
	struct world *world;
	struct host *host;
	unsigned index;
	struct end *peer; /* RC, UC */
	struct vb_qp *qp;
	uint8_t type;
	struct rng rng;
	/* how it is connected */
	uint32_t mtu, sq_psn, rq_psn;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, max_rd_atomic, max_dest_rd_atomic;
	unsigned access;
	bool ready;   /* in RTS */
	bool closed;  /* its QP belongs to somebody else now */
	bool revoked; /* its region was deregistered */
	bool killed;  /* its QP went to ERR by the peer's fault or by order */
	bool failed;  /* one of its work requests did */
	/* what it sends */
	struct op ops[OPS_MAX];
	unsigned planned, posted, done;
	/* what it receives */
	struct recvq *recvq;
	unsigned next_message; /* index of the peer's op that the next receive belongs to */
	unsigned messages;     /* received */
	bool recv_failed;
	/* what the peer may do to */
	uint8_t *region, *model;
	uint32_t region_size;
	unsigned applied; /* ops of the peer that the model has */
	struct vb_mr *mr, *mr_mute;
	uint64_t hash; /* of the region when it was closed */
	/* window for the peer */
	struct vb_mw *mw;
	enum window_state window;
	uint32_t window_rkey;
	/* UD */
	struct vb_ah *ah[HOSTS_MAX];
	uint32_t qkey;
};

enum event_kind {
	EVENT_PACKET,
	EVENT_POST,
	EVENT_DATAGRAMS, /* their pace lets more go */
	EVENT_RECV,
	EVENT_CONNECT,
	EVENT_ACTION,
};
enum action {
	ACTION_PAUSE,
	ACTION_RESUME,
	ACTION_ERROR,
	ACTION_RECONNECT,
	ACTION_REVOKE, /* the region that the peer uses */
	ACTIONS,
};

struct world_stats {
	uint64_t worlds, packets, ops, failed_qps, retransmits, timeouts, naks, rnrs, cnps, implied;
	uint64_t virtual_ns, useful, offered; /* packets of what completed, of what was posted */
	uint64_t statuses[32]; /* of what made send queues fail, by enum ibv_wc_status */
};

struct world {
	uint64_t seed, now_ns;
	/* Packets of one flow that follow each other at a host count as a burst. */
	uint64_t burst;
	const struct host *burst_at; /* NULL: something else has happened since */
	struct vb_icrc_flow burst_flow;
	uint8_t burst_class;
	bool verbose;
	struct rng rng;
	unsigned host_count, end_count, recvq_count, recv_count;
	struct host *hosts; /* HOSTS_MAX; they outlive the world */
	struct end *ends[ENDS_MAX];
	struct recvq recvqs[ENDS_MAX];
	struct recv *recvs;
	struct network net;
	struct agenda agenda; /* subjects are struct transit, end or recvq */
	uint8_t *arena;
	uint32_t arena_used;
	bool harsh;  /* a QP may give up although nobody did wrong */
	bool flawed; /* requests with flaws are posted */
	char failure[400];
	struct world_stats stats;
};

/* world.c: the course of a world. False: it failed, world->failure says why. */
/* Before the first world: so many lanes per host, up to CORES_MAX; else one. */
void world_lanes(unsigned lanes);
bool world_run(uint64_t seed, bool verbose, struct world_stats *stats, char *failure, size_t size);
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint8_t *world_memory(struct world *world, uint32_t length);

static inline void event_add(struct world *world, uint64_t at_ns, enum event_kind kind,
			     void *subject)
{
	agenda_add(&world->agenda, at_ns, kind, 0, subject);
}

static inline void event_add_action(struct world *world, uint64_t at_ns, enum action action,
				    struct end *end)
{
	agenda_add(&world->agenda, at_ns, EVENT_ACTION, action, end);
}

/* host.c: engines and objects. */
struct host *hosts_get(void);
void host_way(const struct host *host, unsigned to, uint32_t entropy, struct vb_way *way);
void host_open(struct host *host);
void host_close(struct host *host);
void host_forget(struct host *host);
void core_turn(struct core *core);
/* Returns the core that took the packet. */
enum { TOGETHER_MAX = 16 }; /* packets that lie one behind the other in a receive buffer */
/* Takes in the first of these packets, which all look alike, and *taken in all. */
struct core *host_input(struct host *host, struct transit *const *transits, unsigned count,
			unsigned *taken);
/* The core that carries the QP of an end. */
static inline struct core *end_core(const struct end *end)
{
	return &end->host->cores[atomic_load(&end->qp->lane)];
}
/* What an engine would do for QPs that peers failed, and for flushes that wait. */
void sim_attend(struct world *world);

/* connect.c: QPs and their states. */
void end_open(struct end *end);
void end_connect(struct end *end);
void end_error(struct end *end);
void end_pause(struct end *end, bool pause);
void end_revoke(struct end *end);
/* Both to RESET and connected again, as new ends. */
void end_reconnect(struct end *end);
void end_destroy(struct end *end);
enum ibv_qp_state end_state(const struct end *end);

/* plan.c: a seed becomes a world. */
void world_plan(struct world *world);
struct end *end_new(struct world *world, struct host *host, uint8_t type);
void end_pair(struct end *a, struct end *b, struct rng *rng);

/* unusual.c: what few worlds have. */
void unusual_plan(struct world *world);
void unusual_begin(struct world *world);

/* load.c: what applications do. */
void load_post(struct end *end);
void load_receive(struct recvq *recvq);
void load_begin(struct end *end);
bool op_consumes(const struct op *op); /* a receive, at the target */

/* buffer.c */
void buffer_make(struct world *world, struct rng *rng, struct buffer *buffer, uint32_t length,
		 unsigned pieces, uint32_t lkey);
void buffer_fill(struct buffer *buffer, struct rng *rng);
void buffer_read(const struct buffer *buffer, uint8_t *out, uint32_t length);
uint8_t buffer_byte(const struct buffer *buffer, uint32_t offset);
void buffer_settle(struct buffer *buffer);
bool buffer_intact(const struct buffer *buffer);
uint64_t bytes_hash(const uint8_t *bytes, uint32_t length, uint64_t seed);

/* oracle.c: what must be true. */
void oracle_poll(struct host *host);
bool oracle_done(struct world *world);
void oracle_queues(struct world *world);
void oracle_final(struct world *world);
void oracle_close(struct end *end);
/* Its QP is in ERR: a peer that would wait for ever is to give up. */
void oracle_tell_peer(struct end *end);
/* Is it known why the QP failed at its responder? */
void oracle_killed(struct end *end, enum vb_reason reason);

/* model.c: memory as it must be. */
void model_apply(struct end *target, unsigned end);
bool model_check(struct end *target, uint32_t offset, uint32_t length);
bool model_read_fits(const struct end *reader, unsigned index, const uint8_t *got);

/* datagram.c */
void datagram_post(struct end *end);
void datagram_go_on(struct end *end);
void datagram_received(struct end *end, const struct ibv_wc *wc, struct recv *recv);

#endif
