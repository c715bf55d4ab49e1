/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of connection managers in virtual time: hosts with a few processes each, applications that
 * connect, accept, refuse, disconnect, let go and crash, and a network between them. Everything
 * follows from one seed. The oracle knows what each side wanted, and what it may hear.
 *
 *   sim_app.c      what applications do, and when
 *   sim_oracle.c   what they may be told, and what must be true in the end
 *   sim_host.c     processes, and which of them a message is for
 *   sim_network.c  loss, copies, delay, order, partitions
 *   sim_world.c    the plan of a world, and its course
 */
#ifndef VB_TESTS_CM_SIM_H
#define VB_TESTS_CM_SIM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sim/agenda.h"
#include "../sim/rng.h"
#include "base/clock.h"
#include "cm/cm.h"

enum {
	HOSTS_MAX = 4,
	PROCESSES_MAX = 8,
	ATTEMPTS_MAX = 16,
	PASSIVES_MAX = 32, /* of one attempt: after crashes, or when a REJ was forgotten */
	PARTITIONS_MAX = 3,
	PORT = 5000, /* of process 0, and so on */
	FIRST_QPN = 0x100,
};
#define MS 1000000ull

struct world;
struct attempt;

enum phase {
	PHASE_NONE,
	PHASE_CONNECTING, /* active: nothing heard yet; passive: not answered yet */
	PHASE_READYING,   /* active: has got the REP */
	PHASE_ACCEPTED,   /* passive: has sent it */
	PHASE_ESTABLISHED,
	PHASE_DISCONNECTED,
	PHASE_GONE,     /* active: disconnected while readying */
	PHASE_REJECTED, /* it rejected */
	PHASE_OVER,
};

enum action {
	ACTION_CONNECT,
	ACTION_TAKE,
	ACTION_DECIDE,
	ACTION_READY,
	ACTION_DATA,
	ACTION_PROBE,
	ACTION_DISCONNECT,
	ACTION_DESTROY,
};

/* An application's view of an endpoint. */
struct end {
	struct vb_cm_endpoint endpoint;
	struct process *process;
	struct attempt *attempt; /* NULL: a listener */
	bool passive;
	bool destroyed, dead; /* dead: with its process */
	bool ever_established, asked_to_disconnect;
	bool gave_up; /* passive: ended between REP and RTU, or was told so */
	enum phase phase;
	uint32_t qpn, comm_id; /* passive: what its REP says */
	uint64_t asked_ns;     /* when it asked to disconnect */
	uint64_t answered_ns;  /* when it last asked, answered or was destroyed; 0: it did not */
	unsigned reason;       /* of the REJ that answered its REQ */
	unsigned generation;   /* of its process */
	struct end *next;      /* passive ones: all that the world owns */
};

enum wish { WISH_YES, WISH_REJECT, WISH_DESTROY, WISH_IGNORE };

struct attempt {
	unsigned id;
	bool sidr, ipv6, loopback;
	struct process *client, *server;
	bool nobody; /* asks for a port that nobody has */
	/* The plan. */
	enum wish passive_wish, active_wish;
	uint64_t begin_ns, think_ns, take_ns, ready_ns, hold_ns[2], early_destroy_ns;
	bool disconnects[2], destroys[2]; /* active, passive: after hold_ns */
	bool destroys_early, destroys_accepted, data;
	/* What is said. */
	struct rng pattern;
	struct vb_cm_connect_params connect;
	struct vb_cm_accept_params accept;
	uint32_t client_qpn, client_psn, server_qpn;
	uint64_t established_ns, rejected_ns; /* when a side said so; 0: it did not */
	bool inherited, bequeathed; /* client_qpn: from an older attempt, to a newer one */
	/* What happened. */
	struct end active, *passives[PASSIVES_MAX];
	unsigned passive_count;
};

struct process {
	struct world *world;
	unsigned host, index, generation;
	uint32_t slot;
	bool alive;
	struct vb_cm cm;
	struct end listener, sidr_listener;
	uint32_t next_qpn;
	uint32_t backlog;
};

/* What a broken connection manager would look like; the oracle must notice. */
enum sabotage {
	SABOTAGE_NONE,
	SABOTAGE_RTU,
	SABOTAGE_DREQ,
	SABOTAGE_REJ,
	SABOTAGE_DATA,
	SABOTAGES
};

enum event_kind { EVENT_MESSAGE, EVENT_ACTION, EVENT_CRASH, EVENT_START };

struct transit {
	struct vb_cm_route route; /* as the receiver sees it */
	uint8_t bytes[VB_MAD_SIZE];
};

struct partition {
	unsigned a, b;
	uint64_t from_ns, to_ns;
};

struct stats {
	uint64_t worlds, attempts, established, rejected, unreachable, disconnected, widowed;
	uint64_t sidr_answered, messages, lost, resent, crashes, stale, virtual_ns;
};

struct world {
	uint64_t seed, now_ns;
	bool verbose;
	struct rng rng, network_rng;
	unsigned host_count, process_count, attempt_count;
	struct process processes[PROCESSES_MAX];
	struct attempt attempts[ATTEMPTS_MAX];
	struct end *ends; /* passive ones */
	/* Chances in parts per 10,000. */
	uint32_t loss, repeat, reorder;
	uint64_t delay_ns, jitter_ns, reorder_ns;
	struct partition partitions[PARTITIONS_MAX];
	unsigned partition_count;
	bool crashes, broadcasts, inherits;
	enum sabotage sabotage;
	struct agenda agenda;
	struct stats stats;
	char failure[256];
};

/* sim_world.c */
bool world_run(uint64_t seed, bool verbose, enum sabotage sabotage, struct stats *stats,
	       char *failure, size_t size);
__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *format, ...);
__attribute__((format(printf, 2, 3))) void world_say(struct world *world, const char *format, ...);
void world_add(struct world *world, uint64_t at_ns, enum event_kind kind, enum action action,
	       void *subject);
/* No loss, no copies, no crash: whatever is wanted comes true. */
bool world_is_perfect(const struct world *world);

/* sim_network.c */
union ibv_gid host_gid(unsigned host, bool ipv6);
void network_send(struct world *world, const struct vb_cm_route *route,
		  const struct vb_cm_message *message);

/* sim_host.c */
void process_start(struct process *process);
void process_crash(struct process *process);
void host_input(struct world *world, const struct transit *transit);
int host_of(const struct world *world, const union ibv_gid *gid, const union ibv_gid *other);

/* sim_app.c */
void app_plan(struct attempt *attempt, struct world *world);
void app_act(struct end *end, enum action action);
void app_event(struct end *end, const struct vb_cm_event *event);
void app_destroy(struct end *end);
void app_fill(const struct attempt *attempt, unsigned salt, uint8_t *data, size_t length);

/* sim_oracle.c */
void oracle_event(struct end *end, const struct vb_cm_event *event);
/* Connected, and its peer is not. */
bool oracle_is_widowed(struct end *end);
/* May that be? */
void oracle_widow(struct end *end);
void oracle_final(struct world *world);
void oracle_leaks(struct world *world);

#endif
