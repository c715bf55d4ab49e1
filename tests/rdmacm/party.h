/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends of connections in one process, on 127.0.0.1, for tests of the exported functions. */
#ifndef VB_TESTS_RDMACM_PARTY_H
#define VB_TESTS_RDMACM_PARTY_H

#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ThreadSanitizer cannot follow a child that starts threads. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_FORK() skip()
#else
#define SKIP_WITHOUT_FORK() ((void)0)
#endif

struct party {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *server, *client; /* after party_request and party_resolve */
	enum rdma_port_space ps;
	uint16_t port;
	/* The last request. */
	struct rdma_conn_param request;
	uint8_t request_data[256];
};

void party_begin(struct party *party, enum rdma_port_space ps);
/* The same, but nobody listens any more. */
void party_begin_unheard(struct party *party, enum rdma_port_space ps);
void party_end(struct party *party);

/* client: bound, resolved, with a QP. */
void party_resolve(struct party *party);
/* server: the identifier of a request, with a QP. */
void party_request(struct party *party);
void party_create_qp(struct rdma_cm_id *id);
/* All of it. */
void party_connect(struct party *party);

/* The next event must be this one; the caller acknowledges it. Fails after 5 s without any. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* The same and acknowledged; returns its status. */
int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* There is none. */
void expect_silence(struct rdma_event_channel *channel, int for_ms);

void address4(struct sockaddr_in *addr, const char *text, uint16_t port);

#endif
