/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions move into files while peers write, read and count there, and back when they end. No byte
 * may be lost, whoever forks, is stopped or is killed meanwhile, and no file may stay.
 *
 *   owner (parent, one thread)                  writers (children)
 *   registers, polls until the region is        WRITE a number to a page, READ it back, add 1 to
 *   mapped, compares, deregisters               the page's counter, until they are told to stop
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duo.h"

enum {
	PAGE = 4096,
	PAGES = 32,
	SIZE = PAGES * PAGE,
	LARGE = 8 << 20,
	WRITERS = 2,
	DEADLINE_US = 60000000,
};

/* The words of a page: one for each writer, one for the owner, one that all writers add to. */
enum { WORD_OWNER = WRITERS, WORD_COUNT, WORDS };

struct order { /* to a writer, for one round */
	uint32_t rkey;
	uint32_t length; /* LARGE: long WRITEs; else as above */
	uint64_t addr;
};

struct report { /* from a writer */
	uint64_t last[PAGES];
	uint64_t added, operations;
	bool failed; /* an operation did, because the region had ended */
};

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct rig rig;
static struct duo writers[WRITERS];
static struct end ends[WRITERS];
static unsigned rounds = 20;

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

static void end_close(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(end->cq), "destroy: %s", strerror(errno));
}

/* --- a writer --- */

static struct ibv_mr *own;
static uint64_t *buffer; /* LARGE bytes */

static bool execute(struct end *end, enum ibv_wr_opcode opcode, uint32_t length, uint64_t addr,
		    uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buffer, length, own->lkey };
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
	return wc.status == IBV_WC_SUCCESS;
}

static void write_page(struct end *end, const struct order *order, unsigned word, unsigned page,
		       struct report *report)
{
	uint64_t at = order->addr + page * PAGE, value = ++report->operations;

	buffer[0] = value;
	CHECK(execute(end, IBV_WR_RDMA_WRITE, 8, at + word * 8, order->rkey), "WRITE");
	report->last[page] = value;
	buffer[0] = 0;
	CHECK(execute(end, IBV_WR_RDMA_READ, 8, at + word * 8, order->rkey), "READ");
	CHECK(buffer[0] == value, "page %u: wrote %llu, read %llu", page, (unsigned long long)value,
	      (unsigned long long)buffer[0]);
	CHECK(execute(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, at + WORD_COUNT * 8, order->rkey),
	      "FETCH_AND_ADD");
	report->added++;
}

static void writer_main(struct duo *duo, unsigned word)
{
	struct rng rng = rng_fork(17, word);
	struct report report;
	struct order order;
	struct end end;

	rig_name("writer", "");
	rig_open(&rig);
	buffer = aligned_alloc(PAGE, LARGE);
	memset(buffer, 0xee, LARGE);
	own = ibv_reg_mr(rig.pd, buffer, LARGE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(own, "ibv_reg_mr: %s", strerror(errno));
	end = end_open(duo);
	while (recv(duo->socket, &order, sizeof(order), 0) == sizeof(order)) {
		memset(&report, 0, sizeof(report));
		while (!report.failed && !duo_peek(duo)) {
			if (order.length == LARGE)
				report.failed = !execute(&end, IBV_WR_RDMA_WRITE, LARGE, order.addr,
							 order.rkey);
			else
				write_page(&end, &order, word, (unsigned)rng_below(&rng, PAGES),
					   &report);
		}
		CHECK(send(duo->socket, &report, sizeof(report), MSG_NOSIGNAL) == sizeof(report),
		      "the owner ended");
	}
	exit(0);
}

/* --- the owner --- */

static unsigned files_left(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;
	char to[64];

	while ((entry = readdir(all))) {
		ssize_t size = readlinkat(dirfd(all), entry->d_name, to, sizeof(to) - 1);

		to[size > 0 ? size : 0] = '\0';
		count += strstr(to, "verbena-region") != NULL;
	}
	closedir(all);
	return count;
}

static bool maps_file(pid_t pid)
{
	char path[40], line[512];
	FILE *file;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		found |= strstr(line, "verbena-region") != NULL;
	if (file)
		fclose(file);
	return found;
}

static void poll_all(void)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < WRITERS; i++)
		if (ends[i].cq)
			ibv_poll_cq(ends[i].cq, 1, &wc);
}

/* Polls until this process and the writer have the region mapped. */
static void wait_until_mapped(pid_t writer, volatile uint64_t *memory, uint64_t *own_stores)
{
	const uint64_t until = clock_us() + DEADLINE_US;

	while (!maps_file(getpid()) || !maps_file(writer)) {
		for (unsigned n = 0; n < 1000; n++) {
			unsigned page = n % PAGES;

			memory[page * PAGE / 8 + WORD_OWNER]++;
			own_stores[page]++;
			poll_all();
		}
		CHECK(clock_us() < until, "the region was not mapped");
	}
}

/* The child sees the bytes as they were at fork, whatever the writers do. */
static bool child_is_undisturbed(const volatile uint64_t *memory)
{
	pid_t child = fork();
	int status;

	if (!child) {
		static uint64_t seen[SIZE / 8];
		uint64_t until = clock_us() + 3000;
		bool same = true;

		memcpy(seen, (void *)memory, SIZE);
		while (clock_us() < until)
			same &= !memcmp(seen, (void *)memory, SIZE);
		_exit(!same);
	}
	CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
	return status == 0;
}

static void *memory_make(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
	return at;
}

static struct ibv_mr *region_make(void *memory, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, memory, size,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

static void order_give(struct duo *duo, const struct ibv_mr *mr)
{
	const struct order order = { mr->rkey, (uint32_t)mr->length, (uintptr_t)mr->addr };

	CHECK(send(duo->socket, &order, sizeof(order), MSG_NOSIGNAL) == sizeof(order),
	      "the writer ended");
}

static struct report report_take(struct duo *duo)
{
	struct report report;

	CHECK(recv(duo->socket, &report, sizeof(report), 0) == sizeof(report), "a writer failed");
	return report;
}

/* True: every byte is where it belongs. */
static bool is_whole(const uint64_t *memory, const uint64_t *own_stores,
		     const struct report *reports)
{
	uint64_t counted = 0, added = 0;
	bool whole = true;

	for (unsigned page = 0; page < PAGES; page++) {
		const uint64_t *words = memory + page * PAGE / 8;

		for (unsigned w = 0; w < WRITERS; w++)
			whole &= words[w] == reports[w].last[page];
		whole &= words[WORD_OWNER] == own_stores[page];
		counted += words[WORD_COUNT];
	}
	for (unsigned w = 0; w < WRITERS; w++)
		added += reports[w].added;
	return whole && counted == added;
}

static void under_fire(void)
{
	unsigned whole = 0, undisturbed = 0, forks = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t *memory = memory_make(SIZE), own_stores[PAGES] = { 0 };
		struct ibv_mr *mr = region_make(memory, SIZE);
		struct report reports[WRITERS];

		rig_round(round);
		for (unsigned w = 0; w < WRITERS; w++)
			order_give(&writers[w], mr);
		wait_until_mapped(writers[round % WRITERS].child, memory, own_stores);
		if (round % 4 == 0) {
			forks++;
			undisturbed += child_is_undisturbed(memory);
		}
		for (unsigned w = 0; w < WRITERS; w++)
			duo_tell(&writers[w], 's');
		for (unsigned w = 0; w < WRITERS; w++)
			reports[w] = report_take(&writers[w]);
		whole += is_whole(memory, own_stores, reports);
		CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr: %s", strerror(errno));
		whole -= !is_whole(memory, own_stores, reports);
		munmap(memory, SIZE);
	}
	tap(whole == rounds, "no byte is lost while regions move");
	tap(undisturbed == forks, "a child does not see later writes");
	tap(!files_left(), "no file stays open");
}

/* A writer that is stopped, probably in the midst of a copy, keeps no region from ending. */
static void beside_a_stopped_writer(void)
{
	struct duo *duo = &writers[0];
	uint64_t *memory = memory_make(LARGE), none[PAGES] = { 0 };
	struct rng rng = rng_fork(18, 0);
	struct ibv_mr *mr = region_make(memory, LARGE);
	bool written = false;
	int err;

	order_give(duo, mr);
	wait_until_mapped(duo->child, memory, none);
	usleep((useconds_t)rng_below(&rng, 2000));
	CHECK(!kill(duo->child, SIGSTOP), "kill: %s", strerror(errno));
	err = ibv_dereg_mr(mr);
	tap(!err, "a region ends beside a writer that is stopped in its copy");
	memset(memory, 0x11, LARGE);
	CHECK(!kill(duo->child, SIGCONT), "kill: %s", strerror(errno));
	tap(report_take(duo).failed, "the writer learns that the region has ended");
	for (size_t i = 0; i < LARGE / 8; i++)
		written |= memory[i] != 0x1111111111111111;
	tap(!written, "memory that was given back is not written");
	munmap(memory, LARGE);
}

static void beside_a_killed_writer(void)
{
	struct duo *duo = &writers[1];
	uint64_t *memory = memory_make(LARGE), none[PAGES] = { 0 };
	struct ibv_mr *mr = region_make(memory, LARGE);

	order_give(duo, mr);
	wait_until_mapped(duo->child, memory, none);
	CHECK(!kill(duo->child, SIGKILL), "kill: %s", strerror(errno));
	CHECK(duo_status(duo) == -SIGKILL, "the writer was not killed");
	tap(!ibv_dereg_mr(mr) && !files_left() && !maps_file(getpid()),
	    "nothing is left of a region whose writer was killed");
	munmap(memory, LARGE);
}

int main(int argc, char **argv)
{
	setenv("VERBENA_MAP", "auto", 1);
	if (argc == 3 && !strcmp(argv[1], "-n"))
		rounds = (unsigned)strtoul(argv[2], NULL, 0);
	for (unsigned w = 0; w < WRITERS; w++)
		if (duo_split(&writers[w]))
			writer_main(&writers[w], w);
	rig_name("owner", "");
	rig_open(&rig);
	for (unsigned w = 0; w < WRITERS; w++)
		ends[w] = end_open(&writers[w]);
	under_fire();
	beside_a_stopped_writer();
	beside_a_killed_writer();
	end_close(&ends[0]);
	end_close(&ends[1]);
	close(writers[0].socket);
	tap(duo_status(&writers[0]) == 0, "the other writer ends well");
	rig_close(&rig);
	return tap_end();
}
