/* SPDX-License-Identifier: BSD-2-Clause */
/* What the client and the server of the connection manager example share. */
#ifndef EXAMPLES_CM_COMMON_H
#define EXAMPLES_CM_COMMON_H

#include <pthread.h>
#include <rdma/rdma_cma.h>

enum { TIMEOUT_MS = 2000, MESSAGE_SIZE = 256, QUEUE_DEPTH = 8 };

/* Everything that belongs to one connection; id->context points to it. */
struct connection {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *send_mr, *recv_mr;
	char send_buffer[MESSAGE_SIZE], recv_buffer[MESSAGE_SIZE];
	pthread_t poller;
	/* By the poller, for each message that arrived. */
	void (*on_message)(struct connection *connection, const char *text);
};

_Noreturn void die(const char *what);

/* Resources on the device that the connection goes through, a QP, a posted receive, the poller. */
struct connection *connection_open(struct rdma_cm_id *id,
				   void (*on_message)(struct connection *, const char *));
/* After the connection is over: waits for the poller, which ends when the QP's work is flushed. */
void connection_close(struct connection *connection);
void connection_send(struct connection *connection, const char *text);

/* Small queues, and retries without end: a receiver that is late makes nobody fail. */
struct rdma_conn_param connection_parameters(void);

#endif
