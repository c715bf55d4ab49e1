/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes and the sockets between them, for the tests that need no supervisor. */
#ifndef CHAOS_DUO_H
#define CHAOS_DUO_H

#include <sys/types.h>

#include "flow.h"

struct duo {
	pid_t child;
	int socket; /* to the other one */
};

/* Forks; true in the child, which dies with its parent. Call it before any RDMA. */
bool duo_split(struct duo *duo);

/* Exchanges hellos over the socket and connects. */
void duo_meet(struct duo *duo, struct flow *flow);

/* A byte over the socket, and waiting for one; false if the other one is gone. */
void duo_tell(struct duo *duo, char word);
bool duo_told(struct duo *duo, char word);
/* A word that came by now, or 0; never blocks. */
char duo_peek(struct duo *duo);

/* Waits for the child and gives its exit status, or -signal. */
int duo_status(struct duo *duo);

#endif
