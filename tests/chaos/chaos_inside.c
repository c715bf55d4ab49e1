/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator is stopped while it works on this process's memory: by a debugger right before it
 * copies, or by SIGSTOP anywhere. What it does not touch ends at once, what it may still touch
 * waits once, and what has ended is never written again.
 *
 *   owner (parent)                       writers (children)
 *   regions, QPs: ended by the test      one is traced, one is stopped in rounds
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "duo.h"

enum {
	SIZE = 4 << 20,
	PART = 4096,
	BURST = 1000,
	WRITES = 20,
	CALLS = 50,
	SOON_US = 10000000,
	DEADLINE_US = 60000000
};

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

struct address {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static struct rig rig;
static unsigned rounds = 24;

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 16, 16, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp = ibv_create_qp(rig.pd, &init);

	CHECK(qp, "ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = RIG_PORT,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "to INIT");
}

static void to_rts(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = dest_qpn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 1,
				   .ah_attr = { .is_global = 1,
						.port_num = RIG_PORT,
						.grh = { .dgid = rig.gid,
							 .sgid_index = RIG_GID_INDEX,
							 .hop_limit = 1 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };

	CHECK(!ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "to RTR");
	CHECK(!ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	      "to RTS");
}

static struct ibv_mr *make_mr(char *memory)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, memory, SIZE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_ATOMIC);

	CHECK(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

/* Opens this side and connects it to the other process's; gives the address of that. */
static struct address side_open(struct side *side, struct duo *duo)
{
	struct address mine, theirs;

	side->memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(side->memory != MAP_FAILED, "mmap: %s", strerror(errno));
	side->cq = ibv_create_cq(rig.ctx, 64, NULL, NULL, 0);
	CHECK(side->cq, "ibv_create_cq: %s", strerror(errno));
	side->mr = make_mr(side->memory);
	side->qp = make_qp(side->cq);
	mine = (struct address){ side->qp->qp_num, side->mr->rkey, (uintptr_t)side->memory };
	to_init(side->qp);
	CHECK(send(duo->socket, &mine, sizeof(mine), MSG_NOSIGNAL) == sizeof(mine) &&
		      recv(duo->socket, &theirs, sizeof(theirs), 0) == sizeof(theirs),
	      "the other process ended");
	to_rts(side->qp, theirs.qpn);
	return theirs;
}

static void side_close(struct side *side)
{
	CHECK(!side->qp || !ibv_destroy_qp(side->qp), "ibv_destroy_qp: %s", strerror(errno));
	CHECK(!side->mr || !ibv_dereg_mr(side->mr), "ibv_dereg_mr: %s", strerror(errno));
	CHECK(!ibv_destroy_cq(side->cq), "ibv_destroy_cq: %s", strerror(errno));
	munmap(side->memory, SIZE);
}

/* --- the writers --- */

static bool execute(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	CHECK(!ibv_post_send(side->qp, wr, &bad), "ibv_post_send");
	while (!ibv_poll_cq(side->cq, 1, &wc))
		;
	return wc.status == IBV_WC_SUCCESS;
}

/* All of the memory. False: the owner has taken something away. */
static bool write_once(struct side *side, const struct address *to)
{
	struct ibv_sge sge = { (uintptr_t)side->memory, SIZE, side->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { to->addr, to->rkey } };

	return execute(side, &wr);
}

/* Into parts of the owner's memory: 0 is a counter, 1 is written, 2 receives. */
static bool burst(struct side *side, const struct address *to)
{
	struct ibv_sge part = { (uintptr_t)side->memory, PART, side->mr->lkey };
	struct ibv_sge old = { (uintptr_t)side->memory + PART, 8, side->mr->lkey };
	struct ibv_send_wr write = { .sg_list = &part,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .wr.rdma = { to->addr + PART, to->rkey } };
	struct ibv_send_wr message = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr add = { .sg_list = &old,
				   .num_sge = 1,
				   .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				   .wr.atomic = { to->addr, 1, 0, to->rkey } };
	bool ok = true;

	for (unsigned i = 0; ok && i < BURST; i++) {
		memset(side->memory, (int)i, PART);
		for (unsigned n = 0; ok && n < WRITES; n++)
			ok = execute(side, &write);
		ok = ok && execute(side, &message) && execute(side, &add);
	}
	return ok;
}

/* One write per word from the owner. */
static void traced_main(struct duo *duo)
{
	struct side side;
	struct address to;

	rig_name("traced writer", "");
	rig_open(&rig);
	to = side_open(&side, duo);
	memset(side.memory, 'w', SIZE);
	CHECK(write_once(&side, &to), "the first write failed");
	duo_tell(duo, 'r');
	CHECK(duo_told(duo, 'b'), "the owner ended");
	duo_tell(duo, burst(&side, &to) ? 'd' : 'e');
	while (duo_told(duo, 'w'))
		duo_tell(duo, write_once(&side, &to) ? 'd' : 'e');
	exit(0);
}

static void stopped_main(struct duo *duo)
{
	rig_name("stopped writer", "");
	rig_open(&rig);
	for (unsigned round = 0; round < rounds; round++) {
		struct side side;
		struct address to = side_open(&side, duo);

		rig_round(round);
		memset(side.memory, 'w', SIZE);
		CHECK(write_once(&side, &to), "the first write failed");
		duo_tell(duo, 'r');
		while (write_once(&side, &to))
			;
		duo_tell(duo, 'e');
		side_close(&side);
	}
	exit(0);
}

/* --- the debugger --- */

static int wait_stop(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "no stop: %x", status);
	return status;
}

static bool trace(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD))
		return false;
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), "PTRACE_INTERRUPT");
	wait_stop(pid);
	return true;
}

/* Lets the thread run until it is about to copy. */
static void run_to_copy(pid_t pid)
{
	struct __ptrace_syscall_info info = { 0 };

	do {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, NULL, NULL), "PTRACE_SYSCALL");
		wait_stop(pid);
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0,
		      "PTRACE_GET_SYSCALL_INFO: %s", strerror(errno));
	} while (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_process_vm_writev);
}

/* --- the owner --- */

static bool soon(uint64_t began_us, const char *what)
{
	uint64_t took_us = clock_us() - began_us;

	printf("# %s: %llu us\n", what, (unsigned long long)took_us);
	return took_us < SOON_US;
}

/* Regions, QPs and SRQs that the thread has nothing to do with; none may wait 5 s. */
static bool strangers_end(struct side *side)
{
	uint64_t began = clock_us();
	char *other = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < CALLS; i++) {
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
		struct ibv_qp *qp = make_qp(side->cq);

		CHECK(!ibv_dereg_mr(make_mr(other)), "ibv_dereg_mr: %s", strerror(errno));
		to_init(qp);
		CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE), "RESET: %s", strerror(errno));
		CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp: %s", strerror(errno));
	}
	munmap(other, SIZE);
	return soon(began, "regions and QPs of others");
}

/* A receive of another QP, which fails. */
static bool stranger_flushes(struct side *side)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = make_qp(side->cq);
	struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;
	struct ibv_wc wc = { 0 };
	uint64_t began = clock_us();

	to_init(qp);
	CHECK(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	CHECK(!ibv_modify_qp(qp, &error, IBV_QP_STATE), "ERR: %s", strerror(errno));
	while (!ibv_poll_cq(side->cq, 1, &wc) && clock_us() - began < DEADLINE_US)
		;
	CHECK(!ibv_destroy_qp(qp), "ibv_destroy_qp: %s", strerror(errno));
	return wc.wr_id == 7 && wc.status == IBV_WC_WR_FLUSH_ERR && soon(began, "flush");
}

/* The first call waits, the others know. */
static bool concerned_wait_once(struct side *side)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	bool busy = ibv_dereg_mr(side->mr) == EBUSY;
	uint64_t began = clock_us();

	for (unsigned i = 0; i < CALLS; i++) {
		busy &= ibv_dereg_mr(side->mr) == EBUSY;
		busy &= ibv_destroy_qp(side->qp) == EBUSY;
		busy &= ibv_modify_qp(side->qp, &reset, IBV_QP_STATE) == EBUSY;
	}
	return busy && soon(began, "calls for what the thread is about to write");
}

static void post_part(struct side *side)
{
	struct ibv_sge sge = { (uintptr_t)side->memory + 2 * PART, PART, side->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

/* True: the message has every byte of its number. */
static bool receive_part(struct side *side, unsigned number)
{
	const char *part = side->memory + 2 * PART;

	for (unsigned i = 0; i < PART; i++)
		if (part[i] != (char)number)
			return false;
	post_part(side);
	return true;
}

static _Atomic bool enough;

/* Each end makes a sender that is about to copy look anew. */
static void *end_regions(void *arg)
{
	static char other[SIZE];
	struct rng rng = rng_fork(11, 0);
	unsigned *ends = arg;

	for (; !enough; (*ends)++) {
		/* It waited for the sender to leave: out of step with it again. */
		for (volatile uint64_t i = rng_below(&rng, 8000); i; i--)
			;
		CHECK(!ibv_dereg_mr(make_mr(other)), "ibv_dereg_mr: %s", strerror(errno));
	}
	return NULL;
}

static bool burst_beside_ends(struct duo *duo, struct side *side)
{
	unsigned messages = 0, ends = 0;
	pthread_t ender;
	struct ibv_wc wc;
	bool whole = true;
	char said;

	memset(side->memory, 0, SIZE);
	post_part(side);
	CHECK(!pthread_create(&ender, NULL, end_regions, &ends), "pthread_create");
	duo_tell(duo, 'b');
	do {
		said = duo_peek(duo); /* before the poll: nothing comes behind it */
		while (ibv_poll_cq(side->cq, 1, &wc) > 0)
			whole &= wc.status == IBV_WC_SUCCESS && receive_part(side, messages++);
	} while (!said);
	enough = true;
	pthread_join(ender, NULL);
	printf("# %u regions ended beside %u messages\n", ends, messages);
	return said == 'd' && whole && messages == BURST && *(uint64_t *)side->memory == BURST &&
	       side->memory[PART] == (char)(BURST - 1);
}

static void with_debugger(struct duo *duo)
{
	struct side side;
	uint64_t began;

	side_open(&side, duo);
	CHECK(duo_told(duo, 'r'), "the writer failed");
	tap(burst_beside_ends(duo, &side), "operations succeed while other regions end");
	if (!trace(duo->child)) {
		tap(true, "# SKIP no ptrace: %s", strerror(errno));
		return;
	}
	duo_tell(duo, 'w');
	run_to_copy(duo->child);
	tap(strangers_end(&side), "what a stopped thread does not touch ends at once");
	tap(stranger_flushes(&side), "receives of other QPs are flushed at once");
	tap(concerned_wait_once(&side), "calls for what it is about to write wait once");
	began = clock_us();
	CHECK(!kill(duo->child, SIGKILL), "kill: %s", strerror(errno));
	CHECK(duo_status(duo) == -SIGKILL, "the writer was not killed");
	side_close(&side);
	tap(soon(began, "after its end"), "everything ends when the process does");
}

/* By one of three calls; they may be refused, and succeed once the writer goes on. */
static int end_one(struct side *side, unsigned how)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int err = how == 0   ? ibv_dereg_mr(side->mr)
		  : how == 1 ? ibv_destroy_qp(side->qp)
			     : ibv_modify_qp(side->qp, &reset, IBV_QP_STATE);

	CHECK(!err || err == EBUSY, "call %u: %s", how, strerror(err));
	if (!err && how == 0)
		side->mr = NULL;
	if (!err && how == 1)
		side->qp = NULL;
	return err;
}

static bool is_whole(const struct side *side)
{
	for (size_t i = 0; i < SIZE; i++)
		if (side->memory[i] != 'o')
			return false;
	return true;
}

enum outcome { WHOLE, REFUSED, WRITTEN };

static enum outcome stop_round(struct duo *duo, unsigned round, struct rng *rng)
{
	enum outcome outcome;
	struct side side;
	int status, err;

	side_open(&side, duo);
	CHECK(duo_told(duo, 'r'), "the writer failed");
	usleep((unsigned)rng_below(rng, 3000)); /* somewhere in its work */
	CHECK(!kill(duo->child, SIGSTOP), "kill: %s", strerror(errno));
	CHECK(waitpid(duo->child, &status, WUNTRACED) == duo->child && WIFSTOPPED(status),
	      "the writer did not stop");
	err = end_one(&side, round % 3);
	memset(side.memory, 'o', SIZE);
	CHECK(!kill(duo->child, SIGCONT), "kill: %s", strerror(errno));
	outcome = err ? REFUSED : WHOLE;
	while (err)
		err = end_one(&side, round % 3);
	CHECK(duo_told(duo, 'e'), "the writer ended");
	if (outcome == WHOLE && !is_whole(&side))
		outcome = WRITTEN;
	side_close(&side);
	return outcome;
}

static void with_signals(struct duo *duo)
{
	struct rng rng = rng_fork(7, 0);
	unsigned count[WRITTEN + 1] = { 0 };
	uint64_t began = clock_us();

	for (unsigned round = 0; round < rounds; round++) {
		rig_round(round);
		count[stop_round(duo, round, &rng)]++;
	}
	/* One that is stopped between its last look and the copy is waited for. */
	printf("# %u of %u calls refused, %llu us\n", count[REFUSED], rounds,
	       (unsigned long long)(clock_us() - began));
	tap(!count[WRITTEN], "memory that was given back is not written when the writer goes on");
	tap(count[REFUSED] <= rounds / 3, "few calls are refused");
	CHECK(duo_status(duo) == 0, "the stopped writer failed");
}

int main(int argc, char **argv)
{
	static struct duo traced, stopped;

	if (argc == 3 && !strcmp(argv[1], "-n"))
		rounds = (unsigned)strtoul(argv[2], NULL, 0);
	if (duo_split(&traced))
		traced_main(&traced);
	if (duo_split(&stopped))
		stopped_main(&stopped);
	rig_name("owner", "");
	rig_open(&rig);
	with_debugger(&traced);
	with_signals(&stopped);
	rig_close(&rig);
	return tap_end();
}
