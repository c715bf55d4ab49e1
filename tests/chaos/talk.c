/* SPDX-License-Identifier: BSD-2-Clause */
/* A party's two sockets: orders and notes, and the hellos of the other party. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "party.h"

void party_step(struct party *party, const char *step)
{
	atomic_store(&party->board->step[party->role], step);
}

void party_note(struct party *party, const struct note *note)
{
	if (send(party->orders, note, sizeof(*note), MSG_NOSIGNAL) != sizeof(*note))
		_exit(2); /* the supervisor is gone and has said why */
}

void party_say(struct party *party, const struct flow *flow, unsigned round, enum step step)
{
	struct hello hello = { .round = round, .step = step };

	if (flow)
		flow_describe(flow, &hello);
	CHECK(send(party->peer, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello), "hello: %s",
	      strerror(errno));
}

/* What a dead party left in the socket belongs to another round or step: thrown away. */
static bool hear_now(struct party *party, unsigned round, enum step step, struct hello *hello)
{
	while (recv(party->peer, hello, sizeof(*hello), MSG_DONTWAIT) == sizeof(*hello)) {
		if (hello->round == round && hello->step == step)
			return true;
	}
	return false;
}

void party_look(struct party *party)
{
	struct order order;
	ssize_t length = recv(party->orders, &order, sizeof(order), MSG_DONTWAIT);

	if (length < 0)
		return;
	if (length == 0)
		_exit(2);
	CHECK(order.what == ORDER_DEAD, "order %d in the middle of a round", order.what);
	party->dead = true;
}

bool party_hear(struct party *party, unsigned round, enum step step, struct hello *hello)
{
	struct pollfd fds[2] = { { .fd = party->peer, .events = POLLIN },
				 { .fd = party->orders, .events = POLLIN } };

	for (;;) {
		if (hear_now(party, round, step, hello))
			return true;
		if (party->dead)
			return false;
		poll(fds, 2, -1);
		party_look(party);
	}
}
