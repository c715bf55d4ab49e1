/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA connections a second (connect.h), each with a QP of its own: from the resolution of the
 * address to the connected QP, and the disconnect.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "connect.h"

enum { TIMEOUT_MS = 10000, CQES = 16 };

/* One protection domain and one completion queue for all connections: they are not measured. */
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		cq = ibv_create_cq(id->verbs, CQES, NULL, NULL, 0);
		if (!pd || !cq)
			bench_die(errno, "PD or CQ");
	}
	attr.send_cq = attr.recv_cq = cq;
	if (rdma_create_qp(id, pd, &attr))
		bench_die(errno, "rdma_create_qp");
}

static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){ .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static void destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

/* Takes the next event; its id in *id. */
static enum rdma_cm_event_type next_event(struct rdma_event_channel *channel,
					  struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(channel, &event))
		bench_die(errno, "rdma_get_cm_event");
	type = event->event;
	*id = event->id;
	if (event->status && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		fprintf(stderr, "%s: status %d\n", rdma_event_str(type), event->status);
		exit(1);
	}
	rdma_ack_cm_event(event);
	return type;
}

/* --- the server --- */

static void accept_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();

	create_qp(id);
	if (rdma_accept(id, &param))
		bench_die(errno, "rdma_accept");
}

static void on_server_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;
	enum rdma_cm_event_type type = next_event(channel, &id);

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		accept_one(id);
	} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
		rdma_disconnect(id);
		destroy(id);
	}
}

static struct rdma_event_channel *listen_cm(const struct connect_options *options)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP))
		bench_die(errno, "rdma_create_id");
	if (rdma_bind_addr(listener, (struct sockaddr *)&options->address) ||
	    rdma_listen(listener, 0))
		bench_die(errno, "rdma_bind_addr or rdma_listen");
	return channel;
}

static void serve(const struct connect_options *options)
{
	struct rdma_event_channel *channel = listen_cm(options);
	struct pollfd fds[2] = {
		{ .fd = channel->fd, .events = POLLIN },
		{ .fd = connect_control_accept(connect_control_listen(options)), .events = POLLIN },
	};

	for (;;) {
		poll(fds, 2, -1);
		if (fds[0].revents)
			on_server_event(channel);
		else if (fds[1].revents)
			return;
	}
}

/* --- the client --- */

static struct rdma_cm_id *start(struct rdma_event_channel *channel,
				const struct connect_options *options)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		bench_die(errno, "rdma_create_id");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&options->address, TIMEOUT_MS))
		bench_die(errno, "rdma_resolve_addr");
	return id;
}

static void resolved(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();

	create_qp(id);
	if (rdma_connect(id, &param))
		bench_die(errno, "rdma_connect");
}

/* One step of a connection; true: the connection is established. */
static bool step(struct rdma_event_channel *channel, struct rdma_cm_id **id)
{
	switch (next_event(channel, id)) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(*id, TIMEOUT_MS))
			bench_die(errno, "rdma_resolve_route");
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		resolved(*id);
		return false;
	case RDMA_CM_EVENT_ESTABLISHED:
		return true;
	default:
		bench_die(0, "an event that does not belong here");
	}
}

static struct rdma_event_channel *client_channel(void)
{
	static struct rdma_event_channel *channel;

	if (!channel)
		channel = rdma_create_event_channel();
	if (!channel)
		bench_die(errno, "rdma_create_event_channel");
	return channel;
}

static void one(const struct connect_options *options)
{
	struct rdma_event_channel *channel = client_channel();
	struct rdma_cm_id *id = start(channel, options);

	while (!step(channel, &id))
		;
	rdma_disconnect(id);
	while (next_event(channel, &id) != RDMA_CM_EVENT_DISCONNECTED)
		;
	destroy(id);
}

static double many(const struct connect_options *options)
{
	struct rdma_event_channel *channel = client_channel();
	struct rdma_cm_id **ids = calloc((size_t)options->concurrent, sizeof(*ids)), *id;
	double start_ns = bench_now_ns(), end_ns;

	for (int i = 0; i < options->concurrent; i++)
		ids[i] = start(channel, options);
	for (int done = 0; done < options->concurrent;)
		done += step(channel, &id);
	end_ns = bench_now_ns();
	for (int i = 0; i < options->concurrent; i++)
		rdma_disconnect(ids[i]);
	for (int i = 0; i < options->concurrent; i++)
		destroy(ids[i]);
	free(ids);
	return end_ns - start_ns;
}

int main(int argc, char **argv)
{
	static const struct connect_shape shape = { "connect_cm", serve, one, many };

	return connect_main(argc, argv, &shape);
}
