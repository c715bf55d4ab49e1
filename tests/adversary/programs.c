/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs with one mistake each, which nobody notices on most days. The lines under `if
 * (!end->right)` are the mistake.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { MESSAGE = 256, LONG = 2048 };

static void fill(struct end *end, unsigned round, uint32_t length)
{
	memset(end->buffer + HALF, (int)(round % 255 + 1), length);
}

/* The peer's message of this round lies in the first half. */
static void check(const struct end *end, unsigned round, uint32_t length)
{
	const volatile uint8_t *bytes = end->buffer;

	for (uint32_t i = 0; i < length; i++)
		if (bytes[i] != (uint8_t)(round % 255 + 1))
			broken(end, "round %u: byte %u is %u instead of %u", round, i, bytes[i],
			       round % 255 + 1);
}

/* Posts the receive of a round before the client may send, and checks the message. */
static void take(struct end *end, unsigned qp, unsigned round, uint32_t length)
{
	receive(end, qp, round);
	tell(end);
	poll_one(end);
	check(end, round, length);
}

static void take_messages(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		take(end, 0, i, MESSAGE);
		tell(end);
	}
}

/* Adds one to the first word of the peer's buffer. */
static void count_one(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = work(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, &sge);

	wr.wr.atomic.remote_addr = end->peer_address;
	wr.wr.atomic.rkey = end->peer_rkey;
	wr.wr.atomic.compare_add = 1;
	post(end, 0, &wr);
}

/* --- reuse: a buffer is used again after the post --- */

static void reuse_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		await(end);
		fill(end, i, MESSAGE);
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		if (!end->right)
			memset(end->buffer + HALF, 0, MESSAGE);
		poll_one(end);
		memset(end->buffer + HALF, 0, MESSAGE);
		await(end);
	}
}

/* --- early: a WRITE is read when its first byte has come --- */

static void early_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		await(end);
		fill(end, i, LONG);
		simple(end, 0, IBV_WR_RDMA_WRITE, LONG);
		if (end->right)
			simple(end, 0, IBV_WR_SEND, 0);
		poll_one(end);
		if (end->right)
			poll_one(end);
		await(end);
	}
}

static void early_server(struct end *end)
{
	volatile uint8_t *bytes = end->buffer;

	for (unsigned i = 0; i < end->rounds; i++) {
		memset(end->buffer, 0, LONG);
		if (end->right)
			receive(end, 0, i);
		tell(end);
		if (end->right) {
			poll_one(end);
		} else {
			while (!bytes[0])
				rest(20);
			rest(100); /* "to be on the safe side" */
		}
		check(end, i, LONG);
		tell(end);
	}
}

/* --- crossing: data on one QP, the message about it on another --- */

static void crossing_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		await(end);
		fill(end, i, MESSAGE);
		simple(end, 0, IBV_WR_RDMA_WRITE, MESSAGE);
		simple(end, end->right ? 0 : 1, IBV_WR_SEND, 0);
		poll_one(end);
		poll_one(end);
		await(end);
	}
}

static void crossing_server(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		memset(end->buffer, 0, MESSAGE);
		take(end, end->right ? 0 : 1, i, MESSAGE);
		tell(end);
	}
}

/* --- unsignalled: without a completion nothing tells that a send is done --- */

static void unsignalled_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = work(end, IBV_WR_SEND, MESSAGE, &sge);

		await(end);
		fill(end, i, MESSAGE);
		wr.send_flags = 0;
		post(end, 0, &wr);
		/* A completion of the same QP covers the sends before it; another QP's does not. */
		simple(end, end->right ? 0 : 1, IBV_WR_RDMA_WRITE, 0);
		poll_one(end);
		memset(end->buffer + HALF, 0, MESSAGE);
		await(end);
		simple(end, 0, IBV_WR_RDMA_WRITE, 0); /* so that the queue does not fill */
		poll_one(end);
	}
}

/* --- order: of completions that nothing brings into order --- */

static void order_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		struct ibv_wc first;

		receive(end, 0, i);
		await(end);
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		first = poll_one(end);
		if (!end->right && first.opcode != IBV_WC_SEND)
			broken(end,
			       "round %u: the answer is there before the request has completed", i);
		poll_one(end);
	}
}

static void order_server(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		receive(end, 0, i);
		tell(end);
		poll_one(end);
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		poll_one(end);
	}
}

/* --- rnr: the next receive is posted after the answer, and the client does not try again --- */

static void rnr_client(struct end *end)
{
	await(end);
	for (unsigned i = 0; i < end->rounds; i++) {
		receive(end, 0, i);
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		poll_one(end);
		poll_one(end);
	}
}

static void rnr_server(struct end *end)
{
	receive(end, 0, 0);
	tell(end);
	for (unsigned i = 0; i < end->rounds; i++) {
		while (poll_one(end).opcode != IBV_WC_RECV)
			;
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		if (i + 1 < end->rounds)
			receive(end, 0, i);
	}
	poll_one(end);
}

/* --- torn: a READ of a record that its owner changes --- */

enum { WORDS = 32 };

static uint64_t sum_of(const volatile uint64_t *words)
{
	uint64_t sum = 0;

	for (unsigned i = 1; i < WORDS; i++)
		sum = sum * 31 + words[i];
	return sum;
}

static void torn_client(struct end *end)
{
	const volatile uint64_t *words = (void *)(end->buffer + HALF);

	await(end);
	for (unsigned i = 0; i < end->rounds; i++) {
		do {
			simple(end, 0, IBV_WR_RDMA_READ, WORDS * 8);
			poll_one(end);
		} while (end->right && words[0] != sum_of(words));
		for (unsigned w = 2; w < WORDS; w++)
			if (words[w] != words[1])
				broken(end, "round %u: word %u is %llu, word 1 is %llu", i, w,
				       (unsigned long long)words[w], (unsigned long long)words[1]);
	}
	tell(end);
}

static void torn_server(struct end *end)
{
	volatile uint64_t *words = (void *)end->buffer;

	words[0] = sum_of(words);
	tell(end);
	for (uint64_t version = 1;; version++) {
		rest(1000);
		words[0] = 0;
		atomic_thread_fence(memory_order_seq_cst);
		for (unsigned w = 1; w < WORDS; w++)
			words[w] = version;
		atomic_thread_fence(memory_order_seq_cst);
		words[0] = sum_of(words);
		if (is_told(end))
			break;
	}
}

/* --- event: each event means one completion --- */

static void event_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		await(end);
		simple(end, 0, IBV_WR_SEND, MESSAGE);
		poll_one(end);
	}
}

static unsigned take_event(struct end *end)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;
	unsigned count = 0;

	if (ibv_get_cq_event(end->channel, &cq, &context))
		broken(end, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
	if (!end->right)
		return (unsigned)ibv_poll_cq(cq, 1, &wc);
	while (ibv_poll_cq(cq, 1, &wc))
		count++;
	return count;
}

static void event_server(struct end *end)
{
	ibv_req_notify_cq(end->cq, 0);
	for (unsigned i = 0; i < end->rounds; i++) {
		unsigned got;

		receive(end, 0, i);
		tell(end);
		do
			got = take_event(end);
		while (end->right && !got);
		if (got != 1)
			broken(end, "round %u: the event brought %u completions", i, got);
	}
}

/* --- visible: an atomic is visible to the target's CPU once it is posted --- */

static void visible_client(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++) {
		await(end);
		count_one(end);
		if (end->right)
			poll_one(end);
		tell(end);
		if (!end->right)
			poll_one(end);
	}
}

static void visible_server(struct end *end)
{
	const volatile uint64_t *word = (void *)end->buffer;

	for (unsigned i = 0; i < end->rounds; i++) {
		tell(end);
		await(end);
		rest(100);
		if (*word != i + 1)
			broken(end, "round %u: the counter is %llu", i, (unsigned long long)*word);
	}
}

/* --- counter: both the peer's NIC and the own CPU count in one word --- */

static void counter_client(struct end *end)
{
	await(end);
	for (unsigned i = 0; i < end->rounds; i++) {
		count_one(end);
		poll_one(end);
	}
	tell(end);
}

/* The right program gives the CPU a word of its own, and adds the two. */
static void counter_server(struct end *end)
{
	_Atomic uint64_t *word = (void *)end->buffer;
	_Atomic uint64_t *mine = end->right ? word + 1 : word;
	uint64_t added = 0;

	tell(end);
	do {
		rest(50);
		atomic_fetch_add(mine, 1);
		added++;
	} while (!is_told(end));
	if (word[0] + (end->right ? word[1] : 0) != added + end->rounds)
		broken(end, "the counter is %llu, after %llu + %u", (unsigned long long)word[0],
		       (unsigned long long)added, end->rounds);
}

/* --- inline: more bytes than the QP was asked for --- */

static void inline_client(struct end *end)
{
	const uint32_t length = INLINE_BYTES + (end->right ? 0 : 8);

	for (unsigned i = 0; i < end->rounds; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = work(end, IBV_WR_SEND, length, &sge);

		await(end);
		fill(end, i, length);
		wr.send_flags |= IBV_SEND_INLINE;
		post(end, 0, &wr);
		poll_one(end);
	}
}

static void inline_server(struct end *end)
{
	for (unsigned i = 0; i < end->rounds; i++)
		take(end, 0, i, INLINE_BYTES);
}

const struct program programs[] = {
	{ "reuse", "a buffer is used again after the post", 7, false, reuse_client, take_messages },
	{ "early", "a WRITE is read once its first byte is there", 7, false, early_client,
	  early_server },
	{ "crossing", "data goes by one QP, the message about it by another", 7, false,
	  crossing_client, crossing_server },
	{ "unsignalled", "another QP's completion stands for an unsignalled send", 7, false,
	  unsignalled_client, take_messages },
	{ "order", "a request completes before its answer comes", 7, false, order_client,
	  order_server },
	{ "rnr", "the next receive is always posted in time", 0, false, rnr_client, rnr_server },
	{ "torn", "a READ shows a record as it was at one moment", 7, false, torn_client,
	  torn_server },
	{ "event", "each event brings one completion", 7, false, event_client, event_server },
	{ "visible", "a posted atomic is visible to the target's CPU", 7, false, visible_client,
	  visible_server },
	{ "counter", "the NIC's atomics and the CPU's are atomic against each other", 7, true,
	  counter_client, counter_server },
	{ "inline", "there is room for more inline bytes than were asked for", 7, false,
	  inline_client, inline_server },
};

const unsigned program_count = sizeof(programs) / sizeof(*programs);
