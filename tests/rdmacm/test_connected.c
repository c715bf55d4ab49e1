/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs do by verbs with the QPs of connections: several share one SRQ and its CQ, and an
 * established one gets an alternate path and migrates.
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "party.h"

enum { QPS = 4, RECEIVES = 16, MESSAGES = 100, LONG = 100000 };

/* --- a shared receive queue --- */

/* The passive side: all its connections receive through the listener's SRQ. */
struct shared {
	struct party party;
	struct rdma_cm_id *client[QPS], *server[QPS];
	struct rdma_cm_id *srq_id; /* has the SRQ, and no connection */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *receive_mr, *send_mr;
	char *received, *sent;
};

static void shared_begin(struct shared *shared)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct sockaddr_in here;

	party_begin(&shared->party, RDMA_PS_TCP);
	address4(&here, "127.0.0.1", shared->party.port);
	assert_int_equal(rdma_create_id(NULL, &shared->srq_id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(shared->srq_id, NULL, (struct sockaddr *)&here, 1000),
			 0);
	shared->received = calloc(1, LONG);
	shared->sent = malloc(LONG);
	memset(shared->sent, 0x5a, LONG);
	shared->receive_mr = rdma_reg_msgs(shared->srq_id, shared->received, LONG);
	shared->send_mr = rdma_reg_msgs(shared->srq_id, shared->sent, LONG);
	assert_int_equal(rdma_create_srq(shared->srq_id, NULL, &attr), 0);
	for (int i = 0; i < RECEIVES; i++)
		assert_int_equal(rdma_post_recv(shared->srq_id, NULL, shared->received, LONG,
						shared->receive_mr),
				 0);
	shared->channel = ibv_create_comp_channel(shared->srq_id->verbs);
	shared->cq = ibv_create_cq(shared->srq_id->verbs, RECEIVES, NULL, shared->channel, 0);
	assert_non_null(shared->cq);
	assert_int_equal(ibv_req_notify_cq(shared->cq, 0), 0);
}

static void shared_connect(struct shared *shared, int i)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = RECEIVES, .max_send_sge = 1 },
					 .recv_cq = shared->cq,
					 .srq = shared->srq_id->srq };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct party *party = &shared->party;
	struct rdma_cm_event *event;

	party_resolve(party);
	assert_int_equal(rdma_connect(party->client, &param), 0);
	event = next_event(party->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	shared->server[i] = event->id;
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_create_qp(shared->server[i], NULL, &attr), 0);
	assert_ptr_equal(shared->server[i]->qp->srq, shared->srq_id->srq);
	assert_ptr_equal(shared->server[i]->qp->recv_cq, shared->cq);
	assert_int_equal(rdma_accept(shared->server[i], NULL), 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party->server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	shared->client[i] = party->client;
	party->client = NULL;
}

static void shared_end(struct shared *shared)
{
	for (int i = 0; i < QPS; i++) {
		assert_int_equal(rdma_disconnect(shared->client[i]), 0);
		rdma_destroy_qp(shared->client[i]);
		rdma_destroy_qp(shared->server[i]);
		assert_int_equal(rdma_destroy_id(shared->client[i]), 0);
		assert_int_equal(rdma_destroy_id(shared->server[i]), 0);
	}
	rdma_dereg_mr(shared->receive_mr);
	rdma_dereg_mr(shared->send_mr);
	assert_int_equal(ibv_destroy_cq(shared->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(shared->channel), 0);
	rdma_destroy_srq(shared->srq_id);
	assert_int_equal(rdma_destroy_id(shared->srq_id), 0);
	free(shared->received);
	free(shared->sent);
	party_end(&shared->party);
}

static void await_event(struct shared *shared)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(shared->channel, &cq, &context), 0);
	assert_ptr_equal(cq, shared->cq);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

/* Each receive is posted again to the SRQ, by way of its identifier. */
static void take_messages(struct shared *shared, uint32_t length, int count, int by_qp[QPS])
{
	struct ibv_wc wc;

	for (int taken = 0; taken < count;) {
		await_event(shared);
		while (ibv_poll_cq(shared->cq, 1, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.byte_len, length);
			assert_memory_equal(shared->received, shared->sent, length);
			for (int i = 0; i < QPS; i++)
				by_qp[i] += wc.qp_num == shared->server[i]->qp->qp_num;
			assert_int_equal(rdma_post_recv(shared->srq_id, NULL, shared->received,
							LONG, shared->receive_mr),
					 0);
			taken++;
		}
	}
}

static void send_all(struct shared *shared, uint32_t length)
{
	struct ibv_wc wc;

	for (int i = 0; i < QPS; i++)
		assert_int_equal(rdma_post_send(shared->client[i], NULL, shared->sent, length,
						shared->send_mr, 0),
				 0);
	for (int i = 0; i < QPS; i++) {
		assert_int_equal(rdma_get_send_comp(shared->client[i], &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

static void connections_share_an_srq(void **state)
{
	struct shared shared = { 0 };
	int by_qp[QPS] = { 0 };

	shared_begin(&shared);
	for (int i = 0; i < QPS; i++)
		shared_connect(&shared, i);
	for (int i = 0; i < MESSAGES; i++) {
		uint32_t length = i % 2 ? LONG : 8;

		send_all(&shared, length);
		take_messages(&shared, length, QPS, by_qp);
	}
	for (int i = 0; i < QPS; i++)
		assert_int_equal(by_qp[i], MESSAGES);
	shared_end(&shared);
	(void)state;
}

/* --- an alternate path, loaded into an established connection --- */

static void exchange(struct party *party)
{
	struct rdma_cm_id *ends[2] = { party->client, party->server };
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_post_recvv(ends[!i], NULL, NULL, 0), 0);
		assert_int_equal(rdma_post_sendv(ends[i], NULL, NULL, 0, 0), 0);
		assert_int_equal(rdma_get_send_comp(ends[i], &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(rdma_get_recv_comp(ends[!i], &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
}

/* The path that the QP has, with another service level; 0 is its own LID then. */
static int load_path(struct ibv_qp *qp, uint16_t dlid)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV | IBV_QP_PORT, &init), 0);
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_ah_attr.sl = 5;
	if (dlid)
		attr.alt_ah_attr.dlid = dlid;
	attr.alt_pkey_index = attr.pkey_index;
	attr.alt_timeout = attr.timeout;
	attr.alt_port_num = attr.port_num;
	attr.path_mig_state = IBV_MIG_REARM;
	return ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static enum ibv_mig_state state_of(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	return attr->path_mig_state;
}

static void await_migration(struct ibv_qp *qp)
{
	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	bool found;

	do {
		assert_int_equal(ibv_get_async_event(qp->context, &event), 0);
		found = event.event_type == IBV_EVENT_PATH_MIG && event.element.qp == qp;
		assert_int_not_equal(event.event_type, IBV_EVENT_PATH_MIG_ERR);
		ibv_ack_async_event(&event);
	} while (!found);
	assert_int_equal(state_of(qp, &attr), IBV_MIG_MIGRATED);
	assert_int_equal(attr.ah_attr.sl, 5);
}

static bool has_paths(struct ibv_qp *qp)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(qp->context, 1, &port), 0);
	return port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static void migrate(struct party *party)
{
	struct ibv_qp_attr attr;

	do
		exchange(party);
	while (state_of(party->client->qp, &attr) != IBV_MIG_ARMED ||
	       state_of(party->server->qp, &attr) != IBV_MIG_ARMED);
	attr.path_mig_state = IBV_MIG_MIGRATED;
	assert_int_equal(ibv_modify_qp(party->client->qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	exchange(party);
	await_migration(party->client->qp);
	await_migration(party->server->qp);
}

/* RoCE has no alternate paths, as on Linux; the connection goes on in any case. */
static void an_established_connection_migrates(void **state)
{
	struct ibv_port_attr port;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(ibv_query_port(party.client->verbs, 1, &port), 0);
	if (has_paths(party.client->qp)) {
		assert_int_equal(load_path(party.client->qp, 0), 0);
		assert_int_equal(load_path(party.server->qp, port.lid), 0);
		migrate(&party);
	} else {
		assert_int_equal(load_path(party.client->qp, 0), EINVAL);
		assert_int_equal(load_path(party.server->qp, port.lid), EINVAL);
	}
	exchange(&party);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_share_an_srq),
		cmocka_unit_test(an_established_connection_migrates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
