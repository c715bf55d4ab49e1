/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers on an InfiniBand port: paths with LIDs and GIDs, AF_IB addresses, groups, alternate
 * paths. It runs with the InfiniBand device alone, and beside a RoCE device, which then has the IP
 * addresses.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "party.h"
#include "rdmacm/cma.h"

enum { ALTERNATE_SL = 3, DATA_SIZE = 92 };

static struct ibv_port_attr port;
static union ibv_gid port_gid;
static char gid_text[INET6_ADDRSTRLEN];

static int find_port(void **state)
{
	int count = 0;
	struct ibv_context **devices = rdma_get_devices(&count);

	for (int i = 0; i < count; i++) {
		struct ibv_port_attr attr;

		assert_int_equal(ibv_query_port(devices[i], 1, &attr), 0);
		if (attr.link_layer != IBV_LINK_LAYER_INFINIBAND)
			continue;
		port = attr;
		assert_int_equal(ibv_query_gid(devices[i], 1, 0, &port_gid), 0);
	}
	rdma_free_devices(devices);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	inet_ntop(AF_INET6, port_gid.raw, gid_text, sizeof(gid_text));
	(void)state;
	return 0;
}

static void check_path(const struct ibv_sa_path_rec *path)
{
	assert_memory_equal(&path->sgid, &port_gid, sizeof(port_gid));
	assert_memory_equal(&path->dgid, &port_gid, sizeof(port_gid));
	assert_int_equal(be16toh(path->slid), port.lid);
	assert_int_equal(be16toh(path->dlid), port.lid);
	assert_int_equal(be16toh(path->pkey), 0xffff);
	assert_int_equal(path->mtu, port.active_mtu);
	assert_int_equal(path->hop_limit, 0);
}

static void check_ah(const struct ibv_ah_attr *attr)
{
	assert_int_equal(attr->dlid, port.lid);
	assert_int_equal(attr->is_global, 0);
	assert_int_equal(attr->port_num, 1);
}

/* --- IP addresses --- */

static void an_ip_address_is_that_of_a_port(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	check_path(party.client->route.path_rec);
	check_path(party.server->route.path_rec);
	assert_memory_equal(&party.client->route.addr.addr.ibaddr.dgid, &port_gid, 16);
	assert_memory_equal(&party.server->route.addr.addr.ibaddr.sgid, &port_gid, 16);
	assert_int_equal(party.client->route.addr.src_addr.sa_family, AF_INET);
	assert_int_equal(ibv_query_qp(party.server->qp, &attr, IBV_QP_AV, &init), 0);
	check_ah(&attr.ah_attr);
	party_end(&party);
	(void)state;
}

static void datagrams_go_by_lid(void **state)
{
	struct rdma_conn_param param = { 0 };
	struct rdma_cm_event *event;
	struct party party;

	party_begin(&party, RDMA_PS_UDP);
	party_resolve(&party);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_int_equal(rdma_accept(party.server, &param), 0);
	event = next_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED);
	check_ah(&event->param.ud.ah_attr);
	assert_int_equal(event->param.ud.qp_num, party.server->qp->qp_num);
	rdma_ack_cm_event(event);
	party_end(&party);
	(void)state;
}

/* RFC 4391, 4; with the signature of rdma_cm for RDMA_PS_UDP. */
static void join(enum rdma_port_space ps, const char *group, const char *mgid_text, uint32_t qkey)
{
	struct sockaddr_storage addr = { 0 };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	union ibv_gid mgid;
	struct sockaddr_in here;

	address4(&here, "127.0.0.1", 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, 1000), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	party_create_qp(id);
	addr.ss_family = strchr(group, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(addr.ss_family, group,
				   addr.ss_family == AF_INET
					   ? (void *)&((struct sockaddr_in *)&addr)->sin_addr
					   : (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr),
			 1);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&addr, NULL), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(inet_pton(AF_INET6, mgid_text, mgid.raw), 1);
	assert_memory_equal(&event->param.ud.ah_attr.grh.dgid, &mgid, sizeof(mgid));
	assert_in_range(event->param.ud.ah_attr.dlid, 0xc000, 0xfffe);
	assert_int_equal(event->param.ud.ah_attr.is_global, 1);
	assert_int_equal(event->param.ud.qkey, qkey);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&addr), 0);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

static void groups_have_the_mgids_of_ipoib(void **state)
{
	join(RDMA_PS_UDP, "239.1.2.3", "ff12:4001:ffff::f01:203", RDMA_UDP_QKEY);
	join(RDMA_PS_UDP, "ff0e::1:2:3", "ff12:6001:ffff::1:2:3", RDMA_UDP_QKEY);
	join(RDMA_PS_UDP, "ff12:a01b:ffff::7", "ff12:a01b:ffff::7", RDMA_UDP_QKEY);
	(void)state;
}

/* --- AF_IB --- */

static struct rdma_addrinfo *resolve_ib(const char *node, const char *service, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY | flags,
				       .ai_family = AF_IB,
				       .ai_port_space = RDMA_PS_TCP },
			     *info;

	assert_int_equal(rdma_getaddrinfo(node, service, &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_IB);
	return info;
}

static const struct sockaddr_ib *sib(const struct sockaddr *addr)
{
	assert_int_equal(addr->sa_family, AF_IB);
	return (const struct sockaddr_ib *)addr;
}

static void a_gid_is_resolved_to_an_address_and_a_path(void **state)
{
	struct rdma_addrinfo *info = resolve_ib(gid_text, "7471", 0);
	const struct ibv_path_data *route = info->ai_route;

	assert_int_equal(info->ai_dst_len, sizeof(struct sockaddr_ib));
	assert_memory_equal(&sib(info->ai_dst_addr)->sib_addr, &port_gid, 16);
	assert_int_equal(be64toh(sib(info->ai_dst_addr)->sib_sid), RDMA_IB_IP_PS_TCP | 7471);
	assert_int_equal(info->ai_route_len, sizeof(*route));
	assert_int_equal(be16toh(route->path.dlid), port.lid);
	assert_memory_equal(&route->path.dgid, &port_gid, 16);
	assert_true(route->flags & IBV_PATH_FLAG_PRIMARY);
	rdma_freeaddrinfo(info);
	/* No port is known there. */
	info = resolve_ib("fe80::1234", "7471", 0);
	assert_int_equal(info->ai_route_len, 0);
	rdma_freeaddrinfo(info);
	(void)state;
}

static void a_name_is_resolved_to_its_port(void **state)
{
	struct rdma_addrinfo *info = resolve_ib("127.0.0.1", "7471", 0);
	struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY, .ai_family = AF_IB }, *none;

	assert_memory_equal(&sib(info->ai_dst_addr)->sib_addr, &port_gid, 16);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_getaddrinfo("198.51.100.77", "7471", &hints, &none), EAI_ADDRFAMILY);
	(void)state;
}

/* By GIDs on both sides; a request has no IP addresses, and so room for more data. */
static void connect_by_gid(const char *bind_node, enum rdma_port_space ps)
{
	struct rdma_addrinfo *passive = resolve_ib(bind_node, "0", RAI_PASSIVE), *active;
	struct party party = { .ps = ps };
	char data[DATA_SIZE] = "ninety-two bytes of it", service[8];
	struct rdma_conn_param param = { .private_data = data, .private_data_len = sizeof(data) };
	struct sockaddr_ib to;

	party.server_channel = rdma_create_event_channel();
	party.client_channel = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(party.server_channel, &party.listener, &party, ps), 0);
	((struct sockaddr_ib *)passive->ai_src_addr)->sib_sid = 0;
	((struct sockaddr_ib *)passive->ai_src_addr)->sib_sid_mask = 0;
	assert_int_equal(rdma_bind_addr(party.listener, passive->ai_src_addr), 0);
	assert_int_equal(rdma_listen(party.listener, 0), 0);
	snprintf(service, sizeof(service), "%u", ntohs(rdma_get_src_port(party.listener)));
	active = resolve_ib(gid_text, service, 0);
	memcpy(&to, active->ai_dst_addr, sizeof(to));
	to.sib_sid = ((struct sockaddr_ib *)&party.listener->route.addr.src_addr)->sib_sid;
	assert_int_equal(be64toh(to.sib_sid) >> 16, ps);

	assert_int_equal(rdma_create_id(party.client_channel, &party.client, NULL, ps), 0);
	assert_int_equal(rdma_resolve_addr(party.client, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_memory_equal(&sib(&party.client->route.addr.src_addr)->sib_addr, &port_gid, 16);
	assert_int_equal(rdma_resolve_route(party.client, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	check_path(party.client->route.path_rec);
	party_create_qp(party.client);
	assert_int_equal(rdma_connect(party.client, &param), 0);
	party_request(&party);
	assert_memory_equal(&sib(&party.server->route.addr.src_addr)->sib_addr, &port_gid, 16);
	assert_memory_equal(&sib(&party.server->route.addr.dst_addr)->sib_addr, &port_gid, 16);
	assert_true(sib(&party.server->route.addr.src_addr)->sib_sid == to.sib_sid);
	if (ps == RDMA_PS_TCP)
		assert_memory_equal(party.request_data, data, sizeof(data));
	param.private_data_len = 0;
	assert_int_equal(rdma_accept(party.server, &param), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	rdma_freeaddrinfo(passive);
	rdma_freeaddrinfo(active);
	party_end(&party);
}

static void ports_are_connected_by_their_gids(void **state)
{
	connect_by_gid(gid_text, RDMA_PS_TCP);
	connect_by_gid(gid_text, RDMA_PS_UDP);
	connect_by_gid(NULL, RDMA_PS_TCP); /* a listener at all of them */
	(void)state;
}

static void an_unknown_gid_has_no_route(void **state)
{
	struct rdma_addrinfo *info = resolve_ib("fe80::1234", "7471", 0);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 1000), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ROUTE_ERROR), -EHOSTUNREACH);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	rdma_freeaddrinfo(info);
	(void)state;
}

static void a_service_id_is_of_the_port_space(void **state)
{
	struct rdma_addrinfo *info = resolve_ib(gid_text, "7471", RAI_PASSIVE);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, info->ai_src_addr), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	rdma_destroy_id(id);
	rdma_freeaddrinfo(info);
	(void)state;
}

/* --- alternate paths --- */

static enum ibv_mig_state state_of(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	return attr->path_mig_state;
}

static void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_recv(to->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(from->qp, &send, &bad), 0);
	while (!ibv_poll_cq(from->qp->send_cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	while (!ibv_poll_cq(to->qp->recv_cq, 1, &wc))
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Each end hears of the other's alternate path with a message. */
static void await_armed(struct party *party)
{
	struct ibv_qp_attr attr;

	do {
		send_one(party->client, party->server);
		send_one(party->server, party->client);
	} while (state_of(party->client->qp, &attr) != IBV_MIG_ARMED ||
		 state_of(party->server->qp, &attr) != IBV_MIG_ARMED);
}

static void expect_migration(struct rdma_cm_id *id)
{
	struct ibv_async_event event;

	do {
		assert_int_equal(ibv_get_async_event(id->verbs, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_PATH_MIG);
}

static void migrate(struct party *party)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };

	assert_int_equal(ibv_modify_qp(party->client->qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	send_one(party->client, party->server);
	send_one(party->server, party->client);
	expect_migration(party->client);
	expect_migration(party->server);
	assert_int_equal(state_of(party->server->qp, &attr), IBV_MIG_MIGRATED);
	assert_int_equal(attr.ah_attr.sl, ALTERNATE_SL);
}

static void connect_with_alternate(struct party *party)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	assert_int_equal(rdma_connect(party->client, &param), 0);
	party_request(party);
	assert_int_equal(party->server->route.num_paths, 2);
	assert_int_equal(party->server->route.path_rec[1].sl, ALTERNATE_SL);
	assert_int_equal(be16toh(party->server->route.path_rec[1].dlid), port.lid);
	assert_int_equal(rdma_accept(party->server, NULL), 0);
	assert_int_equal(expect_event(party->client_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_event(party->server_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	await_armed(party);
	migrate(party);
}

/* The application writes the second path. */
static void a_second_path_is_loaded_and_armed(void **state)
{
	struct party party;
	struct ibv_sa_path_rec *paths;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	paths = party.client->route.path_rec;
	paths[1] = paths[0];
	paths[1].sl = ALTERNATE_SL;
	party.client->route.num_paths = 2;
	connect_with_alternate(&party);
	party_end(&party);
	(void)state;
}

/* Or gives both with rdma_set_option. */
static void paths_are_given_as_an_option(void **state)
{
	struct ibv_path_data paths[2];
	struct rdma_addrinfo *info;
	struct party party;
	struct sockaddr_in addr;

	party_begin(&party, RDMA_PS_TCP);
	info = resolve_ib(gid_text, NULL, 0);
	paths[0] = paths[1] = *(struct ibv_path_data *)info->ai_route;
	paths[1].flags = IBV_PATH_FLAG_ALTERNATE | IBV_PATH_FLAG_BIDIRECTIONAL;
	paths[1].path.qosclass_sl = htobe16(ALTERNATE_SL);
	rdma_freeaddrinfo(info);
	address4(&addr, "127.0.0.1", party.port);
	assert_int_equal(rdma_create_id(party.client_channel, &party.client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(party.client, NULL, (struct sockaddr *)&addr, 1000), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_set_option(party.client, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths,
					 sizeof(paths)),
			 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	assert_int_equal(party.client->route.num_paths, 2);
	party_create_qp(party.client);
	connect_with_alternate(&party);
	party_end(&party);
	(void)state;
}

static void a_path_to_another_port_is_refused(void **state)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_sa_path_rec *paths;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	paths = party.client->route.path_rec;
	paths[1] = paths[0];
	paths[1].dlid = htobe16(0xbfff);
	party.client->route.num_paths = 2;
	assert_int_equal(rdma_connect(party.client, &param), 0);
	assert_int_equal(expect_event(party.client_channel, RDMA_CM_EVENT_REJECTED), 19);
	party_end(&party);
	(void)state;
}

/* A peer loads an alternate path into a connection; librdmacm itself sends no such message. */
static void send_lap(const struct party *party)
{
	const struct vb_cma_id *from = (struct vb_cma_id *)party->client;
	const struct vb_cma_id *to = (struct vb_cma_id *)party->server;
	struct vb_gsi_datagram datagram = { .magic = VB_GSI_MAGIC,
					    .src = from->sgid,
					    .dst = from->dgid };
	struct vb_cm_message lap = { .attribute = VB_CM_LAP, .transaction_id = 4711 };

	lap.lap.local_comm_id = from->endpoint.local_id;
	lap.lap.remote_comm_id = to->endpoint.local_id;
	lap.lap.remote_qpn = party->server->qp->qp_num;
	lap.lap.alternate = (struct vb_cm_path){ .local_lid = port.lid,
						 .remote_lid = port.lid,
						 .local_gid = port_gid,
						 .remote_gid = port_gid,
						 .sl = ALTERNATE_SL,
						 .ack_timeout = 19 };
	vb_cm_emit(&lap, datagram.mad);
	assert_int_equal(verbena_engine(VB_ENGINE_TABLE_VERSION)->gsi_send(&datagram), 0);
}

/* The application sees no event of it: the QP has another path in reserve. */
static void a_lap_loads_a_path(void **state)
{
	struct party party;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct pollfd ready;

	party_begin(&party, RDMA_PS_TCP);
	party_connect(&party);
	assert_int_equal(party.server->route.num_paths, 1);
	send_lap(&party);
	ready = (struct pollfd){ .fd = party.server_channel->fd, .events = POLLIN };
	assert_int_equal(poll(&ready, 1, 5000), 1);
	assert_int_equal(fcntl(ready.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_get_cm_event(party.server_channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(party.server->route.num_paths, 2);
	assert_int_equal(state_of(party.server->qp, &attr), IBV_MIG_REARM);
	assert_int_equal(attr.alt_ah_attr.sl, ALTERNATE_SL);
	assert_int_equal(attr.alt_ah_attr.dlid, port.lid);
	party_end(&party);
	(void)state;
}

/* --- beside RoCE --- */

static void beside_roce_ip_addresses_are_its(void **state)
{
	struct ibv_port_attr attr;
	struct party party;

	party_begin(&party, RDMA_PS_TCP);
	party_resolve(&party);
	assert_int_equal(ibv_query_port(party.client->verbs, 1, &attr), 0);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(party.client->route.path_rec->dlid, 0);
	party_end(&party);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest by_gid[] = {
		cmocka_unit_test(a_gid_is_resolved_to_an_address_and_a_path),
		cmocka_unit_test(a_name_is_resolved_to_its_port),
		cmocka_unit_test(ports_are_connected_by_their_gids),
		cmocka_unit_test(an_unknown_gid_has_no_route),
		cmocka_unit_test(a_service_id_is_of_the_port_space),
		cmocka_unit_test(beside_roce_ip_addresses_are_its),
	};
	const struct CMUnitTest all[] = {
		cmocka_unit_test(a_gid_is_resolved_to_an_address_and_a_path),
		cmocka_unit_test(a_name_is_resolved_to_its_port),
		cmocka_unit_test(ports_are_connected_by_their_gids),
		cmocka_unit_test(an_unknown_gid_has_no_route),
		cmocka_unit_test(a_service_id_is_of_the_port_space),
		cmocka_unit_test(an_ip_address_is_that_of_a_port),
		cmocka_unit_test(datagrams_go_by_lid),
		cmocka_unit_test(groups_have_the_mgids_of_ipoib),
		cmocka_unit_test(a_second_path_is_loaded_and_armed),
		cmocka_unit_test(paths_are_given_as_an_option),
		cmocka_unit_test(a_path_to_another_port_is_refused),
		cmocka_unit_test(a_lap_loads_a_path),
	};

	return getenv("VERBENA_DEVICES") ? cmocka_run_group_tests(all, find_port, NULL)
					 : cmocka_run_group_tests(by_gid, find_port, NULL);
}
