/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of two lanes of one process, on one address:
 *
 *	child process, row 0 of its slot belongs to lane 0, row 1 to lane 1
 *	+-----------------------------------------------+
 *	| first  -- 127.0.0.1:4791 --+                  |
 *	|                            | ring of lane 1   |
 *	| second -- 127.0.0.1:4791 --+                  |
 *	+-----------------------------------------------+
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "port_rig.h"

enum { SECOND = 1, SECOND_ROW = 1, MANY = 200 };

/* The second lane, beside the rig of the first. */
static struct rig *open_second(const struct rig *first)
{
	struct rig *second = calloc(1, sizeof(*second));

	CHECK(second);
	second->nic = first->nic;
	second->outer = epoll_create1(EPOLL_CLOEXEC);
	second->port = vb_port_new(first->nic, second->outer, SECOND);
	CHECK(second->port);
	atomic_store(&first->nic->row_lanes[SECOND_ROW], SECOND);
	atomic_fetch_or(&first->nic->lanes_open, 1u << SECOND);
	return second;
}

static uint32_t second_qpn(const struct rig *rig, uint32_t index)
{
	return rig_own_qpn(rig, SECOND_ROW * VB_QP_PER_ROW + index);
}

static void listen_at(struct rig *rig, const char *address)
{
	const union ibv_gid gid = rig_gid(address);

	CHECK(!vb_port_listen(rig->port, &gid));
}

/* Joining asks the other lane, which answers in another thread: here that is the test. */
static void *answer(void *arg)
{
	struct rig *rig = arg;

	while (!atomic_load((_Atomic unsigned *)&rig->nic->waiting))
		rig_receive_within(rig, 1);
	return NULL;
}

static void join_beside(struct rig *first, struct rig *second, const char *address)
{
	pthread_t thread;

	listen_at(first, address);
	atomic_store(&first->nic->waiting, 0);
	CHECK(!pthread_create(&thread, NULL, answer, first));
	listen_at(second, address);
	atomic_store(&first->nic->waiting, 1);
	CHECK(!pthread_join(thread, NULL));
}

/* By the program of the group, at once: no lane hands anything over. */
static void the_kernel_knows_rows_in_namespace(void)
{
	struct rig *first, *second;
	struct vb_way way;

	netns_up("lo", true);
	first = rig_open("wire");
	second = open_second(first);
	join_beside(first, second, "127.0.0.1");
	way = rig_way(first, "127.0.0.1", "127.0.0.1", NULL);
	for (unsigned i = 0; i < MANY; i++) {
		rig_send_one(first, &way, second_qpn(first, i), (uint8_t)i);
		rig_send_one(first, &way, rig_own_qpn(first, i), (uint8_t)i);
		rig_receive(first, i + 1);
		rig_receive(second, i + 1);
	}
	CHECK(!vb_port_counters(first->port)->handed_over);
	CHECK(!vb_port_counters(second->port)->handed_over);
}

/* The second lane has no socket: its packets come to the first, in one burst with others. */
static void a_lane_hands_packets_over_in_namespace(void)
{
	uint8_t bytes[4 * RIG_PACKET];
	struct rig *first, *second;
	struct vb_way way;

	netns_up("lo", true);
	first = rig_open("wire");
	second = open_second(first);
	listen_at(first, "127.0.0.1");
	way = rig_way(first, "127.0.0.1", "127.0.0.1", NULL);
	for (unsigned i = 0; i < 4; i++)
		rig_packet(bytes + i * RIG_PACKET, RIG_PACKET,
			   i % 3 ? second_qpn(first, 5) : rig_own_qpn(first, 5), (uint8_t)i, &way,
			   i);
	rig_send(first, &way, bytes, sizeof(bytes), RIG_PACKET);
	rig_receive(first, 2);
	rig_receive(second, 2);
	CHECK(vb_port_counters(first->port)->handed_over == 2);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(first->seen[i].bytes[12] == 3 * i && second->seen[i].bytes[12] == 1 + i);
		/* The position is that in the burst, which the ICRC needs. */
		CHECK(second->seen[i].position == 1 + i && second->seen[i].icrc_right);
	}
}

/* A packet for QP 1 at the second lane goes to the first; one for another process goes nowhere. */
static void the_first_lane_has_qp_1_in_namespace(void)
{
	struct rig *first, *second;
	struct vb_way way;

	netns_up("lo", true);
	first = rig_open("sim");
	second = open_second(first);
	way = rig_way(second, "127.0.0.1", "127.0.0.1", first->nic->self);
	CHECK(way.kind == VB_WAY_MEMORY);
	rig_send_one(second, &way, 1, 7);
	rig_send_one(second, &way, rig_own_qpn(first, 9), 8);
	rig_send_one(second, &way, second_qpn(first, 9), 9);
	rig_receive(first, 2);
	rig_receive(second, 1);
	CHECK(first->seen[0].bytes[12] == 7 && first->seen[1].bytes[12] == 8);
	CHECK(second->seen[0].bytes[12] == 9);
}

/* Rows of a lane that is closed are the first lane's again, and so are their packets. */
static void a_closed_lane_takes_nothing_in_namespace(void)
{
	struct rig *first, *second;
	struct vb_way way;

	netns_up("lo", true);
	first = rig_open("sim");
	second = open_second(first);
	way = rig_way(first, "127.0.0.1", "127.0.0.1", first->nic->self);
	rig_send_one(first, &way, second_qpn(first, 1), 1);
	atomic_fetch_and(&first->nic->lanes_open, ~(1u << SECOND));
	vb_port_close(second->port);
	CHECK(!rig_receive_within(second, 0));
	rig_send_one(first, &way, second_qpn(first, 1), 2);
	rig_receive(first, 1);
	CHECK(first->seen[0].bytes[12] == 2);
	CHECK(!vb_port_open(second->port));
	atomic_fetch_or(&first->nic->lanes_open, 1u << SECOND);
	rig_send_one(first, &way, second_qpn(first, 1), 3);
	rig_receive(second, 1);
	CHECK(second->seen[0].bytes[12] == 3);
}

RIG_TEST(the_kernel_knows_rows)
RIG_TEST(a_lane_hands_packets_over)
RIG_TEST(the_first_lane_has_qp_1)
RIG_TEST(a_closed_lane_takes_nothing)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_knows_rows),
		cmocka_unit_test(a_lane_hands_packets_over),
		cmocka_unit_test(the_first_lane_has_qp_1),
		cmocka_unit_test(a_closed_lane_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
