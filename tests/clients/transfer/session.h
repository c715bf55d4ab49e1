/* SPDX-License-Identifier: BSD-2-Clause */
/* All lanes of a process, and the rounds that it goes through with its peer. */
#ifndef TRANSFER_SESSION_H
#define TRANSFER_SESSION_H

#include "lane.h"

struct session {
	const struct options *options;
	struct terms terms;
	struct home home;
	struct lane *lanes; /* owned */
	int channel;
	bool is_client;
	uint32_t round;
	uint8_t canary;
	bool peer_done;       /* has posted and completed all of this round */
	unsigned idle;        /* looks in vain since the last completion */
	uint64_t arrival_us;  /* when the last message came */
	unsigned quiet_looks; /* in vain, after a while without any */
	uint64_t bytes, ops;  /* done and checked, both directions */
};

void session_open(struct session *session, const struct options *options, int channel,
		  bool is_client);
void session_run(struct session *session);
void session_close(struct session *session);

/* Where everything stands; for the deadline. */
void session_print(const struct session *session);

/* What was missing, all lanes together. */
struct tally session_tally(const struct session *session);

/* One step: completions in, work requests out. Sleeps if there is nothing and events are wanted. */
void session_pump(struct session *session);

#endif
