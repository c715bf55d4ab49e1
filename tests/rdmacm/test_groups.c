/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which group an address names. A group of RoCE is a multicast address. One of InfiniBand is made
 * from any address, and an address that names none gets a new group.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "party.h"

enum { SIZE = 64, GRH = 40 };

/* A datagram identifier in one group. */
struct member {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct rdma_ud_param group; /* of the last join */
	struct ibv_mr *mr;
	char buffer[GRH + SIZE];
};

static void member_begin(struct member *member)
{
	struct sockaddr_in here;

	memset(member, 0, sizeof(*member));
	member->channel = rdma_create_event_channel();
	address4(&here, "127.0.0.1", 0);
	assert_int_equal(rdma_create_id(member->channel, &member->id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_resolve_addr(member->id, NULL, (struct sockaddr *)&here, 1000), 0);
	assert_int_equal(expect_event(member->channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	party_create_qp(member->id);
	member->mr = rdma_reg_msgs(member->id, member->buffer, sizeof(member->buffer));
	assert_non_null(member->mr);
}

static void member_end(struct member *member)
{
	rdma_dereg_mr(member->mr);
	rdma_destroy_qp(member->id);
	rdma_destroy_id(member->id);
	rdma_destroy_event_channel(member->channel);
}

static bool on_infiniband(const struct member *member)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(member->id->verbs, member->id->port_num, &port), 0);
	return port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage addr = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	void *at = addr.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&addr)->sin_addr
					     : (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr;

	assert_int_equal(inet_pton(addr.ss_family, text, at), 1);
	return addr;
}

static void join(struct member *member, const char *text)
{
	struct sockaddr_storage addr = address_of(text);
	struct rdma_cm_event *event;

	assert_int_equal(rdma_join_multicast(member->id, (struct sockaddr *)&addr, NULL), 0);
	event = next_event(member->channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	member->group = event->param.ud;
	rdma_ack_cm_event(event);
}

static void leave(struct member *member, const char *text)
{
	struct sockaddr_storage addr = address_of(text);

	assert_int_equal(rdma_leave_multicast(member->id, (struct sockaddr *)&addr), 0);
}

static void refused(struct member *member, const char *text)
{
	struct sockaddr_storage addr = address_of(text);

	assert_int_equal(rdma_join_multicast(member->id, (struct sockaddr *)&addr, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void send_to_group(struct member *from, const char *text)
{
	struct ibv_ah *ah = ibv_create_ah(from->id->pd, &from->group.ah_attr);
	struct ibv_wc wc;

	assert_non_null(ah);
	snprintf(from->buffer, SIZE, "%s", text);
	assert_int_equal(rdma_post_ud_send(from->id, NULL, from->buffer, SIZE, from->mr, 0, ah,
					   from->group.qp_num),
			 0);
	assert_int_equal(rdma_get_send_comp(from->id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	ibv_destroy_ah(ah);
}

static void receive(struct member *member)
{
	assert_int_equal(rdma_post_recv(member->id, NULL, member->buffer, sizeof(member->buffer),
					member->mr),
			 0);
}

static void expect_text(struct member *member, const char *text)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(member->id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
	assert_string_equal(member->buffer + GRH, text);
}

/* The second and third member join by another name of the group; the first one sends. */
static void reaches(struct member members[3], const char *first, const char *others)
{
	join(&members[0], first);
	for (int i = 1; i < 3; i++) {
		join(&members[i], others);
		receive(&members[i]);
	}
	send_to_group(&members[0], first);
	for (int i = 1; i < 3; i++)
		expect_text(&members[i], first);
	for (int i = 1; i < 3; i++)
		leave(&members[i], others);
	leave(&members[0], first);
}

static void a_message_reaches_every_member(void **state)
{
	struct member members[3];

	for (int i = 0; i < 3; i++)
		member_begin(&members[i]);
	reaches(members, "239.7.1.1", "239.7.1.1");
	reaches(members, "ff05::7:1:1", "ff05::7:1:1");
	for (int i = 0; i < 3; i++)
		member_end(&members[i]);
	(void)state;
}

/* Programs pass the address of one of the hosts, and say the same on the others. */
static void the_address_of_a_host_is_a_group_of_infiniband(void **state)
{
	struct member members[3];

	for (int i = 0; i < 3; i++)
		member_begin(&members[i]);
	if (on_infiniband(members)) {
		reaches(members, "192.168.1.12", "192.168.1.12");
		reaches(members, "2001:db8::5", "2001:db8::5");
		/* 28 bits of the address are all that the MGID has. */
		reaches(members, "192.168.1.12", "224.168.1.12");
	} else {
		refused(members, "192.168.1.12");
		refused(members, "2001:db8::5");
	}
	for (int i = 0; i < 3; i++)
		member_end(&members[i]);
	(void)state;
}

static void begin_new_group(struct member *member, const char *address, char *name)
{
	const union ibv_gid *mgid = &member->group.ah_attr.grh.dgid;
	static const uint8_t signature[4] = { 0xff, 0x12, 0xa0, 0x1b };

	join(member, address);
	assert_memory_equal(mgid->raw, signature, sizeof(signature));
	assert_in_range(member->group.ah_attr.dlid, 0xc000, 0xfffe);
	assert_non_null(inet_ntop(AF_INET6, mgid->raw, name, INET6_ADDRSTRLEN));
}

/* The founder tells the MGID, and others join by that. */
static void an_address_that_names_no_group_begins_one(void **state)
{
	static const char *const addresses[] = { "0.0.0.0", "::", "127.0.0.1", "::1" };
	char name[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
	struct member founder, member;

	member_begin(&founder);
	member_begin(&member);
	for (int i = 0; i < 4; i++) {
		if (!on_infiniband(&founder)) {
			refused(&founder, addresses[i]);
			continue;
		}
		begin_new_group(&member, addresses[i], other);
		leave(&member, addresses[i]);
		begin_new_group(&founder, addresses[i], name);
		assert_string_not_equal(name, other);
		join(&member, name);
		receive(&member);
		send_to_group(&founder, name);
		expect_text(&member, name);
		leave(&member, name);
		leave(&founder, addresses[i]);
	}
	member_end(&member);
	member_end(&founder);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_reaches_every_member),
		cmocka_unit_test(the_address_of_a_host_is_a_group_of_infiniband),
		cmocka_unit_test(an_address_that_names_no_group_begins_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
