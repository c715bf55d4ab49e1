/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes with a QP in each of many lanes talk once, and are idle from then on. Their threads
 * sleep: no lane has a clock that ticks.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "duo.h"

enum { QPS = 16, ROOM = 64, DEADLINE_US = 20000000, QUIET_US = 1000000 };
enum { WAKES_MAX = QPS, CPU_US_MAX = 10000 }; /* a lane that ticks wakes 1000 times in a second */

struct end {
	struct rig rig;
	struct ibv_mr *mr;
	struct ibv_cq *cq[QPS]; /* a CQ each: the lane follows the CQ */
	struct ibv_qp *qp[QPS];
	char room[QPS][ROOM];
};

static void end_open(struct end *end)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	rig_open(&end->rig);
	end->mr = ibv_reg_mr(end->rig.pd, end->room, sizeof(end->room), IBV_ACCESS_LOCAL_WRITE);
	CHECK(end->mr, "no region");
	for (unsigned i = 0; i < QPS; i++) {
		end->cq[i] = ibv_create_cq(end->rig.ctx, 16, NULL, NULL, 0);
		init.send_cq = init.recv_cq = end->cq[i];
		end->qp[i] = end->cq[i] ? ibv_create_qp(end->rig.pd, &init) : NULL;
		CHECK(end->qp[i], "no QP");
	}
}

static void end_connect(struct end *end, const struct duo *duo)
{
	uint32_t own[QPS], others[QPS];

	for (unsigned i = 0; i < QPS; i++)
		own[i] = end->qp[i]->qp_num;
	CHECK(send(duo->socket, own, sizeof(own), 0) == sizeof(own), "nobody listens");
	CHECK(recv(duo->socket, others, sizeof(others), MSG_WAITALL) == sizeof(others),
	      "the other one ended");
	for (unsigned i = 0; i < QPS; i++)
		rig_connect(&end->rig, end->qp[i], others[i]);
}

static struct ibv_sge half(const struct end *end, unsigned i, bool out)
{
	return (struct ibv_sge){ (uintptr_t)&end->room[i][out ? ROOM / 2 : 0], ROOM / 2,
				 end->mr->lkey };
}

static void receives_post(struct end *end)
{
	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_sge sge = half(end, i, false);
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		CHECK(!ibv_post_recv(end->qp[i], &wr, &bad), "post_recv");
	}
}

static void completed(struct ibv_cq *cq)
{
	uint64_t start = clock_us();
	struct ibv_wc wc = { 0 };

	while (!ibv_poll_cq(cq, 1, &wc))
		CHECK(clock_us() - start < DEADLINE_US, "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

/* A message each way on each QP. */
static void talk(struct end *end)
{
	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_sge sge = half(end, i, true);
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};

		CHECK(!ibv_post_send(end->qp[i], &wr, &bad), "post_send");
	}
	for (unsigned i = 0; i < QPS; i++) {
		completed(end->cq[i]); /* the send and the receive */
		completed(end->cq[i]);
	}
}

/* How often a thread has slept, and was woken. */
static unsigned long thread_wakes(const char *tid)
{
	char path[300], line[128];
	unsigned long wakes = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	status = fopen(path, "r");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &wakes) == 1)
			break;
	if (status)
		fclose(status);
	return wakes;
}

/* Of all threads but this one: those of the library. */
static unsigned long library_wakes(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned long sum = 0;
	struct dirent *entry;
	char own[16];

	CHECK(folder, "no /proc");
	snprintf(own, sizeof(own), "%d", getpid());
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, own) != 0)
			sum += thread_wakes(entry->d_name);
	closedir(folder);
	return sum;
}

static uint64_t cpu_us(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

/* True: a second comes in which nothing happens here. */
static bool becomes_quiet(void)
{
	const uint64_t start = clock_us();

	do {
		const unsigned long wakes = library_wakes();
		const uint64_t used_us = cpu_us();

		usleep(QUIET_US); /* nothing can be observed of a process that does nothing */
		if (library_wakes() - wakes <= WAKES_MAX && cpu_us() - used_us <= CPU_US_MAX)
			return true;
	} while (clock_us() - start < DEADLINE_US);
	return false;
}

static unsigned sockets_open(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned count = 0;
	char to[16] = "";

	CHECK(folder, "no /proc");
	while ((entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, to, sizeof(to) - 1);

		to[length > 0 ? length : 0] = '\0';
		count += !strncmp(to, "socket:", 7);
	}
	closedir(folder);
	return count;
}

int main(void)
{
	static struct end end;
	struct duo duo;
	bool child = duo_split(&duo);

	end_open(&end);
	end_connect(&end, &duo);
	receives_post(&end);
	duo_tell(&duo, 'r');
	CHECK(duo_told(&duo, 'r'), "the other one ended");
	talk(&end);
	if (child) {
		duo_told(&duo, 'e'); /* or the other one has ended */
		return 0;
	}
	tap(sockets_open() >= 2 * QPS, "each QP has a lane with sockets of its own");
	tap(becomes_quiet(), "idle QPs of many lanes use no CPU");
	duo_tell(&duo, 'e');
	CHECK(!duo_status(&duo), "the other one failed");
	return tap_end();
}
