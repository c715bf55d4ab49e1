/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection: protection domain, completion channel and queue, queue pair, two registered
 * buffers, and a thread that sleeps on the completion channel and polls the completion queue.
 */
#include "cm_common.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WR_RECEIVE = 1, WR_SEND, WR_LAST };

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void post_receive(struct connection *connection)
{
	struct ibv_sge sge = { (uintptr_t)connection->recv_buffer, MESSAGE_SIZE,
			       connection->recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = WR_RECEIVE, .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(connection->id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv");
}

void connection_send(struct connection *connection, const char *text)
{
	struct ibv_sge sge = { (uintptr_t)connection->send_buffer, MESSAGE_SIZE,
			       connection->send_mr->lkey };
	struct ibv_send_wr wr = { .wr_id = WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	snprintf(connection->send_buffer, MESSAGE_SIZE, "%s", text);
	errno = ibv_post_send(connection->id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
}

/* False: it was the last completion. */
static bool on_completion(struct connection *connection, const struct ibv_wc *wc)
{
	if (wc->wr_id == WR_LAST)
		return false;
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return true; /* disconnected: an unused receive is flushed */
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (wc->opcode & IBV_WC_RECV) {
		char text[MESSAGE_SIZE];

		snprintf(text, sizeof(text), "%s", connection->recv_buffer);
		post_receive(connection);
		connection->on_message(connection, text);
	}
	return true;
}

static void *poll_queue(void *arg)
{
	struct connection *connection = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *unused;
	bool more = true;

	while (more) {
		if (ibv_get_cq_event(connection->channel, &cq, &unused))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
		while (more && ibv_poll_cq(cq, 1, &wc) > 0)
			more = on_completion(connection, &wc);
	}
	return NULL;
}

static void create_queue_pair(struct connection *connection)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = connection->cq,
		.recv_cq = connection->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = QUEUE_DEPTH,
			 .max_recv_wr = QUEUE_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	if (rdma_create_qp(connection->id, connection->pd, &attr))
		die("rdma_create_qp");
}

struct connection *connection_open(struct rdma_cm_id *id,
				   void (*on_message)(struct connection *, const char *))
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		die("calloc");
	connection->id = id;
	connection->on_message = on_message;
	id->context = connection;
	connection->pd = ibv_alloc_pd(id->verbs);
	connection->channel = ibv_create_comp_channel(id->verbs);
	if (!connection->pd || !connection->channel)
		die("ibv_alloc_pd or ibv_create_comp_channel");
	connection->cq = ibv_create_cq(id->verbs, 2 * QUEUE_DEPTH, NULL, connection->channel, 0);
	if (!connection->cq || ibv_req_notify_cq(connection->cq, 0))
		die("ibv_create_cq");
	create_queue_pair(connection);
	connection->send_mr = ibv_reg_mr(connection->pd, connection->send_buffer, MESSAGE_SIZE, 0);
	connection->recv_mr = ibv_reg_mr(connection->pd, connection->recv_buffer, MESSAGE_SIZE,
					 IBV_ACCESS_LOCAL_WRITE);
	if (!connection->send_mr || !connection->recv_mr)
		die("ibv_reg_mr");
	post_receive(connection); /* before the peer can send */
	errno = pthread_create(&connection->poller, NULL, poll_queue, connection);
	if (errno)
		die("pthread_create");
	return connection;
}

/* The QP is in the error state: this receive is flushed behind everything else. */
static void stop_poller(struct connection *connection)
{
	struct ibv_recv_wr last = { .wr_id = WR_LAST }, *bad;

	errno = ibv_post_recv(connection->id->qp, &last, &bad);
	if (errno)
		die("ibv_post_recv");
	pthread_join(connection->poller, NULL);
}

void connection_close(struct connection *connection)
{
	stop_poller(connection);
	rdma_destroy_qp(connection->id);
	ibv_dereg_mr(connection->send_mr);
	ibv_dereg_mr(connection->recv_mr);
	ibv_destroy_cq(connection->cq);
	ibv_destroy_comp_channel(connection->channel);
	ibv_dealloc_pd(connection->pd);
	rdma_destroy_id(connection->id);
	free(connection);
}

struct rdma_conn_param connection_parameters(void)
{
	return (struct rdma_conn_param){
		.initiator_depth = 1,
		.responder_resources = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}
