/* SPDX-License-Identifier: BSD-2-Clause */
/* Slot sockets: the test is the process at the other end, and not a friendly one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "port_rig.h"

enum { OTHER_SLOT_OFFSET = 1 };

/* A message as it stands on the socket, written down once more: another build must agree. */
struct message {
	uint64_t magic;
	uint32_t length, segment;
	uint16_t src_port, dst_port;
	uint8_t ipv6, forwarded, traffic_class, hop_limit;
	uint8_t src[16], dst[16];
	uint8_t bytes[66000];
};
enum { HEAD = 56 };

/* A peer with one end of a socket pair; the test holds the other. */
static struct vb_peer *add_peer(struct rig *rig, uint32_t slot, int *there)
{
	struct vb_peer *peer = vb_peer_new();
	int ends[2];

	CHECK(peer && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends));
	vb_slot_socket_tune(ends[0]);
	vb_slot_socket_tune(ends[1]);
	peer->socket = ends[0];
	peer->slot = slot;
	atomic_store(&peer->state, VB_PEER_NO_PATH);
	vb_list_append(&rig->nic->peers, &peer->node);
	*there = ends[1];
	return peer;
}

static uint32_t other_slot(const struct rig *rig)
{
	uint32_t slot = rig->nic->seg.head->slot + OTHER_SLOT_OFFSET;

	return slot <= VB_SLOT_MAX ? slot : VB_SLOT_MIN;
}

static struct message good_message(const struct rig *rig)
{
	struct message message = {
		.magic = VB_SLOT_PACKETS_MAGIC,
		.length = 3 * RIG_PACKET,
		.segment = RIG_PACKET,
		.src_port = 0xc001,
		.dst_port = 4791,
		.traffic_class = 2,
		.hop_limit = 9,
		.src = { 192, 0, 2, 1 },
		.dst = { 192, 0, 2, 2 },
	};
	const struct vb_way way = { .flow = { .src = { 192, 0, 2, 1 }, .dst = { 192, 0, 2, 2 } } };

	for (unsigned i = 0; i < 3; i++)
		rig_packet(message.bytes + i * RIG_PACKET, RIG_PACKET, rig_own_qpn(rig, i),
			   (uint8_t)i, &way, i);
	return message;
}

static void put(int there, const struct message *message, size_t size)
{
	CHECK(send(there, message, size, 0) == (ssize_t)size);
}

static struct vb_peer *join_peer(struct rig *rig, int *there)
{
	struct vb_peer *peer = add_peer(rig, other_slot(rig), there);

	CHECK(!vb_port_adopt(rig->port, peer));
	return peer;
}

static void packets_of_a_peer_carry_its_name_in_namespace(void)
{
	struct rig *rig = rig_open("slot");
	static struct message message, got;
	struct vb_peer *peer;
	struct vb_way way;
	int there;

	peer = join_peer(rig, &there);
	message = good_message(rig);
	put(there, &message, HEAD + message.length);
	rig_receive(rig, 3);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(rig->seen[i].bytes[12] == i && rig->seen[i].peer == peer);
		CHECK(rig->seen[i].traffic_class == 2 && rig->seen[i].hop_limit == 9);
		CHECK(!rig->seen[i].forwarded && rig->seen[i].flow.src_port == 0xc001);
		CHECK(!memcmp(rig->seen[i].flow.src, message.src, 16));
	}
	/* And the other direction. */
	way = rig_way(rig, "192.0.2.2", "192.0.2.1", peer);
	CHECK(way.kind == VB_WAY_SLOT && way.peer == peer && atomic_load(&peer->refs) == 3);
	rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	CHECK(recv(there, &got, sizeof(got), 0) == HEAD + (ssize_t)message.length);
	CHECK(got.magic == VB_SLOT_PACKETS_MAGIC && got.length == message.length);
	CHECK(got.segment == RIG_PACKET && !got.forwarded && got.dst_port == 4791);
	CHECK(!memcmp(got.src, message.dst, 16) && !memcmp(got.dst, message.src, 16));
	CHECK(!memcmp(got.bytes, message.bytes, message.length));
	CHECK(vb_way_expects(&way,
			     &(struct vb_arrival){ .flow = &rig->seen[0].flow, .peer = peer }));
	CHECK(!vb_way_expects(&way, &(struct vb_arrival){ .flow = &rig->seen[0].flow }));
	vb_way_release(&way);
	CHECK(atomic_load(&peer->refs) == 2);
}
RIG_TEST(packets_of_a_peer_carry_its_name)

static void what_goes_to_ourselves_is_answered_by_nobody_else_in_namespace(void)
{
	struct rig *rig = rig_open("slot");
	int there;
	struct vb_peer *stranger = add_peer(rig, other_slot(rig), &there);
	const struct vb_way way = rig_way(rig, "192.0.2.2", "192.0.2.1", rig->nic->self);
	const struct vb_icrc_flow answer = { .src = { 192, 0, 2, 1 }, .dst = { 192, 0, 2, 2 } };

	CHECK(way.kind == VB_WAY_MEMORY);
	CHECK(vb_way_expects(&way, &(struct vb_arrival){ .flow = &answer }));
	CHECK(!vb_way_expects(&way, &(struct vb_arrival){ .flow = &answer, .peer = stranger }));
}
RIG_TEST(what_goes_to_ourselves_is_answered_by_nobody_else)

/* --- groups within the host --- */

#define GROUP "224.0.0.99"
enum { FABRIC = 7 };

/* The name of a member: anybody can bind it, and write to it. */
static socklen_t member(struct sockaddr_un *address, unsigned number)
{
	char *name = address->sun_path + 1;
	int length;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(name, sizeof(address->sun_path) - 1,
			  "verbena.mc.7.00000000000000000000ffffe0000063.%u", number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int member_socket(unsigned number)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&address, member(&address, number)));
	return fd;
}

/* What lies unread counts as the sender's. */
static void a_member_that_does_not_read_takes_no_room_from_others_in_namespace(void)
{
	const struct vb_av av = { .sgid = rig_gid("127.0.0.1"),
				  .dgid = rig_gid(GROUP),
				  .multicast = true,
				  .within_host = true,
				  .fabric = FABRIC };
	const int small = 1;
	struct rig *rig = rig_open("slot");
	static struct message got;
	static uint8_t bytes[4096];
	struct vb_way way;
	int reader;

	member_socket(0);
	reader = member_socket(1);
	CHECK(!vb_port_resolve(rig->port, &av, NULL, 0, &way) && way.kind == VB_WAY_GROUP);
	CHECK(!setsockopt(rig->port->groups.out, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	for (int i = 0; i < 5; i++) {
		rig_send(rig, &way, bytes, sizeof(bytes), sizeof(bytes));
		CHECK(recv(reader, &got, sizeof(got), 0) == HEAD + sizeof(bytes));
	}
}
RIG_TEST(a_member_that_does_not_read_takes_no_room_from_others)

static void a_group_within_the_host_has_senders_of_this_host_in_namespace(void)
{
	const struct vb_group group = { .gid = rig_gid(GROUP),
					.fabric = FABRIC,
					.within_host = true };
	struct rig *rig = rig_open("slot");
	struct sockaddr_un to;
	int there = socket(AF_UNIX, SOCK_DGRAM, 0);
	static struct message message;

	CHECK(!vb_port_group_join(rig->port, &group));
	CHECK(!connect(there, (struct sockaddr *)&to, member(&to, 0)));
	message = good_message(rig);
	memcpy(message.dst, group.gid.raw + 12, 4);
	put(there, &message, HEAD + message.length);
	CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1 && rig->count == 0);
	memcpy(message.src, "\x7f\x00\x00\x01", 4);
	put(there, &message, HEAD + message.length);
	rig_receive(rig, 3);
}
RIG_TEST(a_group_within_the_host_has_senders_of_this_host)

/* --- messages --- */

static void break_magic(struct message *message)
{
	message->magic++;
}

static void break_length(struct message *message)
{
	message->length++;
}

static void break_length_huge(struct message *message)
{
	message->length = UINT32_MAX - 40;
}

static void break_segment_zero(struct message *message)
{
	message->segment = 0;
}

static void break_segment_long(struct message *message)
{
	message->segment = message->length + 1;
}

static void break_family(struct message *message)
{
	message->ipv6 = 2;
}

static void break_forwarded(struct message *message)
{
	message->forwarded = 255;
}

static void break_port(struct message *message)
{
	message->dst_port = 53;
}

/* It never came to an address of ours. */
static void break_address(struct message *message)
{
	message->forwarded = 1;
}

static void malformed_messages_change_nothing_but_a_counter_in_namespace(void)
{
	static void (*const faults[])(struct message *) = {
		break_magic,        break_length,       break_length_huge,
		break_segment_zero, break_segment_long, break_family,
		break_forwarded,    break_port,         break_address,
	};
	enum { FAULTS = sizeof(faults) / sizeof(*faults) };
	struct rig *rig = rig_open("slot");
	const struct vb_port_counters *counters = vb_port_counters(rig->port);
	static struct message message;
	int there;
	size_t size;

	join_peer(rig, &there);
	message = good_message(rig);
	size = HEAD + message.length;
	for (unsigned i = 0; i < FAULTS; i++) {
		struct message bad = message;

		faults[i](&bad);
		put(there, &bad, size);
		CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1);
		CHECK(rig->count == 0 && counters->slot_refused == i + 1);
	}
	for (size_t cut = 1; cut < size; cut += 5) {
		put(there, &message, cut);
		CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1 && rig->count == 0);
	}
	/* Longer than any burst. */
	put(there, &message, sizeof(message));
	CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1);
	CHECK(counters->oversized == 1 && rig->count == 0);
	/* For a process that is not us: we are no relay. */
	message.bytes[5] ^= 0x80;
	put(there, &message, HEAD + RIG_PACKET);
	CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1 && rig->count == 0);
	message = good_message(rig);
	put(there, &message, size);
	rig_receive(rig, 3);
}
RIG_TEST(malformed_messages_change_nothing_but_a_counter)

static void a_hang_up_goes_back_to_the_service_thread_in_namespace(void)
{
	struct rig *rig = rig_open("slot");
	static struct message message;
	struct epoll_event event;
	int there;
	struct vb_peer *peer = join_peer(rig, &there);

	message = good_message(rig);
	put(there, &message, HEAD + message.length);
	close(there);
	/* What it sent before is taken in first. */
	rig_receive(rig, 3);
	rig_receive_within(rig, 100);
	CHECK(epoll_wait(rig->outer, &event, 1, RIG_PATIENCE_MS) == 1);
	if (event.data.u64 == VB_PORT_EVENT)
		CHECK(epoll_wait(rig->outer, &event, 1, RIG_PATIENCE_MS) == 1);
	CHECK(event.data.ptr == peer);
	CHECK(rig_receive_within(rig, 0) == 0);
}
RIG_TEST(a_hang_up_goes_back_to_the_service_thread)

/* The kernel tells of the unread ones first. */
static void who_ends_with_packets_unread_has_said_its_last_in_namespace(void)
{
	struct rig *rig = rig_open("slot");
	static struct message message;
	struct vb_peer *peer;
	struct vb_way way;
	int there;

	peer = join_peer(rig, &there);
	message = good_message(rig);
	way = rig_way(rig, "192.0.2.2", "192.0.2.1", peer);
	rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	put(there, &message, HEAD + message.length);
	close(there);
	rig_receive(rig, 3);
	vb_way_release(&way);
}
RIG_TEST(who_ends_with_packets_unread_has_said_its_last)

static void a_peer_that_does_not_read_loses_packets_in_namespace(void)
{
	struct rig *rig = rig_open("slot");
	const struct vb_port_counters *counters = vb_port_counters(rig->port);
	static struct message message;
	int there;
	struct vb_peer *peer = add_peer(rig, other_slot(rig), &there);
	struct vb_way way = rig_way(rig, "192.0.2.2", "192.0.2.1", peer);
	unsigned sent = 0;

	message = good_message(rig);
	while (!counters->send_errors && sent++ < 1000000)
		rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	CHECK(counters->send_errors == 3);
	CHECK(counters->packets_out == 3ull * (sent - 1));
	close(there);
	rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	CHECK(counters->send_errors == 6);
}
RIG_TEST(a_peer_that_does_not_read_loses_packets)

/* A wait for each of them, under the lock of the wire, would be ten seconds. */
static void a_stranger_that_does_not_read_holds_up_nobody_in_namespace(void)
{
	enum { UD_SEND_ONLY = 3 << 5 | 4, DATAGRAMS = 10000 };
	struct rig *rig = rig_open("slot");
	const struct vb_port_counters *counters = vb_port_counters(rig->port);
	static struct message message;
	int there;
	struct vb_peer *peer = add_peer(rig, other_slot(rig), &there);
	struct vb_way way = rig_way(rig, "192.0.2.2", "192.0.2.1", peer);
	uint64_t begin_ns;

	peer->stranger = true;
	message = good_message(rig);
	message.bytes[0] = UD_SEND_ONLY;
	for (unsigned i = 0; !counters->send_errors && i < 1000000; i++)
		rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	begin_ns = vb_now_ns();
	for (int i = 0; i < DATAGRAMS; i++)
		rig_send(rig, &way, message.bytes, message.length, RIG_PACKET);
	CHECK(counters->send_errors >= DATAGRAMS);
	CHECK(vb_now_ns() - begin_ns < 5000000000ull);
	close(there);
}
RIG_TEST(a_stranger_that_does_not_read_holds_up_nobody)

/* --- forwarding --- */

static uint32_t asked_slot;
static unsigned asked;

static void remember_attach(struct vb_nic *nic, uint32_t slot)
{
	asked_slot = slot;
	asked++;
}

static const struct vb_port_calls calls = { .attach = remember_attach };

static void what_is_not_ours_goes_to_its_owner_in_namespace(void)
{
	struct rig *rig;
	static struct message got;
	static uint8_t bytes[5 * RIG_PACKET];
	struct vb_way way;
	uint32_t other, qpn;
	int there;

	netns_up("lo", true);
	rig = rig_open("wire");
	vb_port_on_foreign(rig->port, &calls);
	other = other_slot(rig);
	qpn = other << VB_QP_INDEX_BITS | 3;
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	/* Nobody is attached: lost, but attaching begins. */
	rig_send_one(rig, &way, qpn, 1);
	CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1);
	CHECK(rig->count == 0 && vb_port_counters(rig->port)->forwarded_lost == 1);
	CHECK(asked == 1 && asked_slot == other);
	add_peer(rig, other, &there);
	/* One burst, three packets of it for the other process, in the middle. */
	for (unsigned i = 0; i < 5; i++)
		rig_packet(bytes + i * RIG_PACKET, RIG_PACKET,
			   i == 0 || i == 4 ? rig_own_qpn(rig, 1) : qpn, (uint8_t)i, &way, i);
	rig_send(rig, &way, bytes, sizeof(bytes), RIG_PACKET);
	rig_receive(rig, 2);
	CHECK(rig->seen[0].bytes[12] == 0 && rig->seen[1].bytes[12] == 4);
	CHECK(vb_port_counters(rig->port)->forwarded_out == 3 && asked == 1);
	CHECK(recv(there, &got, sizeof(got), 0) == HEAD + 3 * RIG_PACKET);
	CHECK(got.forwarded == 1 && got.segment == RIG_PACKET && got.dst_port == 4791);
	CHECK(got.src_port == way.flow.src_port && !memcmp(got.src, way.flow.src, 16));
	CHECK(got.hop_limit == 64);
	CHECK(!memcmp(got.bytes, bytes + RIG_PACKET, 3 * RIG_PACKET));
}
RIG_TEST(what_is_not_ours_goes_to_its_owner)

static void what_comes_during_an_attach_waits_for_its_end_in_namespace(void)
{
	struct rig *rig;
	static struct message got;
	struct vb_peer *peer;
	struct vb_way way;
	uint32_t other;
	int there;

	netns_up("lo", true);
	rig = rig_open("wire");
	other = other_slot(rig);
	peer = add_peer(rig, other, &there);
	atomic_store(&peer->state, VB_PEER_CONNECTING);
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	for (uint8_t i = 1; i <= 2; i++) {
		rig_send_one(rig, &way, other << VB_QP_INDEX_BITS | 3, i);
		CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 1);
	}
	CHECK(recv(there, &got, sizeof(got), MSG_DONTWAIT) < 0);
	CHECK(!vb_port_counters(rig->port)->forwarded_out);
	CHECK(!vb_port_counters(rig->port)->forwarded_lost);
	atomic_store(&peer->state, VB_PEER_READY);
	vb_port_attached(rig->port, peer);
	for (uint8_t i = 1; i <= 2; i++) {
		CHECK(recv(there, &got, sizeof(got), MSG_DONTWAIT) == HEAD + RIG_PACKET);
		CHECK(got.forwarded == 1 && got.bytes[12] == i);
	}
	CHECK(vb_port_counters(rig->port)->forwarded_out == 2);
}
RIG_TEST(what_comes_during_an_attach_waits_for_its_end)

static void what_was_forwarded_is_taken_and_not_forwarded_again_in_namespace(void)
{
	struct rig *rig;
	const struct vb_port_counters *counters;
	static struct message message;
	int there;

	netns_up("lo", true);
	rig = rig_open("wire");
	counters = vb_port_counters(rig->port);
	join_peer(rig, &there);
	CHECK(!vb_port_listen(rig->port,
			      &(union ibv_gid){ .raw = { [10] = 255, 255, 127, 0, 0, 1 } }));
	message = good_message(rig);
	message.forwarded = 1;
	memcpy(message.dst, "\x7f\x00\x00\x01", 4);
	put(there, &message, HEAD + message.length);
	rig_receive(rig, 3);
	CHECK(rig->seen[2].forwarded && !rig->seen[2].peer &&
	      vb_port_counters(rig->port)->forwarded_in == 3);
	message.bytes[5] ^= 0x80;
	put(there, &message, HEAD + RIG_PACKET);
	message.length = RIG_PACKET;
	put(there, &message, HEAD + RIG_PACKET);
	CHECK(rig_receive_within(rig, RIG_PATIENCE_MS) == 2);
	CHECK(rig->count == 3 && vb_port_counters(rig->port)->forwarded_lost == 1 &&
	      counters->slot_refused == 1);
}
RIG_TEST(what_was_forwarded_is_taken_and_not_forwarded_again)

static void garbage_does_not_buy_a_connect_each_in_namespace(void)
{
	struct rig *rig;
	struct vb_way way;
	unsigned lost;

	netns_up("lo", true);
	rig = rig_open("wire");
	vb_port_on_foreign(rig->port, &calls);
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	for (uint32_t i = 0; i < 1000; i++) {
		rig_send_one(rig, &way, (i % VB_SLOT_MAX + 1) << VB_QP_INDEX_BITS, 0);
		rig_receive_within(rig, 0);
	}
	while (rig_receive_within(rig, 0))
		;
	lost = (unsigned)vb_port_counters(rig->port)->forwarded_lost;
	CHECK(lost >= 998);
	CHECK(asked >= 1 && asked < 900);
}
RIG_TEST(garbage_does_not_buy_a_connect_each)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_peer_carry_its_name),
		cmocka_unit_test(what_goes_to_ourselves_is_answered_by_nobody_else),
		cmocka_unit_test(a_member_that_does_not_read_takes_no_room_from_others),
		cmocka_unit_test(a_group_within_the_host_has_senders_of_this_host),
		cmocka_unit_test(malformed_messages_change_nothing_but_a_counter),
		cmocka_unit_test(a_hang_up_goes_back_to_the_service_thread),
		cmocka_unit_test(who_ends_with_packets_unread_has_said_its_last),
		cmocka_unit_test(a_peer_that_does_not_read_loses_packets),
		cmocka_unit_test(a_stranger_that_does_not_read_holds_up_nobody),
		cmocka_unit_test(what_is_not_ours_goes_to_its_owner),
		cmocka_unit_test(what_comes_during_an_attach_waits_for_its_end),
		cmocka_unit_test(what_was_forwarded_is_taken_and_not_forwarded_again),
		cmocka_unit_test(garbage_does_not_buy_a_connect_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
