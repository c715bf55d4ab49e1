/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The active side of the connection manager, step by step: resolve the address, set up resources on
 * the device it leads to, resolve the route, connect, send a message, wait for the answer,
 * disconnect, clean up.
 *
 *   cm_client ADDRESS PORT [TEXT]
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm_common.h"

static const char *text = "hello";

/* Called by the poller. Any thread may disconnect; the main thread gets the event. */
static void on_message(struct connection *connection, const char *answer)
{
	printf("received: %s\n", answer);
	if (rdma_disconnect(connection->id))
		die("rdma_disconnect");
}

static void on_route_resolved(struct rdma_cm_id *id)
{
	struct rdma_conn_param parameters = connection_parameters();

	if (rdma_connect(id, &parameters))
		die("rdma_connect");
}

/* Returns 0 while more events are to come. */
static int on_event(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		connection_open(event->id, on_message);
		if (rdma_resolve_route(event->id, TIMEOUT_MS))
			die("rdma_resolve_route");
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		on_route_resolved(event->id);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		printf("connected\n");
		connection_send(event->id->context, text);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		return 1;
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
}

static void run(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event, copy;
	int over;

	do {
		if (rdma_get_cm_event(channel, &event))
			die("rdma_get_cm_event");
		copy = *event;
		over = on_event(&copy);
		rdma_ack_cm_event(event);
	} while (!over);
	connection_close(copy.id->context);
	printf("disconnected\n");
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct addrinfo *info;

	if (argc < 3) {
		fprintf(stderr, "usage: cm_client ADDRESS PORT [TEXT]\n");
		return 2;
	}
	if (argc > 3)
		text = argv[3];
	if (getaddrinfo(argv[1], argv[2], NULL, &info)) {
		fprintf(stderr, "%s: not an address\n", argv[1]);
		return 1;
	}
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_resolve_addr(id, NULL, info->ai_addr, TIMEOUT_MS))
		die("rdma_resolve_addr");
	freeaddrinfo(info);
	run(channel);
	rdma_destroy_event_channel(channel);
	return 0;
}
