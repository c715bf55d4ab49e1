/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer becomes another program (exec) under traffic. For the other side it died: RETRY_EXC_ERR
 * at once; and not one byte goes into the memory of the new image, although it lies at the same
 * addresses of a process with the same pid.
 *
 *   chaos_exec [-n rounds] [-s seed] PATH/exec_image
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "duo.h"

enum { AT_ONCE_US = 1000000, DEPTH = 16, DELAY_US_MAX = 3000 };

#define PEER "--peer"

static const uintptr_t region_at = 0x200000000000;
static uint64_t seed;
static const char *image;
static const uint32_t sizes[] = { 64, 4096, 65536 };

static struct flow_shape shape_of(unsigned round, bool peer)
{
	return (struct flow_shape){ .mix = MIX_ONESIDED,
				    .lanes = 1,
				    .depth = DEPTH,
				    .size_max = sizes[round % 3],
				    .events = !peer && round % 4 == 3,
				    .tag_out = (round + 1) << 8 | (peer ? 0x10 : 0x20),
				    .tag_in = (round + 1) << 8 | (peer ? 0x20 : 0x10),
				    .send_limit = peer && round % 2 ? 0 : UINT64_MAX,
				    .seed = seed + round,
				    .region_at = peer ? (void *)region_at : NULL };
}

static void keep_over_exec(int fd)
{
	CHECK(!fcntl(fd, F_SETFD, 0), "fcntl: %s", strerror(errno));
}

static void become_image(struct duo *duo, const struct flow *flow)
{
	char address[32], size[32], socket[16];

	snprintf(address, sizeof(address), "%#llx", (unsigned long long)region_at);
	snprintf(size, sizeof(size), "%zu", flow->map.size);
	snprintf(socket, sizeof(socket), "%d", duo->socket);
	keep_over_exec(duo->socket);
	execl(image, image, address, size, socket, (char *)NULL);
	FAIL("exec of %s: %s", image, strerror(errno));
}

/* A forked child would inherit the survivor's RDMA objects: the peer starts as a fresh image. */
static void become_peer(struct duo *duo, unsigned round)
{
	char socket[16], number[16], seed_text[32];

	snprintf(socket, sizeof(socket), "%d", duo->socket);
	snprintf(number, sizeof(number), "%u", round);
	snprintf(seed_text, sizeof(seed_text), "%#llx", (unsigned long long)seed);
	keep_over_exec(duo->socket);
	execl("/proc/self/exe", "chaos_exec", PEER, socket, number, seed_text, image, (char *)NULL);
	FAIL("exec of myself: %s", strerror(errno));
}

/* args: socket, round, seed, image */
static void peer_main(char **args)
{
	static struct rig rig;
	static struct flow flow;
	struct duo peer = { .socket = atoi(args[0]) }, *duo = &peer;
	unsigned round = (unsigned)atoi(args[1]);

	seed = strtoull(args[2], NULL, 0);
	image = args[3];
	struct flow_shape shape = shape_of(round, true);
	struct rng rng = rng_fork(seed, round);
	uint64_t until;

	rig_name("peer", "");
	rig_round(round);
	rig_open(&rig);
	flow_open(&flow, &rig, &shape, NULL);
	rx_fill(flow.rx);
	flow.repost = true;
	duo_meet(duo, &flow);
	while (!flow.messages_in)
		flow_pump(&flow);
	until = clock_us() + rng_below(&rng, DELAY_US_MAX);
	while (clock_us() < until)
		flow_pump(&flow);
	duo_tell(duo, 'x'); /* about to exec */
	become_image(duo, &flow);
}

/* Goes on until the failure; gives the time since the peer said that it would exec. */
static uint64_t run_until_failure(struct duo *duo, struct flow *flow)
{
	const struct tx *tx = &flow->lane[0].tx;
	uint64_t told = 0, start = clock_us();

	while (!tx->failure || tx->done < tx->posted || flow->rx->busy) {
		if (!flow_pump(flow) && !tx->failure)
			flow_idle(flow, duo->socket, 100);
		flow->repost = !tx->failure;
		if (!told && duo_peek(duo) == 'x')
			told = clock_us();
		CHECK(clock_us() - start < 15000000, "no failure after the exec of the peer");
	}
	if (!told)
		CHECK(duo_told(duo, 'x'), "a send failed before the exec");
	return told ? clock_us() - told : 0;
}

static bool run_round(struct rig *rig, unsigned round, uint64_t *worst_us)
{
	static struct flow flow;
	struct flow_shape shape = shape_of(round, false);
	struct duo duo;
	int status;

	if (duo_split(&duo))
		become_peer(&duo, round);
	rig_round(round);
	if (!rig->ctx)
		rig_open(rig);
	flow_open(&flow, rig, &shape, NULL);
	rx_fill(flow.rx);
	flow.repost = flow.may_fail = true;
	duo_meet(&duo, &flow);
	uint64_t spent_us = run_until_failure(&duo, &flow);
	CHECK(flow.lane[0].tx.failure == IBV_WC_RETRY_EXC_ERR, "failure is %s",
	      ibv_wc_status_str(flow.lane[0].tx.failure));
	flow_region_check(&flow);
	flow_close(&flow);
	shutdown(duo.socket, SHUT_WR); /* the image may watch no longer: its status says why */
	status = duo_status(&duo);
	close(duo.socket);
	if (spent_us > *worst_us)
		*worst_us = spent_us;
	if (status)
		printf("# round %u: the new image ended with %d; replay: chaos_exec -s %#llx -n "
		       "%u\n",
		       round, status, (unsigned long long)seed, round + 1);
	return status == 0;
}

int main(int argc, char **argv)
{
	static struct rig rig;
	unsigned rounds = 30, good = 0;
	uint64_t worst_us = 0;
	int option;

	seed = clock_us();
	if (argc == 6 && !strcmp(argv[1], PEER))
		peer_main(argv + 2);
	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		if (option == 'n')
			rounds = (unsigned)strtoul(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: %s [-n rounds] [-s seed] PATH/exec_image\n", argv[0]);
		return 2;
	}
	image = argv[optind];
	printf("# seed %#llx\n", (unsigned long long)seed);
	rig_name("survivor", "");
	for (unsigned round = 0; round < rounds; round++)
		good += run_round(&rig, round, &worst_us);
	tap(good == rounds, "%u of %u execs under traffic left the new image untouched", good,
	    rounds);
	tap(worst_us < AT_ONCE_US, "every exec showed as RETRY_EXC_ERR, the slowest after %.1f ms",
	    (double)worst_us / 1e3);
	return tap_end();
}
