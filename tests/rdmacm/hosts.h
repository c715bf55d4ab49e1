/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts for a test, made by any user who may have network namespaces:
 *
 *   A  vb0 192.0.2.1/24, 2001:db8::1/64 ------ vb0 192.0.2.2/24, 2001:db8::2/64  B
 *
 * Each side is a process of its own, forked before anything of RDMA is used. A check that fails
 * ends its process; the case has failed then.
 */
#ifndef VB_TESTS_RDMACM_HOSTS_H
#define VB_TESTS_RDMACM_HOSTS_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

#define HOST_A  "192.0.2.1"
#define HOST_B  "192.0.2.2"
#define NOBODY  "192.0.2.99"
#define HOST_A6 "2001:db8::1"
#define HOST_B6 "2001:db8::2"
#define NOBODY6 "2001:db8::99"

/* other: a socket to the other side, to wait for each other. */
typedef void (*side)(int other);

/* Runs both sides on two hosts, or one on host A; what it came to is a line of TAP. */
void run_hosts(const char *name, side a, side b);
/* Runs one side on this host. */
void run_here(const char *name, side a);
/* How many failed. */
int report_cases(void);

/* A command of the shell must succeed. */
void shell(const char *command);
/* Says that we are there, and waits until the other says so. */
void tell(int other);
void await(int other);
/* Until the other side is through. */
void await_end(int other);

void set_address(struct sockaddr_storage *address, const char *text, uint16_t port);

struct rdma_cm_id *new_id(struct rdma_event_channel *channel);
void new_qp(struct rdma_cm_id *id);
/* The next event must be this one; its id in *id if that is not NULL. Returns its status. */
int take_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
	       struct rdma_cm_id **id);
/* Resolved, with a QP. */
struct rdma_cm_id *resolve_to(struct rdma_event_channel *channel, const char *address,
			      uint16_t port);

#endif
