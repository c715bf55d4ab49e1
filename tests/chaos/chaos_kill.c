/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill -9 on either side, at any moment, under any traffic.
 *
 *   supervisor --orders--> host  (old)  <== RDMA ==>  guest (young) <--orders-- supervisor
 *
 * The supervisor never touches RDMA. In every round the two parties start traffic, one of them is
 * killed, the other one must find everything it posted completed exactly once, and a new process
 * takes the place of the dead one and must be able to talk to the survivor at once.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "party.h"

enum { SLOW_US = 500000, NOTE_DEADLINE_MS = 30000, GROWN_UP_ROUNDS = 64 };
/* Descriptors: some for lanes that open and close (nic/lane.h). */
enum { GROWTH_FDS = 16, GROWTH_MAPS = 24, GROWTH_RSS_KB = 4096, GROWTH_ROUNDS = 20 };

struct crew {
	struct board *board;
	uint64_t seed;
	unsigned first, rounds;
	const char *kind; /* of every round; NULL: all kinds */
	bool debug;       /* run gdb on whoever hangs */
	pid_t pid[ROLES];
	int orders[ROLES];
	int peer[ROLES]; /* kept open here: the sockets outlive every party */
	unsigned kinds[KINDS], moments[MOMENTS], victims[ROLES];
	unsigned late, host_age;
	unsigned grown; /* rounds in a row: on a busy machine the last dead are let go of later */
	uint64_t settle_us_max[2]; /* of peers that had not talked yet, and that had */
	struct holdings young, growth_max;
};

static struct crew crew;
static const char *const role_name[ROLES] = { "host", "guest" };

static void kill_all(void)
{
	for (unsigned i = 0; i < ROLES; i++) {
		if (crew.pid[i] > 0)
			kill(crew.pid[i], SIGKILL);
	}
}

static void backtrace(enum role role)
{
	char command[128];

	fprintf(stderr, "#   %s pid %d was %s: gdb -p %d\n", role_name[role], crew.pid[role],
		atomic_load(&crew.board->step[role]), crew.pid[role]);
	if (!crew.debug || crew.pid[role] <= 0)
		return;
	snprintf(command, sizeof(command),
		 "gdb -p %d -batch -ex 'thread apply all bt' >&2 2>/dev/null", crew.pid[role]);
	if (system(command))
		fprintf(stderr, "# gdb did not run\n");
}

static void say_replay(unsigned first, unsigned rounds)
{
	fprintf(stderr, "# replay: chaos_kill -s %#llx -f %u -n %u%s%s\n",
		(unsigned long long)crew.seed, first, rounds, crew.kind ? " -k " : "",
		crew.kind ? crew.kind : "");
}

static void give_up(const struct plan *plan, const char *why)
{
	fflush(stdout);
	fprintf(stderr, "# round %u %s: %s\n", plan->round, plan->text, why);
	backtrace(ROLE_HOST);
	backtrace(ROLE_GUEST);
	say_replay(plan->round, 1);
	say_replay(crew.first, plan->round - crew.first + 1);
	tap(false, "round %u: %s", plan->round, why);
	if (getenv("CHAOS_PAUSE"))
		pause();
	kill_all();
	tap_end();
	exit(1);
}

static void spawn(enum role role)
{
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair: %s",
	      strerror(errno));
	fflush(stdout);
	crew.pid[role] = fork();
	CHECK(crew.pid[role] >= 0, "fork: %s", strerror(errno));
	if (!crew.pid[role]) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		close(crew.orders[!role]);
		close(crew.peer[!role]);
		party_main(role, pair[1], crew.peer[role], crew.board, crew.seed);
	}
	close(pair[1]);
	crew.orders[role] = pair[0];
	if (role == ROLE_HOST)
		crew.host_age = crew.grown = 0;
}

static void give_order(const struct plan *plan, enum role role, const struct order *order)
{
	if (send(crew.orders[role], order, sizeof(*order), MSG_NOSIGNAL) != sizeof(*order))
		give_up(plan, "a party ended before its order");
}

static bool read_note(enum role role, struct note *note, const struct plan *plan)
{
	ssize_t length = recv(crew.orders[role], note, sizeof(*note), MSG_DONTWAIT);

	if (length == 0)
		give_up(plan, role == ROLE_HOST ? "the host failed" : "the guest failed");
	return length == sizeof(*note);
}

/* Waits for one note of one party; the other one must not fail meanwhile. */
static struct note await(const struct plan *plan, enum role role, enum note_kind what)
{
	struct pollfd fds[2] = { { .fd = crew.orders[role], .events = POLLIN },
				 { .fd = crew.orders[!role], .events = 0 } };
	uint64_t start = clock_us();
	struct note note;

	for (;;) {
		if (read_note(role, &note, plan)) {
			if (note.what == what && note.round == plan->round)
				return note;
			continue;
		}
		poll(fds, 2, 1000);
		if (fds[1].revents & POLLHUP && fds[1].fd >= 0)
			give_up(plan, role == ROLE_HOST ? "the guest failed" : "the host failed");
		if (clock_us() - start > NOTE_DEADLINE_MS * 1000ull)
			give_up(plan, "a party hangs");
	}
}

static void reap(const struct plan *plan, enum role role, bool killed)
{
	int status = 0;

	CHECK(waitpid(crew.pid[role], &status, 0) == crew.pid[role], "waitpid: %s",
	      strerror(errno));
	close(crew.orders[role]);
	crew.orders[role] = -1;
	crew.pid[role] = 0;
	if (killed && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		give_up(plan, "the victim failed before it was killed");
	if (!killed && status)
		give_up(plan, "a party did not end well");
}

static void dismiss(const struct plan *plan, enum role role)
{
	give_order(plan, role, &(struct order){ .what = ORDER_QUIT, .round = plan->round });
	reap(plan, role, false);
}

static void start_traffic(const struct plan *plan)
{
	struct order order = { .what = ORDER_TRAFFIC, .round = plan->round };

	memset(crew.board->tally, 0, sizeof(crew.board->tally));
	if (plan->fresh_guest && crew.pid[ROLE_GUEST])
		dismiss(plan, ROLE_GUEST);
	give_order(plan, ROLE_HOST, &order);
	if (!crew.pid[ROLE_GUEST])
		spawn(ROLE_GUEST);
	give_order(plan, ROLE_GUEST, &order);
}

/* The one sleep in this program: the moment of death is what is random here. */
static void strike(const struct plan *plan)
{
	if (plan->moment == MOMENT_CONNECTED)
		await(plan, plan->victim, NOTE_CONNECTED);
	else if (plan->moment == MOMENT_FLOWING)
		await(plan, plan->victim, NOTE_FLOWING);
	usleep(plan->delay_us);
	atomic_store(&crew.board->doomed_round, plan->round + 1);
	kill(crew.pid[plan->victim], SIGKILL);
	reap(plan, plan->victim, true);
}

static void account(const struct plan *plan, const struct note *host)
{
	const struct holdings *now = &host->holdings;
	uint32_t fds, maps;
	uint64_t rss_kb;

	if (++crew.host_age <= GROWN_UP_ROUNDS) {
		crew.young = *now;
		return;
	}
	fds = now->fds > crew.young.fds ? now->fds - crew.young.fds : 0;
	maps = now->maps > crew.young.maps ? now->maps - crew.young.maps : 0;
	rss_kb = now->rss_kb > crew.young.rss_kb ? now->rss_kb - crew.young.rss_kb : 0;
	if (fds <= GROWTH_FDS && maps <= GROWTH_MAPS && rss_kb <= GROWTH_RSS_KB) {
		crew.grown = 0;
	} else if (++crew.grown == GROWTH_ROUNDS) {
		fprintf(stderr, "# host: fds %u -> %u, mappings %u -> %u, RSS %llu -> %llu KB\n",
			crew.young.fds, now->fds, crew.young.maps, now->maps,
			(unsigned long long)crew.young.rss_kb, (unsigned long long)now->rss_kb);
		give_up(plan, "the long-lived survivor grows");
	}
	if (fds > crew.growth_max.fds)
		crew.growth_max.fds = fds;
	if (maps > crew.growth_max.maps)
		crew.growth_max.maps = maps;
	if (rss_kb > crew.growth_max.rss_kb)
		crew.growth_max.rss_kb = rss_kb;
}

static void probe(const struct plan *plan, const struct note *settled)
{
	enum role survivor = !plan->victim;
	struct order order = { .what = ORDER_PROBE,
			       .round = plan->round,
			       .rest = settled->rest,
			       .rest_kind = plan->kind };
	struct note notes[ROLES];

	spawn(plan->victim);
	give_order(plan, survivor, &order);
	order.fresh = true;
	give_order(plan, plan->victim, &order);
	notes[survivor] = await(plan, survivor, NOTE_PROBED);
	notes[plan->victim] = await(plan, plan->victim, NOTE_PROBED);
	crew.late += notes[survivor].late;
	account(plan, &notes[ROLE_HOST]);
}

static void run_round(const struct plan *plan)
{
	enum role survivor = !plan->victim;
	struct note settled;

	start_traffic(plan);
	strike(plan);
	give_order(plan, survivor, &(struct order){ .what = ORDER_DEAD, .round = plan->round });
	settled = await(plan, survivor, NOTE_SETTLED);
	if (settled.settle_us > crew.settle_us_max[settled.flowing])
		crew.settle_us_max[settled.flowing] = settled.settle_us;
	if (settled.settle_us > SLOW_US)
		printf("# round %u %s took %.1f s to show the death\n", plan->round, plan->text,
		       (double)settled.settle_us / 1e6);
	probe(plan, &settled);
	crew.kinds[plan->kind]++;
	crew.moments[plan->moment]++;
	crew.victims[plan->victim]++;
}

static void run_rounds(void)
{
	uint64_t start = clock_us();

	for (unsigned i = 0; i < crew.rounds; i++) {
		struct plan plan = plan_make(crew.seed, crew.first + i);

		if (getenv("CHAOS_VERBOSE"))
			fprintf(stderr, "# %u %s\n", plan.round, plan.text);
		run_round(&plan);
	}
	tap(true, "%u rounds of kill -9 in %.1f s: exactly once, nothing hangs, new pairs work",
	    crew.rounds, (double)(clock_us() - start) / 1e6);
	printf("# killed: %u hosts, %u guests; in setup %u, connecting %u, flowing %u\n",
	       crew.victims[ROLE_HOST], crew.victims[ROLE_GUEST], crew.moments[MOMENT_SPAWN],
	       crew.moments[MOMENT_CONNECTED], crew.moments[MOMENT_FLOWING]);
	for (unsigned i = 0; i < KINDS; i++)
		printf("# %s: %u rounds\n", kind_name(i), crew.kinds[i]);
	tap(true, "a death showed within %.1f ms, before the first message within %.1f ms",
	    (double)crew.settle_us_max[1] / 1e3, (double)crew.settle_us_max[0] / 1e3);
	printf("# %u datagrams of the dead came up late\n", crew.late);
	tap(true, "the old host grew by %u fds, %u mappings, %llu KB", crew.growth_max.fds,
	    crew.growth_max.maps, (unsigned long long)crew.growth_max.rss_kb);
}

static void open_crew(void)
{
	crew.board = mmap(NULL, sizeof(*crew.board), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(crew.board != MAP_FAILED, "mmap: %s", strerror(errno));
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, crew.peer), "socketpair: %s",
	      strerror(errno));
	crew.orders[ROLE_HOST] = crew.orders[ROLE_GUEST] = -1;
	spawn(ROLE_HOST);
}

static void close_crew(time_t since)
{
	struct plan last = plan_make(crew.seed, crew.first + crew.rounds);

	last.round &= ~1u; /* an even round: quit by closing everything */
	dismiss(&last, ROLE_GUEST);
	dismiss(&last, ROLE_HOST);
	tap(leftover_shm(since) == 0, "nothing is left in /dev/shm");
	tap(leftover_sockets() == 0, "no socket outlives its process");
}

static void usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [-n rounds] [-s seed] [-f first round] [-k kind] [-g]\n"
		"  -k  only this kind of traffic: RC, SRQ, one-sided, UD\n"
		"  -g  gdb backtraces of whoever hangs\n",
		name);
	exit(2);
}

static void parse(int argc, char **argv)
{
	int option;

	crew.rounds = 1000;
	crew.seed = clock_us() * 0x9e3779b97f4a7c15ull ^ (uint64_t)getpid();
	while ((option = getopt(argc, argv, "n:s:f:k:g")) != -1) {
		switch (option) {
		case 'n':
			crew.rounds = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 's':
			crew.seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			crew.first = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'k':
			crew.kind = optarg;
			if (!plan_only(optarg))
				usage(argv[0]);
			break;
		case 'g':
			crew.debug = true;
			break;
		default:
			usage(argv[0]);
		}
	}
}

int main(int argc, char **argv)
{
	time_t since = time(NULL);

	parse(argc, argv);
	rig_name("supervisor", "");
	printf("# seed %#llx\n", (unsigned long long)crew.seed);
	open_crew();
	run_rounds();
	close_crew(since);
	return tap_end();
}
