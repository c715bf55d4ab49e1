/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many hosts on one switch, in one process, one thread and virtual time. A host is a protocol core
 * (struct vb_roce); the packets have true headers. Payload is not carried, and no ICRC computed:
 * tests/sim looks at bytes, this simulation at time, queues and shares.
 *
 *   host --uplink--> switch: a queue per port, with marks and an end --> host
 *
 *   fabric.c: links and queues     host.c: cores, QPs, programs that always have more to write
 *   scenario.c: which host writes to which      measure.c: the course of a scenario, its figures
 *   rules.c: congestion decisions: ours, or dcqcn.c, halving.c      report.c: table and plot
 */
#ifndef VB_TESTS_SIM_SCALE_SCALE_H
#define VB_TESTS_SIM_SCALE_SCALE_H

#include "../sim/agenda.h"
#include "../sim/rng.h"
#include "path/roce/roce.h"

enum {
	HOSTS_MOST = 257, /* 256 senders and a receiver */
	CLASSES_MAX = 2,
	QUEUE_STEPS = 1024, /* of the histogram of queue lengths, one KB each */
	BINS_MAX = 4096,
};

/* Who decides about windows and rates. */
enum rules { RULES_OWN, RULES_DCQCN, RULES_HALVING, RULES_COUNT };

/* The network, the same for all scenarios but for what these change. */
struct network_plan {
	uint32_t rate_mbps;  /* of each link */
	uint32_t delay_ns;   /* of each link */
	uint32_t mtu;        /* bytes of payload per packet */
	uint32_t buffer;     /* bytes per port of the switch; what does not fit is lost */
	uint32_t mark_from;  /* bytes of queue above which packets are marked, at first rarely */
	uint32_t mark_all;   /* ... and above which all are */
	uint32_t mark_ppm;   /* chance of a mark right below mark_all */
	uint32_t input_room; /* bytes that wait in a slow host for its CPU */
};

/* The times of a course, from its beginning on. */
struct timetable {
	uint64_t warm_ns;  /* figures begin here ... */
	uint64_t dark_ns;  /* ... and end here: the watched ports lose everything ... */
	uint64_t light_ns; /* ... until here */
	uint64_t end_ns;
};

/* A kind of flows in a scenario, with the rate that is due to all of them together. */
struct class
{
	const char *name;
	double due_mbps; /* of payload */
};

struct scenario {
	const char *name;
	unsigned hosts;
	unsigned class_count;
	struct class classes[CLASSES_MAX];
	uint64_t seed;
};

struct host;

/* A QP. The peer's QP is at the other end; sends: its program always has more to write. */
struct end {
	struct host *host;
	struct end *peer;
	struct vb_qp *qp;
	bool sends, failed;
	unsigned class;
	uint32_t warm_psn; /* first PSN that the peer has not taken when figures begin */
};

struct link {
	uint64_t busy_ps; /* time until which the packets in the queue take */
	uint32_t ps_per_b;
	uint32_t delay_ns;
	uint32_t loss_ppm;
	uint32_t late_ppm,
		late_ns; /* so many packets come up to so much later: others overtake them */
	bool dark, watched;
};

struct host {
	unsigned index;
	struct vb_roce roce;
	struct vb_cq *cq;
	struct link up, down;
	uint64_t turn_ns;  /* time of its next turn; VB_NEVER_NS: none is set */
	uint32_t ps_per_b; /* a slow host: time of its CPU per byte; 0: no limit */
	uint64_t input_ps; /* a slow host: time until which the packets that wait take */
};

/* What is counted while figures are taken. */
struct figures {
	double share[CLASSES_MAX];               /* goodput of the rate that is due */
	double fairness[CLASSES_MAX];            /* Jain's index */
	double queue_mean, queue_max, queue_p99; /* bytes, over the watched ports */
	uint64_t sent, lost, repeated, timeouts, marks, cnps;
	uint64_t retry_exceeded; /* over the whole course */
	double recover_us;       /* after the dark; negative: not within the course */
	uint64_t events;
	double took_s;
};

struct world {
	struct network_plan plan;
	struct timetable times;
	struct rng rng;
	uint64_t now_ns, begin_ns;
	struct agenda agenda;
	struct host *hosts; /* owned */
	unsigned host_count;
	struct end **ends; /* owned */
	unsigned end_count, end_room;
	bool counting;
	uint64_t lost, marks, sent; /* data and answers; while counting */
	uint64_t queue_steps[QUEUE_STEPS], queue_samples;
	double queue_sum, queue_max;
	double bins[BINS_MAX]; /* bytes that arrived, by time */
	struct figures figures;
};

enum event_kind { EVENT_SWITCH, EVENT_ARRIVE, EVENT_INPUT, EVENT_TURN, EVENT_SAMPLE, EVENT_BIN };

/* fabric.c */
struct transit;
void fabric_send(struct world *world, struct host *from, const struct vb_way *way,
		 const uint8_t *bytes, uint32_t length);
void fabric_switch(struct world *world, struct transit *transit);
/* Gives the packet to its host. */
void fabric_arrive(struct world *world, struct transit *transit);
void fabric_input(struct world *world, struct transit *transit);
double fabric_queue_bytes(const struct world *world, const struct link *link);
/* Bytes of payload per byte on the link. */
double fabric_efficiency(const struct network_plan *plan);
void fabric_drop_all(struct world *world);
void fabric_fini(void);

/* host.c */
void hosts_open(struct world *world, unsigned count);
void hosts_close(struct world *world);
struct end *end_connect(struct world *world, unsigned from, unsigned to, unsigned class);
/* The other end writes, too. */
void end_answers(struct end *end, unsigned class);
void ends_begin(struct world *world);
void host_arrived(struct world *world, struct host *host, const struct vb_arrival *arrival);
void host_turn(struct world *world, struct host *host, uint64_t at_ns);
/* Packets that the peer has taken, in order. */
uint32_t end_taken_psn(const struct end *end);
struct vb_wired *end_wired(const struct end *end);

/* scenario.c */
unsigned scenario_count(void);
/* Fills in name and seed, hosts, QPs. */
void scenario_build(struct world *world, unsigned index, struct scenario *scenario);
const char *scenario_name(unsigned index);

/* measure.c */
struct figures measure(unsigned scenario, enum rules rules, const struct network_plan *plan,
		       const struct timetable *times, uint64_t seed, struct scenario *about);

/* rules.c */
extern enum rules rules_chosen;
extern const char *const rules_names[RULES_COUNT];
/* Forgets QPs that are gone. */
void rules_forget(void);

#endif
