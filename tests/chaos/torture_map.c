/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions move into files and back, thousands of times, while a thread of the program does to the
 * memory what a program may do (torture.h), and peers WRITE, READ and add in the same pages. No
 * byte may be lost, and no call may fail that would succeed without us.
 *
 *   owner                                         writers (children)
 *   beside: thread acts; register, order,         for each order: WRITE a rising number to pages,
 *           compare, deregister, again            READ it back, add 1 to the counter of the page
 *   late:   register, thread acts, order,
 *           deregister, thread ends, compare
 *
 * Pages move while the program has one thread; with rule 64 off, beside others, too.
 *
 *   torture_map [-n rounds] [-a act] [-o rules that are off] [-u: as an ordinary user] [-f: fork]
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duo.h"
#include "torture.h"

enum { WRITERS = 2, OPERATIONS = 12, PAGE = TORTURE_PAGE, NOBODY = 65534 };

struct order {
	uint32_t rkey;
	uint64_t addr;
};

struct report {
	uint64_t last[TORTURE_SHARED]; /* 0: not written in this order */
	uint64_t added;
};

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct rig rig;
static struct duo writers[WRITERS];
static struct end ends[WRITERS];
static unsigned rounds = 20;
static unsigned forks_every; /* 0: no forks */
static unsigned rules;       /* that are off */
static bool holes;           /* of the act */
static unsigned moved;       /* rounds in which the region was mapped */

static struct end end_open(struct duo *duo)
{
	struct end end = { .cq = ibv_create_cq(rig.ctx, 16, NULL, NULL, 0) };
	struct ibv_qp_init_attr init = { .send_cq = end.cq,
					 .recv_cq = end.cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	uint32_t theirs;

	CHECK(end.cq, "ibv_create_cq: %s", strerror(errno));
	end.qp = ibv_create_qp(rig.pd, &init);
	CHECK(end.qp, "ibv_create_qp: %s", strerror(errno));
	CHECK(send(duo->socket, &end.qp->qp_num, 4, MSG_NOSIGNAL) == 4 &&
		      recv(duo->socket, &theirs, 4, 0) == 4,
	      "the other process ended");
	rig_connect(&rig, end.qp, theirs);
	return end;
}

/* --- a writer --- */

static uint64_t *buffer;
static struct ibv_mr *own;

static void execute(struct end *end, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, own->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!ibv_post_send(end->qp, &wr, &bad), "ibv_post_send");
	while (!ibv_poll_cq(end->cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void write_page(struct end *end, const struct order *order, unsigned word, unsigned page,
		       struct report *report)
{
	static uint64_t value;
	uint64_t at = order->addr + page * PAGE;

	buffer[0] = ++value;
	execute(end, IBV_WR_RDMA_WRITE, at + word * 8, order->rkey);
	buffer[0] = 0;
	execute(end, IBV_WR_RDMA_READ, at + word * 8, order->rkey);
	CHECK(buffer[0] == value, "page %u: wrote %llu, read %llu", page, (unsigned long long)value,
	      (unsigned long long)buffer[0]);
	execute(end, IBV_WR_ATOMIC_FETCH_AND_ADD, at + WRITERS * 8, order->rkey);
	report->last[page] = value;
	report->added++;
}

static void writer_main(struct duo *duo, unsigned word)
{
	struct rng rng = rng_fork(19, word);
	struct report report;
	struct order order;
	struct end end;

	rig_name("writer", "");
	rig_open(&rig);
	buffer = aligned_alloc(PAGE, PAGE);
	own = ibv_reg_mr(rig.pd, buffer, PAGE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(own, "ibv_reg_mr: %s", strerror(errno));
	end = end_open(duo);
	while (recv(duo->socket, &order, sizeof(order), 0) == sizeof(order)) {
		memset(&report, 0, sizeof(report));
		for (unsigned i = 0; i < OPERATIONS; i++)
			write_page(&end, &order, word, (unsigned)rng_below(&rng, TORTURE_SHARED),
				   &report);
		CHECK(send(duo->socket, &report, sizeof(report), MSG_NOSIGNAL) == sizeof(report),
		      "the owner ended");
	}
	exit(0);
}

/* --- the owner --- */

static bool is_mapped(const void *memory)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], perms[8];
	bool found = false;

	while (file && fgets(line, sizeof(line), file))
		found |= sscanf(line, "%lx-%lx %7s", &start, &end, perms) == 3 &&
			 (uintptr_t)memory >= start && (uintptr_t)memory < end && perms[3] == 's';
	if (file)
		fclose(file);
	return found;
}

static uint64_t counted(const struct torture *torture)
{
	uint64_t sum = 0;

	for (unsigned page = 0; page < TORTURE_SHARED; page++)
		sum += ((volatile uint64_t *)(torture->memory + page * PAGE))[WRITERS];
	return sum;
}

static void compare(struct torture *torture, const struct report *reports, uint64_t count)
{
	for (unsigned page = 0; page < TORTURE_SHARED; page++)
		for (unsigned w = 0; w < WRITERS; w++) {
			uint64_t last = reports[w].last[page];

			if (last &&
			    ((volatile uint64_t *)(torture->memory + page * PAGE))[w] != last)
				torture->broken = "a byte of a peer was lost";
		}
	if (counted(torture) != count)
		torture->broken = "an addition of a peer was lost";
}

/* The child sees the words of the writers as they were, whatever happens in its parent. */
static void fork_and_look(struct torture *torture)
{
	pid_t child = fork();
	int status;

	if (!child) {
		static uint64_t seen[TORTURE_SHARED];
		uint64_t until = clock_us() + 1000;
		bool same = true;

		for (unsigned page = 0; page < TORTURE_SHARED; page++)
			seen[page] = *(uint64_t *)(torture->memory + page * PAGE);
		while (clock_us() < until)
			for (unsigned page = 0; page < TORTURE_SHARED; page++)
				same &= *(volatile uint64_t *)(torture->memory + page * PAGE) ==
					seen[page];
		_exit(!same);
	}
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	if (status)
		torture->broken = "a child has seen later writes, or none of the pages";
}

static struct ibv_mr *region_make(struct torture *torture)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *mr;

	do
		mr = ibv_reg_mr(rig.pd, torture->memory, TORTURE_SIZE, access);
	while (!mr && holes && errno == EFAULT);
	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	moved += is_mapped(torture->memory);
	return mr;
}

static void peers_work(struct torture *torture, const struct ibv_mr *mr, struct report *reports,
		       unsigned round)
{
	const struct order order = { mr->rkey, (uintptr_t)mr->addr };

	for (unsigned w = 0; w < WRITERS; w++)
		CHECK(send(writers[w].socket, &order, sizeof(order), MSG_NOSIGNAL) == sizeof(order),
		      "a writer ended");
	if (forks_every && round % forks_every == 0)
		fork_and_look(torture);
	for (unsigned w = 0; w < WRITERS; w++)
		CHECK(recv(writers[w].socket, &reports[w], sizeof(*reports), 0) == sizeof(*reports),
		      "a writer failed");
}

static void memory_make(struct torture *torture)
{
	memset(torture, 0, sizeof(*torture));
	torture->memory = mmap(NULL, TORTURE_SIZE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(torture->memory != MAP_FAILED, "mmap: %s", strerror(errno));
}

/* One round; false: something is broken. */
static bool torture_round(struct torture *torture, unsigned round, uint64_t *count,
			  pthread_t *thread, struct torture_run *late)
{
	struct ibv_mr *mr = region_make(torture);
	struct report reports[WRITERS];

	rig_round(round);
	if (late)
		CHECK(!pthread_create(thread, NULL, torture_main, late), "pthread_create");
	peers_work(torture, mr, reports, round);
	for (unsigned w = 0; w < WRITERS; w++)
		*count += reports[w].added;
	compare(torture, reports, *count);
	CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr: %s", strerror(errno));
	compare(torture, reports, *count);
	return !torture->broken;
}

/* True: pages may move while other threads run: rule 64 is off, and userfaultfd(2) works. */
static bool beside_is_permitted(void)
{
	int fd = rules & 64 ? (int)syscall(SYS_userfaultfd, O_CLOEXEC) : -1;

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Torture of regions that stay where they are would show nothing. Forks and rings keep some. */
static void tap_moves(const struct torture_act *act, bool may_move)
{
	if (may_move && !act->pins)
		tap(moved > 0, "regions move: %u of %u", moved, rounds);
}

static bool has_pinned_pages(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[200];
	unsigned long kb = 0;

	CHECK(file, "/proc/self/status: %s", strerror(errno));
	while (!kb && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmPin:", 6) == 0)
			kb = strtoul(line + 6, NULL, 10);
	fclose(file);
	return kb;
}

/* The pages of a ring that is closed are pinned until the kernel lets go of them. Regions of the
 * next act would stay where they are. */
static void thread_end(struct torture *torture, pthread_t thread)
{
	atomic_store(&torture->over, true);
	pthread_join(thread, NULL);
	for (unsigned looks = 0; has_pinned_pages(); looks++) {
		CHECK(looks < 10000, "pages of a ring stay pinned");
		usleep(1000);
	}
}

static void beside(const struct torture_act *act)
{
	struct torture torture;
	struct torture_run run = { act, &torture };
	uint64_t count = 0;
	pthread_t thread;

	moved = 0;
	memory_make(&torture);
	CHECK(!pthread_create(&thread, NULL, torture_main, &run), "pthread_create");
	for (unsigned round = 0;
	     round < rounds && torture_round(&torture, round, &count, NULL, NULL); round++)
		;
	thread_end(&torture, thread);
	tap(!torture.broken, "%s beside moves: %s (%u of %u regions moved, %lu turns)", act->name,
	    torture.broken ? torture.broken : "no byte is lost", moved, rounds, torture.turns);
	tap_moves(act, beside_is_permitted());
	munmap(torture.memory, TORTURE_SIZE);
}

static void late(const struct torture_act *act)
{
	struct torture torture = { 0 };
	struct torture_run run = { act, &torture };
	unsigned long turns = 0;

	moved = 0;
	for (unsigned round = 0; round < rounds && !torture.broken; round++) {
		uint64_t count = 0;
		pthread_t thread;

		memory_make(&torture);
		torture_round(&torture, round, &count, &thread, &run);
		while (!torture.broken && torture.turns < 40)
			sched_yield();
		thread_end(&torture, thread);
		turns += torture.turns;
		munmap(torture.memory, TORTURE_SIZE);
	}
	tap(!torture.broken, "%s after the move: %s (%u of %u regions moved, %lu turns)", act->name,
	    torture.broken ? torture.broken : "no byte is lost", moved, rounds, turns);
	tap_moves(act, !torture.broken);
}

static void become_ordinary(void)
{
	if (geteuid())
		return;
	CHECK(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY), "setuid: %s",
	      strerror(errno));
	prctl(PR_SET_DUMPABLE, 1);
}

static void switch_off(void)
{
	unsigned *off = dlsym(RTLD_DEFAULT, "vb_move_rules_off");

	CHECK(off, "this library cannot switch rules off");
	*off = rules;
}

static void usage(void)
{
	fprintf(stderr, "usage: torture_map [-n rounds] [-a act] [-o rules] [-u] [-f every]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *only = NULL;
	bool ordinary = false, has_file;

	for (int c; (c = getopt(argc, argv, "n:a:o:uf:")) != -1;) {
		if (c == 'n')
			rounds = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'a')
			only = optarg;
		else if (c == 'o')
			rules = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'f')
			forks_every = (unsigned)strtoul(optarg, NULL, 0);
		else if (c == 'u')
			ordinary = true;
		else
			usage();
	}
	has_file = torture_file(".");
	if (ordinary)
		become_ordinary();
	setenv("VERBENA_MAP", "always", 1);
	for (unsigned w = 0; w < WRITERS; w++)
		if (duo_split(&writers[w]))
			writer_main(&writers[w], w);
	rig_name("owner", "");
	rig_open(&rig);
	if (rules)
		switch_off();
	for (unsigned w = 0; w < WRITERS; w++)
		ends[w] = end_open(&writers[w]);
	for (unsigned i = 0; i < torture_act_count; i++) {
		const struct torture_act *act = &torture_acts[i];

		if ((only && strcmp(only, act->name) != 0) ||
		    (!has_file && (act->pins || strstr(act->name, "direct"))))
			continue;
		holes = act->holes;
		beside(act);
		late(act);
	}
	for (unsigned w = 0; w < WRITERS; w++) /* later writers have the sockets of earlier ones */
		close(writers[w].socket);
	for (unsigned w = 0; w < WRITERS; w++)
		tap(duo_status(&writers[w]) == 0, "a writer ends well");
	return tap_end();
}
