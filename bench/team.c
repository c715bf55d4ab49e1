/* SPDX-License-Identifier: BSD-2-Clause */
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { WARM_UP_MS = 300, LOOK_US = 100 };

struct thread {
	struct team_worker worker;
	team_work *work;
	pthread_t id;
};

static void pause_us(long us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		continue;
}

/* The number of the n-th CPU that this process may use. Partners have neighbouring ones. */
static int nth_cpu(const cpu_set_t *allowed, int n)
{
	int left = n % CPU_COUNT(allowed);

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed) && left-- == 0)
			return cpu;
	return 0;
}

static void pin(const struct team_worker *self)
{
	cpu_set_t allowed, own;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		bench_die(errno, "sched_getaffinity");
	CPU_ZERO(&own);
	CPU_SET(nth_cpu(&allowed, 2 * self->index + (int)self->team->side), &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		bench_die(errno, "cannot pin a worker");
}

static void *thread_main(void *arg)
{
	const struct thread *thread = arg;

	pin(&thread->worker);
	thread->work(&thread->worker);
	return NULL;
}

static void start(const struct team *team, struct thread *threads, team_work *work)
{
	for (int i = 0; i < team->workers; i++) {
		threads[i] = (struct thread){ .worker = { team, i }, .work = work };
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			bench_die(0, "pthread_create failed");
	}
}

static uint64_t sum(const struct team *team)
{
	uint64_t done = 0;

	for (int side = 0; side < 2; side++)
		for (int i = 0; i < team->workers; i++)
			done += atomic_load(&team->shared->worker[side][i].done);
	return done;
}

static double measure(const struct team *team)
{
	uint64_t first, last;
	double begin, end;

	for (int side = 0; side < 2; side++)
		for (int i = 0; i < team->workers; i++)
			while (!atomic_load(&team->shared->worker[side][i].ready))
				pause_us(LOOK_US);
	pause_us(WARM_UP_MS * 1000);
	first = sum(team);
	begin = bench_now_ns();
	pause_us((long)(team->seconds * 1e6));
	last = sum(team);
	end = bench_now_ns();
	atomic_store(&team->shared->stop, true);
	return (double)(last - first) / (end - begin) * 1e9;
}

double team_run(struct team *team, team_prepare *prepare, team_work *work)
{
	struct thread threads[TEAM_WORKERS_MAX];
	struct bench_pair pair;
	double rate = 0;

	team->shared = mmap(NULL, sizeof(*team->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (team->shared == MAP_FAILED)
		bench_die(errno, "mmap");
	pair = bench_fork();
	team->side = pair.side;
	if (prepare)
		prepare(team);
	start(team, threads, work);
	if (team->side == BENCH_PARENT)
		rate = measure(team);
	for (int i = 0; i < team->workers; i++)
		pthread_join(threads[i].id, NULL);
	bench_barrier(&pair); /* no process ends while workers of the other one still work */
	bench_join(&pair);
	return rate;
}

void team_exchange(const struct team_worker *self, const void *mine, void *theirs, size_t size)
{
	struct team_worker_line *own = team_line(self), *partner = team_partner_line(self);

	memcpy(own->blob, mine, size);
	atomic_store(&own->ready, true);
	while (!atomic_load(&partner->ready))
		pause_us(LOOK_US);
	memcpy(theirs, partner->blob, size);
}
