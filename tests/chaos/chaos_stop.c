/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target is stopped (SIGSTOP). As with a real NIC its CPU takes no part in what is done to its
 * memory: writes, reads, atomics and sends to posted receives go on, and it finds them when it
 * continues.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duo.h"

enum { DEADLINE_US = 10000000, DEPTH = 32, STOPPED_SENDS = 24 };

static struct rig rig;
static struct duo duo;
static unsigned ops_count = 3000;
static const uint32_t sizes[] = { 32, 256, 4096, 65536 };

static struct flow_shape shape_of(enum mix mix, uint32_t size_max, bool target)
{
	return (struct flow_shape){ .mix = mix,
				    .lanes = 1,
				    .depth = DEPTH,
				    .size_max = size_max,
				    .tag_out = target ? 0x1000 : 0x2000,
				    .tag_in = target ? 0x2000 : 0x1000,
				    .seed = size_max };
}

/* Receives until the initiator says how many messages there were. */
static uint64_t target_pump(struct flow *flow)
{
	uint64_t expected;
	ssize_t length;

	while ((length = recv(duo.socket, &expected, 8, MSG_DONTWAIT)) < 0)
		flow_poll(flow);
	CHECK(length == 8, "the initiator ended");
	return expected;
}

/* Does nothing at all: this is where it is stopped. */
static uint64_t target_sleep(struct flow *flow)
{
	uint64_t expected = flow->messages_in;

	CHECK(recv(duo.socket, &expected, 8, 0) == 8, "the initiator ended");
	return expected;
}

static void target_receive(struct flow *flow, uint64_t expected)
{
	uint64_t start = clock_us();

	while (flow->messages_in < expected) {
		flow_poll(flow);
		CHECK(clock_us() - start < DEADLINE_US, "%llu of %llu messages arrived",
		      (unsigned long long)flow->messages_in, (unsigned long long)expected);
	}
	CHECK(flow->messages_in == expected, "more messages arrived than were sent");
	flow_region_check(flow);
	duo_tell(&duo, 'd');
}

static void target_one(enum mix mix, uint32_t size_max)
{
	static struct flow flow;
	struct flow_shape shape = shape_of(mix, size_max, true);

	flow_open(&flow, &rig, &shape, NULL);
	rx_fill(flow.rx);
	flow.repost = true;
	duo_meet(&duo, &flow);
	duo_tell(&duo, 'r');
	target_receive(&flow, target_pump(&flow));
	target_receive(&flow, target_sleep(&flow));
	target_receive(&flow, target_pump(&flow));
	flow_close(&flow);
	duo_tell(&duo, 'c');
}

static void target_main(void)
{
	rig_name("target", "");
	rig_open(&rig);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		target_one(MIX_ONESIDED, sizes[i]);
		target_one(MIX_SEND, sizes[i]);
	}
	rig_close(&rig);
	exit(0);
}

static void target_stop(void)
{
	int status;

	CHECK(!kill(duo.child, SIGSTOP), "kill: %s", strerror(errno));
	CHECK(waitpid(duo.child, &status, WUNTRACED) == duo.child && WIFSTOPPED(status),
	      "the target did not stop");
}

static void target_continue(void)
{
	int status;

	CHECK(!kill(duo.child, SIGCONT), "kill: %s", strerror(errno));
	CHECK(waitpid(duo.child, &status, WCONTINUED) == duo.child && WIFCONTINUED(status),
	      "the target did not continue");
}

static bool run(struct flow *flow, uint64_t count)
{
	struct tx *tx = &flow->lane[0].tx;
	uint64_t start = clock_us();

	tx->limit = tx->posted + count;
	while (!flow_sent_all(flow)) {
		flow_pump(flow);
		if (clock_us() - start > DEADLINE_US) {
			printf("# %llu WRs posted, %llu done\n", (unsigned long long)tx->posted,
			       (unsigned long long)tx->done);
			return false;
		}
	}
	return true;
}

static void report_messages(struct flow *flow)
{
	uint64_t messages = flow->lane[0].tx.messages;

	CHECK(send(duo.socket, &messages, 8, MSG_NOSIGNAL) == 8, "the target is gone");
	CHECK(duo_told(&duo, 'd'), "the target failed");
}

static bool is_stopped(void)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", duo.child);
	FILE *file = fopen(path, "re");
	CHECK(file, "%s: %s", path, strerror(errno));
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(file);
	return state == 'T';
}

static void initiator_one(enum mix mix, uint32_t size_max)
{
	static struct flow flow;
	struct flow_shape shape = shape_of(mix, size_max, false);
	const char *what =
		mix == MIX_SEND ? "sends to posted receives" : "writes, reads and atomics";
	struct tx *tx = &flow.lane[0].tx;
	bool ok;

	flow_open(&flow, &rig, &shape, NULL);
	duo_meet(&duo, &flow);
	CHECK(duo_told(&duo, 'r'), "the target failed");
	CHECK(run(&flow, 100), "no traffic before the stop");
	report_messages(&flow); /* all receives are posted again */

	target_stop();
	tx->messages_max = tx->messages + STOPPED_SENDS;
	ok = run(&flow, mix == MIX_SEND ? STOPPED_SENDS : ops_count) && is_stopped();
	target_continue();
	tap(ok, "%s up to %u B complete while the target is stopped", what, size_max);
	report_messages(&flow);

	tx->messages_max = 0;
	ok = run(&flow, 200);
	report_messages(&flow);
	tap(ok, "%s up to %u B work after it continued", what, size_max);
	CHECK(duo_told(&duo, 'c'), "the target failed");
	flow_close(&flow);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-n"))
		ops_count = (unsigned)strtoul(argv[2], NULL, 0);
	if (duo_split(&duo))
		target_main();
	rig_name("initiator", "");
	rig_open(&rig);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		initiator_one(MIX_ONESIDED, sizes[i]);
		initiator_one(MIX_SEND, sizes[i]);
	}
	tap(duo_status(&duo) == 0, "the target found every message, in order");
	rig_close(&rig);
	return tap_end();
}
