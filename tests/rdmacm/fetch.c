/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>

enum { HANG_S = 60 };

atomic_bool stop;

bool fetch_next(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	return poll(&ready, 1, 10) == 1 && !rdma_get_cm_event(channel, event);
}

void spin(long ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < ns);
}

/* The context of identifiers is the semaphore of those who wait for them to be resolved. */
static void *fetch(void *channel)
{
	struct rdma_cm_event *event;

	while (!stop) {
		sem_t *resolved;

		if (!fetch_next(channel, &event))
			continue;
		resolved = event->id->context;
		if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED ||
		    event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
			sem_post(resolved);
		rdma_ack_cm_event(event);
	}
	return NULL;
}

void fetchers_start(struct fetchers *fetchers, struct rdma_event_channel *channel)
{
	stop = false;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	sem_init(&fetchers->resolved, 0, 0);
	for (int i = 0; i < FETCHERS; i++)
		pthread_create(&fetchers->threads[i], NULL, fetch, channel);
}

void fetchers_stop(struct fetchers *fetchers)
{
	stop = true;
	for (int i = 0; i < FETCHERS; i++)
		pthread_join(fetchers->threads[i], NULL);
	sem_destroy(&fetchers->resolved);
}

static void wait_for(sem_t *resolved)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HANG_S;
	while (sem_timedwait(resolved, &until))
		assert_int_equal(errno, EINTR);
}

struct rdma_cm_id *fetchers_resolve(struct fetchers *fetchers, struct party *party)
{
	struct sockaddr_in addr;
	struct rdma_cm_id *id;

	address4(&addr, "127.0.0.1", party->port);
	assert_int_equal(rdma_create_id(party->client_channel, &id, &fetchers->resolved, party->ps),
			 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
	wait_for(&fetchers->resolved);
	if (party->ps != RDMA_PS_TCP)
		return id;
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	wait_for(&fetchers->resolved);
	return id;
}
