/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer has sent before it ended the connection, or was killed, is there for the program that
 * sees DISCONNECTED.
 *
 *   this process: directs, by pipes and signals
 *   server: connected to the client; sends when it is told to, then disconnects or is killed
 *   client: stopped meanwhile, so that messages and the end come to it at once
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "party.h"

enum { MESSAGES = 8, ROUNDS = 8, LATE_MS = 50 };

/* A child ends by this instead of an assertion. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

struct pipes {
	int port[2];  /* server to client: where it listens */
	int ready[2]; /* client to director: connected; and how many messages were there */
	int go[2];    /* director to server: send */
	int sent[2];  /* server to director */
};

static void say(const int *ends, uint16_t word)
{
	CHECK(write(ends[1], &word, sizeof(word)) == sizeof(word));
}

static uint16_t hear(const int *ends)
{
	uint16_t word = 0;

	CHECK(read(ends[0], &word, sizeof(word)) == sizeof(word));
	return word;
}

/* --- the server --- */

static int serve(const struct pipes *pipes, bool dies)
{
	struct party party;
	uint8_t bytes[8] = { 0 };

	party_begin(&party, RDMA_PS_TCP);
	say(pipes->port, party.port);
	party_request(&party);
	CHECK(!rdma_accept(party.server, NULL));
	CHECK(!expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED));
	/* The first one finds the way. */
	for (int i = 0; i <= MESSAGES; i++) {
		if (i == 1)
			hear(pipes->go);
		CHECK(!rdma_post_send(party.server, NULL, bytes, sizeof(bytes), NULL,
				      IBV_SEND_INLINE));
	}
	if (!dies)
		CHECK(!rdma_disconnect(party.server));
	say(pipes->sent, 0);
	/* Killed, or waits for the client's answer. */
	expect_event(party.server_channel, RDMA_CM_EVENT_DISCONNECTED);
	party_end(&party);
	return 0;
}

/* --- the client --- */

static int poll_received(struct rdma_cm_id *id)
{
	struct ibv_wc wc[MESSAGES];
	int got = ibv_poll_cq(id->recv_cq, MESSAGES, wc), received = 0;

	CHECK(got >= 0);
	for (int i = 0; i < got; i++)
		received += wc[i].status == IBV_WC_SUCCESS;
	return received;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void create_qp_small(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = MESSAGES,
						  .max_recv_wr = MESSAGES + 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = 8 },
					 .qp_type = IBV_QPT_RC };

	rdma_destroy_qp(id);
	CHECK(!rdma_create_qp(id, NULL, &attr));
}

static int be_client(const struct pipes *pipes)
{
	static uint8_t bytes[MESSAGES + 1][8];
	struct party party;
	struct ibv_mr *mr;
	uint64_t until_ms;
	int received = 0, more;

	party_begin(&party, RDMA_PS_TCP);
	party.port = hear(pipes->port);
	party_resolve(&party);
	create_qp_small(party.client);
	mr = rdma_reg_msgs(party.client, bytes, sizeof(bytes));
	CHECK(mr);
	for (int i = 0; i <= MESSAGES; i++)
		CHECK(!rdma_post_recv(party.client, NULL, bytes[i], sizeof(bytes[i]), mr));
	CHECK(!rdma_connect(party.client, NULL));
	CHECK(!expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED));
	while (!poll_received(party.client))
		;
	say(pipes->ready, 0);
	expect_event(party.client_channel, RDMA_CM_EVENT_DISCONNECTED);
	while ((more = poll_received(party.client)))
		received += more;
	/* Nothing can come later: it was there. */
	for (until_ms = now_ms() + LATE_MS; now_ms() < until_ms;)
		CHECK(!poll_received(party.client));
	say(pipes->ready, (uint16_t)received);
	CHECK(!rdma_disconnect(party.client));
	rdma_dereg_mr(mr);
	party_end(&party);
	return 0;
}

/* --- the director --- */

static pid_t start(const struct pipes *pipes, bool server, bool dies)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(server ? serve(pipes, dies) : be_client(pipes));
	return child;
}

/* How many of the messages had left. */
static int direct(bool dies)
{
	struct pipes pipes;
	int *all[] = { pipes.port, pipes.ready, pipes.go, pipes.sent };
	pid_t server, client;
	int status, received;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pipe(all[i]), 0);
	server = start(&pipes, true, dies);
	client = start(&pipes, false, dies);
	hear(pipes.ready);
	kill(client, SIGSTOP);
	assert_int_equal(waitpid(client, &status, WUNTRACED), client);
	assert_true(WIFSTOPPED(status));
	say(pipes.go, 0);
	hear(pipes.sent);
	if (dies) {
		kill(server, SIGKILL);
		assert_int_equal(waitpid(server, &status, 0), server);
	}
	kill(client, SIGCONT);
	assert_int_equal(waitpid(client, &status, 0), client);
	assert_int_equal(status, 0);
	received = hear(pipes.ready);
	if (!dies) {
		assert_int_equal(waitpid(server, &status, 0), server);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 4; i++) {
		close(all[i][0]);
		close(all[i][1]);
	}
	return received;
}

static void hear_last_words(bool dies)
{
	int received = 0;

	for (int round = 0; round < ROUNDS; round++)
		received += direct(dies);
	assert_in_range(received, 1, ROUNDS * MESSAGES);
}

static void the_last_words_of_one_who_disconnects(void **state)
{
	SKIP_WITHOUT_FORK();
	hear_last_words(false);
	(void)state;
}

static void the_last_words_of_one_who_is_killed(void **state)
{
	SKIP_WITHOUT_FORK();
	hear_last_words(true);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_words_of_one_who_disconnects),
		cmocka_unit_test(the_last_words_of_one_who_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
