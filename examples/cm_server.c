/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The passive side of the connection manager, step by step: bind, listen, take each request, set up
 * its resources, accept it, answer each message, and clean up when the peer disconnects.
 *
 *   cm_server [PORT [CONNECTIONS]]   PORT 0: any free port, printed; CONNECTIONS 0: for ever
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm_common.h"

static void on_message(struct connection *connection, const char *text)
{
	char answer[MESSAGE_SIZE];

	printf("received: %s\n", text);
	snprintf(answer, sizeof(answer), "you said: %.200s", text);
	connection_send(connection, answer);
}

static void on_connect_request(struct rdma_cm_id *id)
{
	struct rdma_conn_param parameters = connection_parameters();

	connection_open(id, on_message);
	if (rdma_accept(id, &parameters))
		die("rdma_accept");
}

static void on_event(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		on_connect_request(event->id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		printf("connected\n");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(event->id); /* the own half: the QP goes to the error state */
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "unexpected: %s, status %d\n", rdma_event_str(event->event),
			event->status);
		exit(1);
	}
}

/* Returns 1 when a connection is over. rdma_destroy_id waits for acknowledgements, so the event is
 * acknowledged first. */
static int next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event, copy;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	copy = *event;
	on_event(&copy);
	rdma_ack_cm_event(event);
	if (copy.event != RDMA_CM_EVENT_DISCONNECTED)
		return 0;
	connection_close(copy.id->context);
	printf("disconnected\n");
	return 1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int wanted = argc > 2 ? atoi(argv[2]) : 0, over = 0;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;

	setvbuf(stdout, NULL, _IOLBF, 0);
	address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_bind_addr(listener, (struct sockaddr *)&address))
		die("rdma_bind_addr");
	if (rdma_listen(listener, 10))
		die("rdma_listen");
	printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
	while (!wanted || over < wanted)
		over += next_event(channel);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return 0;
}
