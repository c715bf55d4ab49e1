/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double bench_median(double *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), compare_doubles);
	return samples[count / 2];
}

_Noreturn void bench_die(int errnum, const char *what)
{
	if (errnum)
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
			strerror(errnum));
	else
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

void bench_pin(enum bench_side side)
{
	const char *list = getenv("BENCH_CPUS");
	int cpus[2];
	cpu_set_t set;

	if (!list || sscanf(list, "%d,%d", &cpus[0], &cpus[1]) != 2)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpus[side], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die(errno, "cannot pin to a core of BENCH_CPUS");
}

struct bench_pair bench_fork(void)
{
	int sockets[2];
	struct bench_pair pair;
	pid_t parent = getpid(), child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		bench_die(errno, "socketpair");
	child = fork();
	if (child < 0)
		bench_die(errno, "fork");
	pair.side = child ? BENCH_PARENT : BENCH_CHILD;
	pair.peer = child ? child : parent;
	pair.socket = sockets[pair.side];
	close(sockets[!pair.side]);
	if (pair.side == BENCH_CHILD)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Yama lets only ancestors in. Without Yama the call fails, which does no harm. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	bench_pin(pair.side);
	return pair;
}

void bench_exchange(const struct bench_pair *pair, const void *mine, void *theirs, size_t size)
{
	if (send(pair->socket, mine, size, MSG_NOSIGNAL) != (ssize_t)size ||
	    recv(pair->socket, theirs, size, MSG_WAITALL) != (ssize_t)size)
		bench_die(0, "the other process is gone");
}

void bench_barrier(const struct bench_pair *pair)
{
	char mine = 0, theirs;

	bench_exchange(pair, &mine, &theirs, 1);
}

void bench_join(const struct bench_pair *pair)
{
	int status;

	if (pair->side == BENCH_CHILD)
		exit(0);
	if (waitpid(pair->peer, &status, 0) != pair->peer || status)
		bench_die(0, "the other process failed");
}
