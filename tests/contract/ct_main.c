/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The runner: every instance of every case in a process of its own, the results as TAP.
 *
 *   contract [--list] [--filter TEXT] [--placement solo|one|two]
 *
 * VERBENA_TEST_DEVICE, VERBENA_TEST_IB_DEVICE and VERBENA_TEST_GID choose devices and GID index
 * (default: the first device of each link layer, GID 1); VERBENA_TEST_HUGE=1 adds the cases that
 * need gigabytes. Exit status 0: none failed; 1: some did; 77: there is no such case.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ct_msg.h"

enum { TEST_SECONDS_MAX = 120, EXIT_SKIP = 77 };

/* One group of cases per file, from objects to data to errors. */
/* clang-format off */
#define GROUPS(X) \
	X(device) X(string) X(mr) X(cq) X(channel) X(srq) X(ah) X(busy) X(handle) X(errno) \
	X(caps) X(state) X(async) X(sqd) X(fork) X(extended) X(cq_ex) X(moderate) X(qp_ex) \
	X(domain) X(null_mr) X(rereg) X(dm) X(odp) X(import) X(key) X(mw) X(mw_key) \
	X(mr_dmabuf) X(mr_ex) X(comp_cntr) X(rate) X(send) X(invalidate) X(sge) X(rdma) X(atomic) \
	X(atomic_write) X(flush) X(tm) X(tm_rndv) X(ud) X(mcast) X(post) X(small) X(order) X(fifo) \
	X(many) X(parallel) X(event) X(ready) X(life) X(err_local) X(err_receive) X(err_access) \
	X(err_request) X(err_retry) X(mtu) X(err_drop) X(err_flush) X(err_overrun) \
	X(progress) X(xrc) X(xrc_message) X(xrc_share) X(vpi) X(migrate) X(pkey) X(events) \
	X(raw) X(flow) X(wq) X(tso) X(strip)
/* clang-format on */

#define DECLARE(group) extern const struct ct_case ct_##group##_cases[];
#define NAME(group)    ct_##group##_cases,

GROUPS(DECLARE)

static const struct ct_case *const groups[] = { GROUPS(NAME) };

/* What holds for RC and one direction holds for XRC as well. */
static const struct ct_case *const xrc_groups[] = {
	ct_send_cases,         ct_sge_cases,   ct_rdma_cases,  ct_atomic_cases,
	ct_atomic_write_cases, ct_flush_cases, ct_order_cases, ct_invalidate_cases,
};

/* What a test leaves behind for the runner; shared, so that it outlives a crash. */
struct note {
	const char *file; /* the last check that was begun */
	int line;
	char text[512];
};
static struct note *note;

struct instance {
	const struct ct_case *c;
	enum ibv_qp_type type;
	bool two_processes, infiniband;
	char name[256];
};

static struct {
	bool list;
	const char *filter, *placement;
	int number, failed, skipped;
} run;

/* ---- checks ---------------------------------------------------------------------------------- */

void ct_here(const char *file, int line)
{
	/* Threads of a test check things as well: the last one wins. */
	__atomic_store_n(&note->file, file, __ATOMIC_RELAXED);
	__atomic_store_n(&note->line, line, __ATOMIC_RELAXED);
}

static void leave_note(const char *format, va_list args)
{
	vsnprintf(note->text, sizeof(note->text), format, args);
}

void ct_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	leave_note(format, args);
	va_end(args);
	_exit(1);
}

bool ct_distinct_keys(void)
{
	const char *keys = getenv("VERBENA_KEYS");

	return keys && !strcmp(keys, "distinct");
}

bool ct_by_packets(void)
{
	const char *path = getenv("VERBENA_PATH");

	return path && strcmp(path, "auto") != 0;
}

void ct_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	leave_note(format, args);
	va_end(args);
	_exit(EXIT_SKIP);
}

void ct_equal(const char *what, long long got, const char *wanted_text, long long wanted)
{
	if (got != wanted)
		ct_fail("%s is %lld (%#llx), expected %s = %lld (%#llx)", what, got, got,
			wanted_text, wanted, wanted);
}

double ct_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* ---- one test, in its own process ------------------------------------------------------------ */

static void hung(int signal_number)
{
	static const char text[] = "hung";

	if (!note->text[0])
		memcpy(note->text, text, sizeof(text));
	_exit(1);
}

static void end_make(struct ct_end *e, const char *name)
{
	*e = (struct ct_end){ .name = name, .sock = -1, .msg = calloc(1, sizeof(struct ct_msg)) };
}

/* Before the first verbs call: the two processes share nothing but the socket. */
static void far_process_start(struct ct_end *far)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		ct_fail("socketpair: %s", strerror(errno));
	far->pid = fork();
	if (far->pid < 0)
		ct_fail("fork: %s", strerror(errno));
	if (far->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(TEST_SECONDS_MAX);
		close(pair[0]);
		ct_agent_serve(pair[1]);
	}
	close(pair[1]);
	far->sock = pair[0];
}

static void far_process_wait(struct ct_end *far)
{
	int status;

	if (!far->pid)
		return; /* the test killed it */
	if (waitpid(far->pid, &status, 0) < 0 || status)
		ct_fail("the far process ended with status %#x", status);
}

_Noreturn static void instance_run(const struct instance *in)
{
	struct ct_end near, far;
	struct ct t = { .near = &near,
			.far = &far,
			.type = in->type,
			.infiniband = in->infiniband,
			.two_processes = in->two_processes };

	if ((in->c->flags & CT_HUGE) && !getenv("VERBENA_TEST_HUGE"))
		ct_skip("needs gigabytes of memory, VERBENA_TEST_HUGE=1 runs it");
	signal(SIGALRM, hung);
	alarm(TEST_SECONDS_MAX);
	if (in->c->prepare)
		in->c->prepare();
	end_make(&near, "near");
	end_make(&far, "far");
	if (in->two_processes)
		far_process_start(&far);
	near.agent = ct_agent_create();
	if (!in->two_processes)
		far.agent = ct_agent_create();
	ct_end_open(&near, in->infiniband);
	if (!(in->c->flags & CT_SOLO))
		ct_end_open(&far, in->infiniband);
	in->c->run(&t);
	if (!(in->c->flags & CT_SOLO) && (far.pid || !in->two_processes))
		ct_end_close(&far);
	ct_end_close(&near);
	if (in->two_processes)
		far_process_wait(&far);
	exit(0);
}

/* ---- results --------------------------------------------------------------------------------- */

static void report_failure(const struct instance *in, int status)
{
	run.failed++;
	printf("not ok %d - %s\n", run.number, in->name);
	printf("# %s:%d: %s\n", note->file ? note->file : "before the first check", note->line,
	       note->text[0] ? note->text : "died");
	if (WIFSIGNALED(status))
		printf("# killed by signal %d (%s)\n", WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	else if (!note->text[0])
		printf("# exit status %d\n", WEXITSTATUS(status));
}

static void instance_report(const struct instance *in, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		printf("ok %d - %s\n", run.number, in->name);
	} else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		run.skipped++;
		printf("ok %d - %s # SKIP %s\n", run.number, in->name, note->text);
	} else {
		report_failure(in, status);
	}
}

static void instance_start(const struct instance *in)
{
	int status = -1;
	pid_t pid;

	if (run.filter && !strstr(in->name, run.filter))
		return;
	run.number++;
	if (run.list) {
		printf("%s\n", in->name);
		return;
	}
	memset(note, 0, sizeof(*note));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		instance_run(in);
	waitpid(pid, &status, 0);
	instance_report(in, status);
}

/* ---- from cases to instances ----------------------------------------------------------------- */

static void instance_name(struct instance *in)
{
	const char *type = in->type == IBV_QPT_RC         ? "RC"
			   : in->type == IBV_QPT_XRC_SEND ? "XRC"
			   : in->type == IBV_QPT_UC       ? "UC"
							  : "UD";

	if (in->c->flags & CT_SOLO)
		snprintf(in->name, sizeof(in->name), "objects: %s", in->c->name);
	else
		snprintf(in->name, sizeof(in->name), "%s, %s%s: %s", type,
			 in->two_processes ? "two processes" : "one process",
			 in->infiniband ? ", InfiniBand" : "", in->c->name);
}

static void case_start(const struct ct_case *c, enum ibv_qp_type type, bool two, bool infiniband)
{
	struct instance in = {
		.c = c, .type = type, .two_processes = two, .infiniband = infiniband
	};

	instance_name(&in);
	instance_start(&in);
}

static void case_transports(const struct ct_case *c, bool two, bool infiniband)
{
	if (c->flags & CT_RC)
		case_start(c, IBV_QPT_RC, two, infiniband);
	if (c->flags & CT_UC)
		case_start(c, IBV_QPT_UC, two, infiniband);
	if (c->flags & CT_UD)
		case_start(c, IBV_QPT_UD, two, infiniband);
}

static bool runs_with_xrc(const struct ct_case *cases)
{
	for (int i = 0; i < CT_COUNT(xrc_groups); i++)
		if (xrc_groups[i] == cases)
			return true;
	return false;
}

static void group_start(const struct ct_case *cases, const char *placement)
{
	bool solo = !strcmp(placement, "solo"), two = !strcmp(placement, "two");

	for (const struct ct_case *c = cases; c->name; c++) {
		if (solo != !!(c->flags & CT_SOLO) || (!two && (c->flags & CT_TWO)))
			continue;
		if (c->flags & CT_DISTINCT && !ct_distinct_keys())
			continue;
		if (solo)
			case_start(c, IBV_QPT_RC, false, c->flags & CT_ONLY_IB);
		else if (!(c->flags & CT_ONLY_IB))
			case_transports(c, two, false);
		if (!solo && (c->flags & (CT_IB | CT_ONLY_IB)))
			case_transports(c, two, true);
		if (!solo && c->flags & CT_RC && runs_with_xrc(cases))
			case_start(c, IBV_QPT_XRC_SEND, two, false);
	}
}

static void placement_start(const char *placement)
{
	if (run.placement && strcmp(run.placement, placement))
		return;
	for (int i = 0; i < CT_COUNT(groups); i++)
		group_start(groups[i], placement);
}

static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			run.list = true;
		else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
			run.filter = argv[++i];
		else if (!strcmp(argv[i], "--placement") && i + 1 < argc)
			run.placement = argv[++i];
		else
			return false;
	}
	return !run.placement || !strcmp(run.placement, "solo") || !strcmp(run.placement, "one") ||
	       !strcmp(run.placement, "two");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--importer"))
		ct_importer(atoi(argv[2]));
	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: %s [--list] [--filter TEXT] [--placement solo|one|two]\n",
			argv[0]);
		return 2;
	}
	note = mmap(NULL, sizeof(*note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (note == MAP_FAILED)
		return 1;
	placement_start("solo");
	placement_start("one");
	placement_start("two");
	if (run.list)
		return 0;
	printf("1..%d\n# %d failed, %d skipped\n", run.number, run.failed, run.skipped);
	if (run.failed)
		return 1;
	return run.number ? 0 : EXIT_SKIP;
}
