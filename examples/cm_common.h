/* SPDX-License-Identifier: BSD-2-Clause */
/* The common part of the connection manager example's client and server. */
#ifndef EXAMPLES_CM_COMMON_H
#define EXAMPLES_CM_COMMON_H

#include <pthread.h>
#include <rdma/rdma_cma.h>

enum { TIMEOUT_MS = 2000, MESSAGE_SIZE = 256, QUEUE_DEPTH = 8 };

/* The objects of one connection; id->context points to them. */
struct connection {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *send_mr, *recv_mr;
	char send_buffer[MESSAGE_SIZE], recv_buffer[MESSAGE_SIZE];
	pthread_t poller;
	/* The poller calls it for each message that arrives. */
	void (*on_message)(struct connection *connection, const char *text);
};

_Noreturn void die(const char *what);

/* Makes resources on the connection's device, a QP, a posted receive, and the poller thread. */
struct connection *connection_open(struct rdma_cm_id *id,
				   void (*on_message)(struct connection *, const char *));
/* After the connection is over. Waits for the poller, which ends when the QP is flushed. */
void connection_close(struct connection *connection);
void connection_send(struct connection *connection, const char *text);

/* Small queues, and endless retries: a late receiver does not break the connection. */
struct rdma_conn_param connection_parameters(void);

#endif
