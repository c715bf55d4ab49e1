/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that fetch events, while others do something to the identifiers that these are about. */
#ifndef VB_TESTS_RDMACM_FETCH_H
#define VB_TESTS_RDMACM_FETCH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "party.h"

enum { FETCHERS = 2 };

struct fetchers {
	pthread_t threads[FETCHERS];
	sem_t resolved;
};

/* The threads of a test end. */
extern atomic_bool stop;

/* For such threads: false if none came for a moment. */
bool fetch_next(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/* They acknowledge whatever comes. */
void fetchers_start(struct fetchers *fetchers, struct rdma_event_channel *channel);
void fetchers_stop(struct fetchers *fetchers);
/* An identifier of the channel of clients, on its way to the port of the party. */
struct rdma_cm_id *fetchers_resolve(struct fetchers *fetchers, struct party *party);

/* Sleeping is not as exact. */
void spin(long ns);

#endif
