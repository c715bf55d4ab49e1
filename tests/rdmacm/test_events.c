/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that come when something goes wrong, and those of multicast groups. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "party.h"

/* --- connections --- */

static void a_qp_that_cannot_be_used_is_a_connect_error(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(ibv_modify_qp(party.client->qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_CONNECT_ERROR), -EINVAL);
	/* The peer must not wait for an RTU: 28 is a rejection by the consumer. */
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_REJECTED), 28);
	expect_silence(party.client_channel, 20);
	party_end(&party);
	(void)state;
}

static void a_request_that_is_given_up_still_has_its_event(void **state)
{
	struct party party;

	party_begin_unheard(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	/* It may have been rejected by now, and be about to be sent once more. */
	assert_int_equal(rdma_disconnect(party.client), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 8);
	party_end(&party);
	(void)state;
}

/* --- multicast --- */

static void resolve_group(struct party *party, const char *group)
{
	struct sockaddr_in src, dst;

	address4(&src, "127.0.0.1", 0);
	address4(&dst, group, 0);
	assert_int_equal(rdma_create_id(party->client_channel, &party->client, NULL, RDMA_PS_UDP),
			 0);
	assert_int_equal(rdma_resolve_addr(party->client, (struct sockaddr *)&src,
					   (struct sockaddr *)&dst, 1000),
			 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	party_create_qp(party->client);
}

static void join(struct party *party, const char *group, void *context)
{
	struct sockaddr_in addr;

	address4(&addr, group, 0);
	assert_int_equal(rdma_join_multicast(party->client, (struct sockaddr *)&addr, context), 0);
}

static int leave(struct party *party, const char *group)
{
	struct sockaddr_in addr;

	address4(&addr, group, 0);
	return rdma_leave_multicast(party->client, (struct sockaddr *)&addr);
}

static void a_join_says_how_to_reach_the_group(void **state)
{
	char buffer[104], message[64] = "to all";
	struct rdma_cm_event *event;
	struct ibv_mr *received, *sent;
	struct party party;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	party_begin(&party, RDMA_PS_UDP);
	resolve_group(&party, "239.1.2.3");
	join(&party, "239.1.2.3", &party);
	event = next_event(party.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(event->status, 0);
	assert_ptr_equal(event->param.ud.private_data, &party);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	ah = ibv_create_ah(party.client->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	rdma_ack_cm_event(event);

	received = rdma_reg_msgs(party.client, buffer, sizeof(buffer));
	sent = rdma_reg_msgs(party.client, message, sizeof(message));
	assert_int_equal(rdma_post_recv(party.client, NULL, buffer, sizeof(buffer), received), 0);
	assert_int_equal(rdma_post_ud_send(party.client, NULL, message, sizeof(message), sent, 0,
					   ah, 0xffffff),
			 0);
	assert_int_equal(rdma_get_send_comp(party.client, &wc), 1);
	assert_int_equal(rdma_get_recv_comp(party.client, &wc), 1);
	assert_string_equal(buffer + 40, "to all");
	ibv_destroy_ah(ah);
	rdma_dereg_mr(sent);
	rdma_dereg_mr(received);
	assert_int_equal(leave(&party, "239.1.2.3"), 0);
	assert_int_equal(leave(&party, "239.1.2.3"), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	party_end(&party);
	(void)state;
}

static void leaving_cancels_a_join(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_UDP);
	resolve_group(&party, "239.1.2.4");
	join(&party, "239.1.2.4", NULL);
	assert_int_equal(leave(&party, "239.1.2.4"), 0);
	expect_silence(party.client_channel, 0);
	party_end(&party);
	(void)state;
}

static _Atomic bool stop;

static void *fetch(void *channel)
{
	struct rdma_cm_event *event;

	while (!stop)
		if (!rdma_get_cm_event(channel, &event))
			rdma_ack_cm_event(event);
	return NULL;
}

static void a_group_is_left_while_its_event_is_fetched(void **state)
{
	struct pollfd ready = { .events = POLLIN };
	struct party party;
	pthread_t thread;

	party_begin(&party, RDMA_PS_UDP);
	ready.fd = party.client_channel->fd;
	resolve_group(&party, "239.1.2.7");
	fcntl(party.client_channel->fd, F_SETFL, O_NONBLOCK);
	stop = false;
	pthread_create(&thread, NULL, fetch, party.client_channel);
	for (int i = 0; i < 300; i++) {
		join(&party, "239.1.2.7", NULL);
		while (poll(&ready, 1, 0) == 1) /* until the other thread has it */
			;
		assert_int_equal(leave(&party, "239.1.2.7"), 0);
	}
	stop = true;
	pthread_join(thread, NULL);
	/* Attached to nothing. */
	assert_int_equal(ibv_destroy_qp(party.client->qp), 0);
	party.client->qp = NULL;
	party_end(&party);
	(void)state;
}

/* A group takes a descriptor: an ordinary user has 1,024 at first, and may have more. */
static bool may_join(int groups)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur > 2 * (rlim_t)groups;
}

static void a_group_that_cannot_be_joined_is_a_multicast_error(void **state)
{
	struct rdma_cm_event *event;
	struct ibv_device_attr limits;
	struct party party;
	char group[32];

	party_begin(&party, RDMA_PS_UDP);
	resolve_group(&party, "239.2.0.1");
	assert_int_equal(ibv_query_device(party.client->verbs, &limits), 0);
	if (!may_join(limits.max_total_mcast_qp_attach)) {
		party_end(&party);
		skip(); /* not that many files may be open */
	}
	for (int i = 0; i <= limits.max_total_mcast_qp_attach; i++) {
		snprintf(group, sizeof(group), "239.2.%d.%d", i / 256, i % 256);
		join(&party, group, group);
		event = next_event(party.client_channel, i < limits.max_total_mcast_qp_attach
								 ? RDMA_CM_EVENT_MULTICAST_JOIN
								 : RDMA_CM_EVENT_MULTICAST_ERROR);
		if (event->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
			assert_int_equal(event->status, -ENOMEM);
			assert_ptr_equal(event->param.ud.private_data, group);
		}
		rdma_ack_cm_event(event);
	}
	/* It is still to be left. */
	assert_int_equal(leave(&party, group), 0);
	party_end(&party);
	(void)state;
}

static void groups_go_with_the_qp(void **state)
{
	struct party party;

	party_begin(&party, RDMA_PS_UDP);
	resolve_group(&party, "239.1.2.5");
	join(&party, "239.1.2.5", NULL);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN), 0);
	/* As the man page has it: first the QP, then the identifier, which leaves all groups. */
	rdma_destroy_qp(party.client);
	join(&party, "239.1.2.6", NULL);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN), 0);
	party_create_qp(party.client);
	assert_int_equal(leave(&party, "239.1.2.5"), 0);
	assert_int_equal(leave(&party, "239.1.2.6"), 0);
	party_end(&party);
	(void)state;
}

/* The QP came after the join: the application attaches it, and leaving detaches it. */
static void leaving_detaches_what_the_application_attached(void **state)
{
	struct rdma_cm_event *event;
	struct party party;
	union ibv_gid mgid;
	uint16_t mlid;

	party_begin(&party, RDMA_PS_UDP);
	resolve_group(&party, "239.1.2.8");
	rdma_destroy_qp(party.client);
	join(&party, "239.1.2.8", NULL);
	event = next_event(party.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	mgid = event->param.ud.ah_attr.grh.dgid;
	mlid = event->param.ud.ah_attr.dlid;
	rdma_ack_cm_event(event);
	party_create_qp(party.client);
	assert_int_equal(ibv_attach_mcast(party.client->qp, &mgid, mlid), 0);
	assert_int_equal(leave(&party, "239.1.2.8"), 0);
	assert_int_equal(ibv_destroy_qp(party.client->qp), 0);
	party.client->qp = NULL;
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_that_cannot_be_used_is_a_connect_error),
		cmocka_unit_test(a_request_that_is_given_up_still_has_its_event),
		cmocka_unit_test(a_join_says_how_to_reach_the_group),
		cmocka_unit_test(leaving_cancels_a_join),
		cmocka_unit_test(a_group_is_left_while_its_event_is_fetched),
		cmocka_unit_test(a_group_that_cannot_be_joined_is_a_multicast_error),
		cmocka_unit_test(groups_go_with_the_qp),
		cmocka_unit_test(leaving_detaches_what_the_application_attached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
