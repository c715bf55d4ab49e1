/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handshakes that do not end, for tests/explain/why:
 *
 *	stuck_cm fetch    a server that does not fetch the event of a request
 *	stuck_cm accept   a server that fetches it, and does not answer
 *	stuck_cm address  a client that looks for a neighbour that is not there
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(call)                     \
	do {                           \
		if (call) {            \
			perror(#call); \
			exit(1);       \
		}                      \
	} while (0)

static void wait_for(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	MUST(event->event != type);
	if (type != RDMA_CM_EVENT_CONNECT_REQUEST)
		rdma_ack_cm_event(event);
}

static void connect_to(struct rdma_event_channel *channel, struct sockaddr_in *server)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_cm_id *id;

	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(rdma_resolve_addr(id, NULL, (void *)server, 5000));
	wait_for(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 5000));
	wait_for(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(rdma_create_qp(id, NULL, &init));
	MUST(rdma_connect(id, &param));
}

/* Both ends in this process. */
static void serve(bool fetches)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, server;
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	MUST(rdma_create_id(own, &listener, NULL, RDMA_PS_TCP));
	MUST(rdma_bind_addr(listener, (void *)&any));
	MUST(rdma_listen(listener, 4));
	server = (struct sockaddr_in){ .sin_family = AF_INET,
				       .sin_port = rdma_get_src_port(listener),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	connect_to(other, &server);
	if (fetches)
		wait_for(own, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* An address of the same subnet as that of an interface, which no host has. */
static bool neighbour_choose(struct sockaddr_in *to)
{
	struct ifaddrs *list, *at;

	MUST(getifaddrs(&list));
	for (at = list; at; at = at->ifa_next) {
		const struct sockaddr_in *own = (const void *)at->ifa_addr;
		const struct sockaddr_in *mask = (const void *)at->ifa_netmask;

		if (!own || own->sin_family != AF_INET || at->ifa_flags & IFF_LOOPBACK ||
		    ~ntohl(mask->sin_addr.s_addr) < 0xff || at->ifa_flags & IFF_NOARP)
			continue;
		*to = *own;
		to->sin_addr.s_addr ^= htonl(0xb7);
		to->sin_port = htons(7471);
		return true;
	}
	return false;
}

static void resolve(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!neighbour_choose(&to)) {
		printf("no such neighbour\n");
		return;
	}
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(rdma_resolve_addr(id, NULL, (void *)&to, 60000));
	if (!rdma_get_cm_event(channel, &event))
		printf("no such neighbour is missing: %s\n", rdma_event_str(event->event));
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(name, "address"))
		resolve();
	else
		serve(!strcmp(name, "accept"));
	pause();
	return 0;
}
