/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors of a program around its messages, one each, for the tools to find. The client has them. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"

static volatile int seen; /* so that no read is left out */

/* Eight bytes, whose first four are the largest number. */
static void send_word(struct side *side)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	const int most = INT_MAX;

	fill(side, 8);
	memcpy(side->out, &most, sizeof(most));
	send_post(side, LANE_RC, &wr, 8);
}

static void one_message(struct side *side)
{
	if (side->server)
		send_word(side);
	else
		receive_post(side, LANE_RC, 64);
	CHECK(completion(side).byte_len == 8);
}

/* Both sides have come here. */
static void meet(const struct side *side)
{
	char mine = 0, theirs;

	exchange(side, &mine, &theirs, 1);
}

/* The server's message goes into memory that the client has given back. */
static void freed_too_early(struct side *side)
{
	struct side doomed = *side;

	if (!side->server) {
		doomed.in = malloc(64);
		doomed.in_mr = ibv_reg_mr(side->pd, doomed.in, 64, IBV_ACCESS_LOCAL_WRITE);
		CHECK(doomed.in_mr != NULL);
		receive_post(&doomed, LANE_RC, 64);
		free(doomed.in);
	}
	meet(side);
	if (side->server)
		send_word(side);
	CHECK(completion(side).status == IBV_WC_SUCCESS);
	if (!side->server)
		CHECK(!ibv_dereg_mr(doomed.in_mr));
}

/* The compiler does not see that it is the same pointer, and does not warn. */
static uint8_t *again(uint8_t *pointer)
{
	uint8_t *volatile hidden = pointer;

	return hidden;
}

static void freed(struct side *side)
{
	one_message(side);
	if (side->server)
		return;
	CHECK(!ibv_dereg_mr(side->in_mr));
	free(side->in);
	seen = *again(side->in);
	side->in = NULL;
	side->in_mr = ibv_reg_mr(side->pd, side->out, 1, IBV_ACCESS_LOCAL_WRITE);
}

/* A message of eight bytes came, and the program looks at the ninth. */
static void undefined(struct side *side)
{
	one_message(side);
	if (!side->server && side->in[8] == 1)
		puts("one");
}

static void *early_reader(void *arg)
{
	seen = *(uint8_t *)arg;
	return NULL;
}

/* A thread reads the buffer of a receive whose completion no thread has polled. */
static void race(struct side *side)
{
	pthread_t thread;

	if (!side->server)
		CHECK(!pthread_create(&thread, NULL, early_reader, side->in));
	one_message(side);
	if (!side->server)
		CHECK(!pthread_join(thread, NULL));
}

static int count;

static void *counter(void *arg)
{
	count++;
	return arg;
}

/* Two threads, and nothing of RDMA. */
static void own_race(struct side *side)
{
	pthread_t thread;

	one_message(side);
	if (side->server)
		return;
	CHECK(!pthread_create(&thread, NULL, counter, NULL));
	count++;
	CHECK(!pthread_join(thread, NULL));
}

static void leak(struct side *side)
{
	char *volatile lost = malloc(100);

	one_message(side);
	lost = NULL;
	(void)lost;
}

static void overflow(struct side *side)
{
	int value;

	one_message(side);
	if (side->server)
		return;
	memcpy(&value, side->in, sizeof(value));
	seen = value + 1;
}

static const struct {
	const char *name;
	void (*run)(struct side *side);
} errors[] = {
	{ "freed-too-early", freed_too_early },
	{ "freed", freed },
	{ "undefined", undefined },
	{ "race", race },
	{ "own-race", own_race },
	{ "leak", leak },
	{ "overflow", overflow },
};

bool planted(const char *error, struct side *side)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, error)) {
			errors[i].run(side);
			return true;
		}
	return false;
}
