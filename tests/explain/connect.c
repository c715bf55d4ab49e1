/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that are refused: by whom, in words of the calls. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rig.h"

/* The address of the first device. */
static struct sockaddr_in own_address(void)
{
	const struct rig_plan plan = rig_plan();
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct rig_side side = { 0 };

	rig_side_open(&side, &plan);
	memcpy(&address.sin_addr, &side.gid.raw[12], 4);
	return address;
}

static void next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
		       struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		rig_fail("rdma_get_cm_event");
	if (event->event != type)
		rig_fail(rdma_event_str(event->event));
	if (id)
		*id = event->id;
	rdma_ack_cm_event(event);
}

/* The server answers in the midst: it is the same thread. */
static void connect_to(struct sockaddr_in *address, struct rdma_event_channel *server)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 77, .retry_count = 1 };
	struct rdma_cm_id *id, *request;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (void *)address, 2000))
		rig_fail("rdma_resolve_addr");
	next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(id, 2000))
		rig_fail("rdma_resolve_route");
	next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	if (rdma_connect(id, &param))
		rig_fail("rdma_connect");
	if (server) {
		next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, &request);
		if (rdma_reject(request, "why", 3))
			rig_fail("rdma_reject");
	}
	next_event(channel, RDMA_CM_EVENT_REJECTED, NULL);
}

static void nobody_listens(void)
{
	struct sockaddr_in address = own_address();

	address.sin_port = htons(7); /* nobody can bind it but root, and nobody does */
	connect_to(&address, NULL);
}

static void rejected(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address();
	struct rdma_cm_id *listener;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (void *)&address) || rdma_listen(listener, 1))
		rig_fail("rdma_listen");
	address.sin_port = rdma_get_src_port(listener);
	connect_to(&address, channel);
}

static void expect_refusal(int got)
{
	if (got != -1)
		rig_fail("a call succeeded");
}

/* Calls in a wrong order, or for another kind of identifier. */
static void wrong_calls(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = own_address();
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
	struct rdma_cm_id *id, *second;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_create_id(channel, &second, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (void *)&address))
		rig_fail("rdma_bind_addr");
	expect_refusal(rdma_create_qp(id, NULL, &init));
	expect_refusal(rdma_join_multicast(id, (void *)&address, NULL));
	address.sin_port = rdma_get_src_port(id);
	expect_refusal(rdma_bind_addr(second, (void *)&address));
}

static void accepted_twice(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 77, .retry_count = 1 };
	struct sockaddr_in address = own_address();
	struct rdma_cm_id *listener, *id, *request;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (void *)&address) || rdma_listen(listener, 1))
		rig_fail("rdma_listen");
	address.sin_port = rdma_get_src_port(listener);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (void *)&address, 2000))
		rig_fail("rdma_resolve_addr");
	next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(id, 2000))
		rig_fail("rdma_resolve_route");
	next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	if (rdma_connect(id, &param))
		rig_fail("rdma_connect");
	next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &request);
	if (rdma_accept(request, &param))
		rig_fail("rdma_accept");
	expect_refusal(rdma_accept(request, &param));
}

#define TO "the connection to [0-9.]+:[0-9]+ was rejected: "

const struct rig_case rig_connect_cases[] = {
	{ "a port that nobody listens on",
	  nobody_listens,
	  { TO "nobody listens on port 7 there" } },
	{ "a server that rejects", rejected, { TO "the server called rdma_reject$" } },
	{ "a server that accepts twice",
	  accepted_twice,
	  { "rdma_accept: the request was accepted before" } },
	{ "calls for another kind of identifier",
	  wrong_calls,
	  { "rdma_create_qp: a UD QP needs an identifier of RDMA_PS_UDP or RDMA_PS_IPOIB",
	    "rdma_join_multicast: the identifier is of RDMA_PS_TCP",
	    "port [0-9.]+:[0-9]+ of RDMA_PS_TCP cannot be taken: another identifier is bound to "
	    "it" } },
	{ 0 },
};
