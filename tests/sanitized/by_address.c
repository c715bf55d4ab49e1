/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sides once more, connected by the connection manager. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"

enum { TEXT_BYTES = 2000, PATIENCE_MS = 10000 };

/* What the other thread wrote into the context of an identifier is there with its event. */
struct call {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	unsigned told;
};

/* The event is copied, without its private data, and acknowledged. */
static struct rdma_cm_event next(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
				 const char *data)
{
	struct rdma_cm_event *event, copy;

	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == type && event->status == 0);
	if (data)
		CHECK(event->param.conn.private_data_len >= 8 &&
		      !memcmp(event->param.conn.private_data, data, 8));
	copy = *event;
	CHECK(!rdma_ack_cm_event(event));
	return copy;
}

static void qp_make(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	CHECK(!rdma_create_qp(id, NULL, &init));
}

static struct rdma_conn_param parameters(const char *data)
{
	return (struct rdma_conn_param){ .private_data = data,
					 .private_data_len = 8,
					 .responder_resources = 1,
					 .initiator_depth = 1,
					 .rnr_retry_count = 7,
					 .retry_count = 7 };
}

static void answer(struct side *side)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct rdma_conn_param accepted = parameters("accepted");
	struct rdma_cm_id *listener, *id;
	char *text = malloc(TEXT_BYTES);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint16_t port, none;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(channel != NULL);
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&address) && !rdma_listen(listener, 1));
	port = rdma_get_src_port(listener);
	exchange(side, &port, &none, sizeof(port));
	id = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, "asked...").id;
	CHECK(!side->note || side->note->asked);
	qp_make(id);
	mr = rdma_reg_msgs(id, text, TEXT_BYTES);
	CHECK(mr && !rdma_post_recv(id, NULL, text, TEXT_BYTES, mr));
	CHECK(!rdma_accept(id, &accepted));
	next(channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
	CHECK(rdma_get_recv_comp(id, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == TEXT_BYTES);
	for (int i = 0; i < TEXT_BYTES; i++)
		CHECK(text[i] == (char)i);
	next(channel, RDMA_CM_EVENT_DISCONNECTED, NULL);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_qp(id);
	CHECK(!rdma_dereg_mr(mr) && !rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	free(text);
}

static void resolve(struct rdma_event_channel *channel, struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, PATIENCE_MS));
	next(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	CHECK(!rdma_resolve_route(id, PATIENCE_MS));
	next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	CHECK(id->verbs != NULL && id->port_num > 0);
}

static void ask(struct side *side)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param asked = parameters("asked...");
	struct rdma_cm_id *id;
	char *text = malloc(TEXT_BYTES);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint16_t port, none = 0;

	CHECK(channel != NULL);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	exchange(side, &none, &port, sizeof(port));
	resolve(channel, id, port);
	qp_make(id);
	mr = rdma_reg_msgs(id, text, TEXT_BYTES);
	CHECK(mr != NULL);
	if (side->note)
		side->note->asked = true;
	CHECK(!rdma_connect(id, &asked));
	next(channel, RDMA_CM_EVENT_ESTABLISHED, "accepted");
	for (int i = 0; i < TEXT_BYTES; i++)
		text[i] = (char)i;
	CHECK(!rdma_post_send(id, NULL, text, TEXT_BYTES, mr, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	next(channel, RDMA_CM_EVENT_DISCONNECTED, NULL);
	rdma_destroy_qp(id);
	CHECK(!rdma_dereg_mr(mr) && !rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	free(text);
}

void talk_by_address(struct side *side)
{
	if (side->server)
		answer(side);
	else
		ask(side);
}
