/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two processes of chaos_kill, host and guest, are the same program: a party takes orders from
 * the supervisor, talks RDMA to the other party, and survives it or does not.
 */
#ifndef CHAOS_PARTY_H
#define CHAOS_PARTY_H

#include "leftover.h"
#include "plan.h"

enum order_kind { ORDER_TRAFFIC, ORDER_DEAD, ORDER_PROBE, ORDER_QUIT };

struct order {
	enum order_kind what;
	unsigned round;
	bool fresh;          /* PROBE: this party is the new one */
	unsigned rest;       /* PROBE: receives of the survivor that the new one must find usable */
	enum kind rest_kind; /* KIND_SRQ or KIND_UD */
};

enum note_kind { NOTE_READY, NOTE_CONNECTED, NOTE_FLOWING, NOTE_SETTLED, NOTE_PROBED };

struct note {
	enum note_kind what;
	unsigned round;
	unsigned rest;
	unsigned late;
	uint64_t settle_us; /* from the news of the death to the last completion */
	bool flowing;       /* the two had talked before */
	struct holdings holdings;
};

/* Shared by all three processes. */
struct board {
	struct tally tally[ROLES];
	_Atomic unsigned doomed_round; /* round + 1 once its kill is about to be sent */
	_Atomic(const char *)
		step[ROLES]; /* what a party is doing; the same image, so the same text */
};

struct party {
	enum role role;
	struct rig rig;
	int orders, peer; /* sockets: the supervisor, the other party */
	struct board *board;
	uint64_t seed;
	struct ibv_srq *srq;
	struct rx srq_rx; /* outlives peers; what one leaves posted the next one uses */
	struct flow ud;   /* likewise */
	bool ud_open;
	uint32_t ud_tag_late;
	bool dead; /* the supervisor said that the other party is dead */
};

/* Never returns. */
void party_main(enum role role, int orders, int peer, struct board *board, uint64_t seed)
	__attribute__((noreturn));

/* talk.c */
void party_step(struct party *party, const char *step);
void party_note(struct party *party, const struct note *note);
void party_say(struct party *party, const struct flow *flow, unsigned round, enum step step);
/* False if the other party died without saying hello. */
bool party_hear(struct party *party, unsigned round, enum step step, struct hello *hello);
/* Looks for the news of the death; never blocks. */
void party_look(struct party *party);

/* party.c and probe.c */
struct rx *party_srq(struct party *party);
struct flow *party_ud(struct party *party, const struct flow_shape *shape);
void party_traffic(struct party *party, unsigned round);
void party_probe(struct party *party, const struct order *order);

/* settle.c: everything posted has completed exactly once; returns what is still posted. */
unsigned flow_settle(struct party *party, struct flow *flow, const struct plan *plan,
		     bool connected, struct note *note);

#endif
