/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints, synchronous calls and the inline functions of rdma_verbs.h; datagrams. */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "party.h"

struct words {
	uint64_t addr;
	uint32_t rkey;
};

static struct rdma_cm_id *listening;

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 32 },
		.sq_sig_all = 1,
	};
}

/* The server: tells where its memory is, then waits for a message about it. */
static void *serve(void *arg)
{
	char *memory = arg;
	struct rdma_cm_id *id;
	struct ibv_mr *mr, *messages;
	struct words where;
	struct ibv_wc wc;
	char message[64];

	if (rdma_get_request(listening, &id))
		return NULL;
	mr = ibv_reg_mr(id->pd, memory, 128,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	messages = rdma_reg_msgs(id, message, sizeof(message));
	if (!mr || !messages || rdma_post_recv(id, NULL, message, sizeof(message), messages) ||
	    rdma_accept(id, NULL))
		return NULL;
	where.addr = (uintptr_t)memory;
	where.rkey = mr->rkey;
	if (rdma_post_send(id, NULL, &where, sizeof(where), NULL, IBV_SEND_INLINE) ||
	    rdma_get_send_comp(id, &wc) != 1 || rdma_get_recv_comp(id, &wc) != 1 ||
	    wc.byte_len != 8 || memcmp(message, "one+two", 8))
		return NULL;
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(messages);
	rdma_destroy_ep(id);
	return arg;
}

static struct rdma_addrinfo *find(const char *node, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags }, *res;

	assert_int_equal(rdma_getaddrinfo(node, port, &hints, &res), 0);
	return res;
}

static void use_remote_memory(struct rdma_cm_id *id, const struct words *where, char *own,
			      struct ibv_mr *mr)
{
	struct ibv_sge sges[2] = { { (uintptr_t)own, 4, mr->lkey },
				   { (uintptr_t)own + 8, 4, mr->lkey } };
	struct ibv_wc wc;

	strcpy(own, "written");
	assert_int_equal(rdma_post_write(id, NULL, own, 8, mr, 0, where->addr, where->rkey), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	memset(own, 0, 8);
	assert_int_equal(rdma_post_read(id, NULL, own, 8, mr, 0, where->addr, where->rkey), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_string_equal(own, "written");
	assert_int_equal(rdma_post_readv(id, NULL, sges, 2, 0, where->addr, where->rkey), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_memory_equal(own + 8, "ten", 4);
	memcpy(own, "one+", 4);
	memcpy(own + 8, "two", 4);
	assert_int_equal(rdma_post_writev(id, NULL, sges, 2, 0, where->addr + 16, where->rkey), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(rdma_post_sendv(id, NULL, sges, 2, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void endpoints_and_inline_functions(void **state)
{
	struct rdma_addrinfo *res = find("127.0.0.1", "0", RAI_PASSIVE);
	struct ibv_qp_init_attr attr = qp_attr();
	char memory[128] = { 0 }, own[64], port[8];
	struct rdma_cm_id *id;
	struct words where;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t thread;
	void *result;

	assert_int_equal(rdma_create_ep(&listening, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(listening, 0), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listening)));
	pthread_create(&thread, NULL, serve, memory);

	res = find("127.0.0.1", port, 0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	mr = rdma_reg_msgs(id, own, sizeof(own));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, NULL, own, sizeof(own), mr), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.byte_len, sizeof(where));
	memcpy(&where, own, sizeof(where));
	use_remote_memory(id, &where, own, mr);

	/* The server waits for the end of the connection, and that for both sides. */
	rdma_disconnect(id);
	pthread_join(thread, &result);
	assert_ptr_equal(result, memory);
	assert_memory_equal(memory + 16, "one+two", 8);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listening);
	(void)state;
}

static void a_synchronous_connect_is_refused(void **state)
{
	struct rdma_addrinfo *res = find("127.0.0.1", "1", 0);
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	/* No event can come of it: it must not wait for one. */
	assert_int_equal(rdma_disconnect(id), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	(void)state;
}

/* An answer ends what the identifier has of its request: the listener need not wait for it. */
static void an_answered_request_lets_its_listener_go(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		bool accept;
	} cases[] = { { RDMA_PS_TCP, false }, { RDMA_PS_UDP, false }, { RDMA_PS_UDP, true } };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct party party;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		party_begin(&party, cases[i].ps);
		assert_int_equal(rdma_migrate_id(party.listener, NULL), 0);
		party_resolve(&party);
		assert_int_equal(rdma_connect(party.client, &param), 0);
		assert_int_equal(rdma_get_request(party.listener, &party.server), 0);
		assert_non_null(party.server->event);
		party_create_qp(party.server);
		if (cases[i].accept)
			assert_int_equal(rdma_accept(party.server, &param), 0);
		else
			assert_int_equal(rdma_reject(party.server, NULL, 0), 0);
		assert_null(party.server->event);
		assert_int_equal(rdma_destroy_id(party.listener), 0);
		party.listener = NULL;
		party_end(&party);
	}
	(void)state;
}

/* What a listener cannot accept the application is not bothered with. */
static void a_listener_hears_of_its_own_type_only(void **state)
{
	static const struct {
		enum rdma_port_space ps;
		enum ibv_qp_type listens, asks;
		enum rdma_cm_event_type event;
		int status;
	} cases[] = {
		{ RDMA_PS_TCP, IBV_QPT_RC, IBV_QPT_UC, RDMA_CM_EVENT_REJECTED, 9 },
		{ RDMA_PS_TCP, IBV_QPT_UC, IBV_QPT_RC, RDMA_CM_EVENT_REJECTED, 9 },
		{ RDMA_PS_TCP, IBV_QPT_RC, IBV_QPT_XRC_SEND, RDMA_CM_EVENT_REJECTED, 9 },
		{ RDMA_PS_IB, IBV_QPT_UD, IBV_QPT_RC, RDMA_CM_EVENT_REJECTED, 9 },
		{ RDMA_PS_IB, IBV_QPT_RC, IBV_QPT_UD, RDMA_CM_EVENT_UNREACHABLE, 1 },
	};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 0x1234 };
	struct rdma_cm_id *listener, *id;
	struct rdma_addrinfo res = { 0 };
	struct sockaddr_in addr;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		address4(&addr, "127.0.0.1", 0);
		res.ai_port_space = cases[i].ps;
		res.ai_qp_type = cases[i].listens;
		res.ai_flags = RAI_PASSIVE;
		res.ai_src_addr = (struct sockaddr *)&addr;
		assert_int_equal(rdma_create_ep(&listener, &res, NULL, NULL), 0);
		assert_int_equal(rdma_listen(listener, 0), 0);
		addr.sin_port = rdma_get_src_port(listener);
		res.ai_qp_type = cases[i].asks;
		res.ai_flags = 0;
		res.ai_src_addr = NULL;
		res.ai_dst_addr = (struct sockaddr *)&addr;
		assert_int_equal(rdma_create_ep(&id, &res, NULL, NULL), 0);
		assert_int_equal(rdma_migrate_id(id, channel), 0);
		assert_int_equal(rdma_connect(id, &param), 0);
		assert_int_equal(expect_event(channel, cases[i].event), cases[i].status);
		expect_silence(listener->channel, 0);
		rdma_destroy_ep(id);
		rdma_destroy_ep(listener);
	}
	rdma_destroy_event_channel(channel);
	(void)state;
}

static void receive_one(struct rdma_cm_id *id, char *buffer, struct ibv_mr **mr)
{
	*mr = rdma_reg_msgs(id, buffer, 104);
	assert_non_null(*mr);
	assert_int_equal(rdma_post_recv(id, NULL, buffer, 104, *mr), 0);
}

static void a_datagram_service_is_found(void **state)
{
	struct rdma_conn_param param = { .private_data = "?", .private_data_len = 2 };
	struct rdma_cm_event *event;
	char buffer[104], message[64] = "datagram";
	struct ibv_mr *received, *sent;
	struct ibv_ah *ah;
	struct party party;
	struct ibv_wc wc;

	party_begin(&party, RDMA_PS_UDP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	event = next_event(party.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->param.ud.private_data_len, 180);
	assert_string_equal(event->param.ud.private_data, "?");
	party.server = event->id;
	rdma_ack_cm_event(event);
	party_create_qp(party.server);
	receive_one(party.server, buffer, &received);
	param.private_data = "!";
	assert_int_equal(rdma_accept(party.server, &param), 0);

	event = next_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, party.server->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(event->param.ud.private_data_len, 136);
	assert_string_equal(event->param.ud.private_data, "!");
	ah = ibv_create_ah(party.client->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	sent = rdma_reg_msgs(party.client, message, sizeof(message));
	assert_int_equal(rdma_post_ud_send(party.client, NULL, message, sizeof(message), sent, 0,
					   ah, event->param.ud.qp_num),
			 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_get_send_comp(party.client, &wc), 1);
	assert_int_equal(rdma_get_recv_comp(party.server, &wc), 1);
	assert_int_equal(wc.byte_len, 104);
	assert_string_equal(buffer + 40, "datagram");
	ibv_destroy_ah(ah);
	rdma_dereg_mr(sent);
	rdma_dereg_mr(received);
	party_end(&party);
	(void)state;
}

static void a_datagram_service_is_not_there(void **state)
{
	struct party party;

	party_begin_unheard(&party, RDMA_PS_UDP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, NULL), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_UNREACHABLE), 1);
	party_end(&party);
	(void)state;
}

static void a_queue_of_ones_own(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdma_cm_event *event;
	struct party party;
	struct ibv_qp *qp;
	int mask;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	/* As a QP that the application made: the identifier does not know it. */
	qp = party.client->qp;
	party.client->qp = NULL;
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_init_qp_attr(party.client, &attr, &mask), -1);
	param.qp_num |= 1u << 24; /* more than a message could carry */
	assert_int_equal(rdma_connect(party.client, &param), -1);
	assert_int_equal(errno, EINVAL);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(party.request.qp_num, qp->qp_num);
	assert_int_equal(rdma_accept(party.server, NULL), 0);
	event = next_event(party.client_channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->param.conn.qp_num, party.server->qp->qp_num);
	rdma_ack_cm_event(event);
	expect_silence(party.server_channel, 0);
	assert_int_equal(rdma_init_qp_attr(party.client, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, party.server->qp->qp_num);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(party.client, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	assert_int_equal(rdma_establish(party.client), 0);
	assert_int_equal(expect_event(party.server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	party.client->qp = qp;
	party_end(&party);
	(void)state;
}

/* --- XRC: the halves of a connection are QPs of different types --- */

static int mask_for(struct rdma_cm_id *id, enum ibv_qp_state qp_state)
{
	struct ibv_qp_attr attr = { .qp_state = qp_state };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	return mask;
}

static struct rdma_addrinfo *find_xrc(const char *port, int flags, enum ibv_qp_type type)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
				       .ai_flags = flags,
				       .ai_qp_type = type };
	struct rdma_addrinfo *res;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
	assert_int_equal(res->ai_qp_type, type);
	return res;
}

static struct rdma_cm_id *xrc_listener(char port[8])
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_XRC_RECV };
	struct rdma_addrinfo *res = find_xrc("0", RAI_PASSIVE, IBV_QPT_XRC_RECV);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(id, 0), 0);
	snprintf(port, 8, "%u", ntohs(rdma_get_src_port(id)));
	return id;
}

static struct rdma_cm_id *xrc_sender(const char *port, struct rdma_event_channel *channel)
{
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_addrinfo *res = find_xrc(port, 0, IBV_QPT_XRC_SEND);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(id->qp->qp_type, IBV_QPT_XRC_SEND);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	return id;
}

/* The number of an SRQ for it, with a receive. */
static uint32_t xrc_srq(struct rdma_cm_id *id, char *buffer, struct ibv_mr **mr)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	uint32_t number;

	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_non_null(id->recv_cq);
	assert_int_equal(ibv_get_srq_num(id->srq, &number), 0);
	*mr = rdma_reg_msgs(id, buffer, 64);
	assert_int_equal(rdma_post_recv(id, NULL, buffer, 64, *mr), 0);
	return number;
}

static void xrc_send(struct rdma_cm_id *id, uint32_t srq)
{
	char message[] = "to an SRQ";
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = sizeof(message) };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
		.qp_type.xrc.remote_srqn = srq,
	};
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* What the identifier's QP is going to be made of has the identifier's context. */
static void objects_of_another_context_are_refused(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr qp = qp_attr();
	struct ibv_context *context;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 5000), 0);
	context = ibv_open_device(id->verbs->device);
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
	errno = 0;
	assert_int_equal(rdma_create_srq(id, pd, &srq), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(id->srq);
	errno = 0;
	assert_int_equal(rdma_create_qp(id, pd, &qp), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_srq(id, NULL, &srq), 0);
	rdma_destroy_srq(id);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void identifiers_of_xrc_connect(void **state)
{
	struct rdma_event_channel *client_channel = rdma_create_event_channel(),
				  *server_channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .responder_resources = 2, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener, *client, *server;
	struct rdma_cm_event *event;
	char port[8], buffer[64];
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t number;

	listener = xrc_listener(port);
	client = xrc_sender(port, client_channel);
	assert_int_equal(rdma_connect(client, NULL), 0);
	assert_int_equal(rdma_get_request(listener, &server), 0);
	assert_int_equal(server->qp->qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(rdma_migrate_id(server, server_channel), 0);
	number = xrc_srq(server, buffer, &mr);
	param.private_data = &number;
	param.private_data_len = sizeof(number);
	assert_int_equal(rdma_accept(server, &param), 0);
	event = next_event(client_channel, RDMA_CM_EVENT_ESTABLISHED);
	memcpy(&number, event->param.conn.private_data, sizeof(number));
	assert_int_equal(event->param.conn.qp_num, server->qp->qp_num);
	rdma_ack_cm_event(event);
	assert_int_equal(expect_event(server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);

	xrc_send(client, number);
	assert_int_equal(rdma_get_recv_comp(server, &wc), 1);
	assert_string_equal(buffer, "to an SRQ");
	assert_false(mask_for(client, IBV_QPS_RTR) &
		     (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	assert_true(mask_for(client, IBV_QPS_RTS) & IBV_QP_RETRY_CNT);
	assert_true(mask_for(server, IBV_QPS_RTR) & IBV_QP_MAX_DEST_RD_ATOMIC);
	assert_int_equal(mask_for(server, IBV_QPS_RTS),
			 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);

	assert_int_equal(rdma_disconnect(client), 0);
	assert_int_equal(expect_event(server_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(server), 0);
	assert_int_equal(expect_event(client_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(client);
	rdma_destroy_ep(server);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(client_channel);
	rdma_destroy_event_channel(server_channel);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints_and_inline_functions),
		cmocka_unit_test(a_synchronous_connect_is_refused),
		cmocka_unit_test(an_answered_request_lets_its_listener_go),
		cmocka_unit_test(a_listener_hears_of_its_own_type_only),
		cmocka_unit_test(a_datagram_service_is_found),
		cmocka_unit_test(a_datagram_service_is_not_there),
		cmocka_unit_test(a_queue_of_ones_own),
		cmocka_unit_test(objects_of_another_context_are_refused),
		cmocka_unit_test(identifiers_of_xrc_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
