/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections in partitions: which P_Key requests carry, and where the QPs of both sides stand. */
#include <arpa/inet.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "party.h"

enum { FIRST = 0x8001, SECOND = 0xffff };

static uint16_t pkey_index(const struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_PKEY_INDEX, &init), 0);
	return attr.pkey_index;
}

static void check_message(struct party *party)
{
	char text[8] = "hello", got[8] = "";
	struct ibv_mr *mr = rdma_reg_msgs(party->server, got, sizeof(got));
	struct ibv_wc wc;

	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(party->server, NULL, got, sizeof(got), mr), 0);
	assert_int_equal(rdma_post_send(party->client, NULL, text, sizeof(text), NULL,
					IBV_SEND_INLINE | IBV_SEND_SIGNALED),
			 0);
	while (ibv_poll_cq(party->client->send_cq, 1, &wc) != 1)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(party->server->recv_cq, 1, &wc) != 1)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(got, text);
	rdma_dereg_mr(mr);
}

static void the_first_key_is_that_of_connections(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(ntohs(party.client->route.path_rec->pkey), FIRST);
	assert_int_equal(ntohs(party.client->route.addr.addr.ibaddr.pkey), FIRST);
	assert_int_equal(ntohs(party.server->route.path_rec->pkey), FIRST);
	assert_int_equal(pkey_index(party.client), 0);
	assert_int_equal(pkey_index(party.server), 0);
	check_message(&party);
	party_end(&party);
}

/* A request in another partition of the port: the server's QP follows it. */
static void a_path_in_another_partition(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	rdma_destroy_qp(party.client);
	party.client->route.path_rec->pkey = htons(SECOND);
	party_create_qp(party.client);
	assert_int_equal(pkey_index(party.client), 1);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(ntohs(party.server->route.path_rec->pkey), SECOND);
	assert_int_equal(pkey_index(party.server), 1);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	check_message(&party);
	party_end(&party);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_key_is_that_of_connections),
		cmocka_unit_test(a_path_in_another_partition),
	};

	setenv("VERBENA_PKEYS", "0x8001,0xffff", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
