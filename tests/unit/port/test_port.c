/* SPDX-License-Identifier: BSD-2-Clause */
/* The port of one process: UDP over loopback and the queue in memory. */
#include <net/if.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "port_rig.h"

static void set_mtu(const char *name, int mtu)
{
	struct ifreq request = { .ifr_mtu = mtu };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	netns_ioctl(SIOCSIFMTU, &request);
}

/* Sends a burst of packets and checks what comes. */
static void exchange_burst(struct rig *rig, const struct vb_way *way, uint32_t length,
			   unsigned packets)
{
	uint8_t *bytes = malloc((size_t)length * packets);
	unsigned before = rig->count;

	CHECK(bytes);
	for (unsigned i = 0; i < packets; i++)
		rig_packet(bytes + (size_t)i * length, length, rig_own_qpn(rig, i), (uint8_t)i, way,
			   i);
	/* The last one is shorter. */
	rig_packet(bytes + (size_t)(packets - 1) * length, RIG_PACKET, rig_own_qpn(rig, 9), 99, way,
		   packets - 1);
	rig_send(rig, way, bytes, length * (packets - 1) + RIG_PACKET, length);
	rig_receive(rig, before + packets);
	for (unsigned i = 0; i < packets; i++) {
		const struct rig_seen *seen = &rig->seen[(before + i) % RIG_KEPT];
		bool last = i == packets - 1;

		CHECK(seen->length == (last ? (uint32_t)RIG_PACKET : length));
		CHECK(seen->bytes[12] == (last ? 99 : i));
		CHECK(seen->icrc_right && (way->flow.ipv6 || seen->id == i));
		CHECK(seen->position == i);
		CHECK(vb_way_expects(way, &(struct vb_arrival){ .flow = &seen->flow }));
	}
	free(bytes);
}

static void bursts_arrive_in_order_in_namespace(void)
{
	struct rig *rig;
	struct vb_way ipv4, ipv6;

	netns_up("lo", true);
	rig = rig_open("wire");
	ipv4 = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	ipv6 = rig_way(rig, "::1", "::1", NULL);
	CHECK(!ipv4.flow.ipv6 && ipv6.flow.ipv6);
	CHECK(vb_port_burst_max(rig->port, &ipv4) == VB_BURST_PACKETS);
	exchange_burst(rig, &ipv4, 4096 + 16, 15);
	exchange_burst(rig, &ipv6, 4096 + 16, 15);
	exchange_burst(rig, &ipv4, 256 + 16, VB_BURST_PACKETS);
	exchange_burst(rig, &ipv6, 1024 + 16, 40);
	CHECK(vb_port_counters(rig->port)->packets_out == rig->count);
	CHECK(vb_port_counters(rig->port)->packets_in == rig->count);
	CHECK(!vb_port_counters(rig->port)->send_errors);
}
RIG_TEST(bursts_arrive_in_order)

enum { LONG_PACKET = 272 }; /* of the smallest path MTU */

static void send_packets(struct rig *rig, const struct vb_way *way, unsigned packets, uint32_t size)
{
	static uint8_t bytes[VB_BURST_PACKETS * LONG_PACKET];

	for (unsigned i = 0; i < packets; i++)
		rig_packet(bytes + (size_t)i * size, size, rig_own_qpn(rig, i), 1, way, i);
	rig_send(rig, way, bytes, packets * size, size);
}

/* A long message is a short burst and a long one: all of them are read at once. */
static void bursts_that_wait_are_read_together_in_namespace(void)
{
	static const unsigned counts[] = { 2, 62, 2, 1, 62 };
	struct rig *rig;
	struct vb_way way;
	unsigned sum = 0;

	netns_up("lo", true);
	rig = rig_open("wire");
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		send_packets(rig, &way, counts[i], LONG_PACKET);
		sum += counts[i];
	}
	/* Loopback: they are there. */
	CHECK(vb_port_receive(rig->port, false, 1024, rig_input, rig) == sum);
	send_packets(rig, &way, 2, LONG_PACKET);
	send_packets(rig, &way, 62, LONG_PACKET);
	CHECK(vb_port_receive(rig->port, true, 1, rig_input, rig) == 2);
	CHECK(vb_port_receive(rig->port, true, 1024, rig_input, rig) == 62);
	CHECK(!vb_port_receive(rig->port, true, 1024, rig_input, rig));
	CHECK(vb_port_packets(rig->port) == 2 * (sum + 64));
}
RIG_TEST(bursts_that_wait_are_read_together)

/* A further look would cost a poller that waits for an answer as much as the first. */
static void a_pair_of_small_packets_is_read_alone_in_namespace(void)
{
	struct rig *rig;
	struct vb_way way;

	netns_up("lo", true);
	rig = rig_open("wire");
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	for (int i = 0; i < 2; i++)
		send_packets(rig, &way, 2, RIG_PACKET);
	CHECK(vb_port_receive(rig->port, true, 1024, rig_input, rig) == 2);
	CHECK(vb_port_receive(rig->port, true, 1024, rig_input, rig) == 2);
	CHECK(!vb_port_receive(rig->port, true, 1024, rig_input, rig));
}
RIG_TEST(a_pair_of_small_packets_is_read_alone)

static void headers_say_what_the_way_says_in_namespace(void)
{
	struct vb_av av = { .sgid = rig_gid("127.0.0.1"),
			    .dgid = rig_gid("127.0.0.1"),
			    .local = true,
			    .traffic_class = 0x6a,
			    .hop_limit = 7 };
	struct rig *rig;
	struct vb_way way;

	netns_up("lo", true);
	rig = rig_open("wire");
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		if (ipv6)
			av.sgid = av.dgid = rig_gid("::1");
		CHECK(!vb_port_resolve(rig->port, &av, NULL, 0x2345, &way));
		CHECK(way.flow.src_port == (0xc000 | 0x2345) && way.flow.dst_port == 4791);
		rig_send_one(rig, &way, rig_own_qpn(rig, 1), 5);
		rig_receive(rig, (unsigned)ipv6 + 1);
		CHECK(rig->seen[ipv6].traffic_class == 0x6a && rig->seen[ipv6].hop_limit == 7);
		CHECK(rig->seen[ipv6].flow.src_port == way.flow.src_port);
		CHECK(!memcmp(rig->seen[ipv6].flow.src, way.flow.src, 16));
		CHECK(!memcmp(rig->seen[ipv6].flow.dst, way.flow.dst, 16));
		vb_way_release(&way);
		CHECK(!way.resolved);
	}
}
RIG_TEST(headers_say_what_the_way_says)

/* Whoever sends one message after another, or comes between. */
static void a_message_has_the_flow_of_its_sender_in_namespace(void)
{
	static const uint8_t order[] = { 0, 0, 1, 0, 1, 1, 0 };
	static const char *const own[] = { "127.0.0.1", "::1" };
	struct rig *rig;

	netns_up("lo", true);
	rig = rig_open("wire");
	for (unsigned family = 0; family < 2; family++) {
		struct vb_av av = { .sgid = rig_gid(own[family]),
				    .dgid = rig_gid(own[family]),
				    .local = true };
		struct vb_way ways[2];
		uint32_t entropy = 1;

		CHECK(!vb_port_resolve(rig->port, &av, NULL, entropy, &ways[0]));
		do
			CHECK(!vb_port_resolve(rig->port, &av, NULL, ++entropy, &ways[1]));
		while (ways[1].flow.src_port == ways[0].flow.src_port);
		for (unsigned i = 0; i < sizeof(order); i++) {
			const struct vb_way *way = &ways[order[i]];
			const struct rig_seen *seen = &rig->seen[rig->count];

			rig_send_one(rig, way, rig_own_qpn(rig, 1), 5);
			rig_receive(rig, rig->count + 1);
			CHECK(seen->icrc_right && seen->flow.src_port == way->flow.src_port);
			CHECK(!memcmp(seen->flow.src, way->flow.src, sizeof(way->flow.src)));
		}
	}
}
RIG_TEST(a_message_has_the_flow_of_its_sender)

static void real_addresses_stay_and_made_up_ones_go_over_loopback_in_namespace(void)
{
	static const uint8_t own[4] = { 192, 0, 2, 7 }, localhost[4] = { 127, 0, 0, 1 };
	struct rig *rig;
	struct vb_way way;

	netns_up("lo", true);
	netns_veth();
	rig = rig_open("wire");
	way = rig_way(rig, "192.0.2.7", "192.0.2.7", NULL);
	CHECK(!memcmp(way.flow.src, own, 4) && !memcmp(way.flow.dst, own, 4));
	exchange_burst(rig, &way, 1024, 8);
	way = rig_way(rig, "192.0.2.7", "127.0.0.1", NULL);
	CHECK(!memcmp(way.flow.src, localhost, 4) && !memcmp(way.flow.dst, localhost, 4));
	exchange_burst(rig, &way, 1024, 8);
	/* No interface has this address; it stands for a port of this host. */
	way = rig_way(rig, "fe80::1234", "fe80::1234", NULL);
	CHECK(way.flow.ipv6 && way.flow.dst[15] == 1 && !way.flow.dst[0]);
	exchange_burst(rig, &way, 1024, 8);
}
RIG_TEST(real_addresses_stay_and_made_up_ones_go_over_loopback)

static void an_address_of_another_host_needs_a_source_in_namespace(void)
{
	struct vb_av av = { .sgid = rig_gid("192.0.2.99"), .dgid = rig_gid("192.0.2.1") };
	struct rig *rig;
	struct vb_way way;

	netns_up("lo", true);
	netns_veth();
	rig = rig_open(NULL);
	CHECK(vb_port_resolve(rig->port, &av, NULL, 0, &way) == -EADDRNOTAVAIL);
	av.sgid = rig_gid("::1");
	CHECK(vb_port_resolve(rig->port, &av, NULL, 0, &way) == -EINVAL);
	av.sgid = rig_gid("192.0.2.7");
	CHECK(!vb_port_resolve(rig->port, &av, NULL, 0, &way));
	CHECK(way.kind == VB_WAY_UDP && !way.local);
	/* LIDs have addresses, or lead nowhere. */
	av = (struct vb_av){ .slid = 7,
			     .dlid = 66,
			     .dgid = vb_gid_from_lid(66),
			     .lid_src = rig_gid("192.0.2.7"),
			     .lid_dst = rig_gid("192.0.2.66") };
	CHECK(!vb_port_resolve(rig->port, &av, NULL, 0, &way));
	CHECK(!memcmp(way.flow.src, "\xc0\x00\x02\x07", 4));
	CHECK(!memcmp(way.flow.dst, "\xc0\x00\x02\x42", 4));
	av.lid_dst = (union ibv_gid){ 0 };
	CHECK(vb_port_resolve(rig->port, &av, NULL, 0, &way) == -ENETUNREACH);
}
RIG_TEST(an_address_of_another_host_needs_a_source)

static void what_the_kernel_refuses_is_lost_and_counted_in_namespace(void)
{
	static uint8_t bytes[4000];
	const struct vb_port_counters *counters;
	struct rig *rig;
	struct vb_av remote = { .sgid = rig_gid("192.0.2.7"), .dgid = rig_gid("192.0.2.1") };
	struct vb_way way, dead;

	netns_up("lo", true);
	netns_veth();
	rig = rig_open("wire");
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	set_mtu("lo", 1500);
	rig_send(rig, &way, bytes, 2000, 2000);
	rig_send(rig, &way, bytes, 4000, 2000);
	counters = vb_port_counters(rig->port);
	CHECK(counters->too_big == 3 && counters->packets_out == 0);
	CHECK(!vb_port_resolve(rig->port, &remote, NULL, 0, &dead));
	netns_up("vb0", false);
	rig_send_one(rig, &dead, 0x111111, 1);
	CHECK(counters->send_errors == 1);
	exchange_burst(rig, &way, 1000, 10);
	CHECK(vb_port_burst_max(rig->port, &way) == VB_BURST_PACKETS);
	CHECK(counters->send_errors == 1 && counters->too_big == 3);
}
RIG_TEST(what_the_kernel_refuses_is_lost_and_counted)

static void narrow_route(const char *to, uint32_t mtu)
{
	const struct rtmsg body = { .rtm_family = AF_INET,
				    .rtm_dst_len = 32,
				    .rtm_table = RT_TABLE_MAIN,
				    .rtm_protocol = RTPROT_STATIC,
				    .rtm_scope = RT_SCOPE_LINK,
				    .rtm_type = RTN_UNICAST };
	struct {
		struct rtattr header;
		uint32_t mtu;
	} metric = { { sizeof(metric), RTAX_MTU }, mtu };
	const int ifindex = (int)if_nametoindex("vb0");
	struct vb_netlink_request request;
	struct in_addr address;

	CHECK(inet_pton(AF_INET, to, &address) == 1);
	vb_netlink_request(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &body, sizeof(body));
	vb_netlink_attr(&request, RTA_DST, &address, sizeof(address));
	vb_netlink_attr(&request, RTA_OIF, &ifindex, sizeof(ifindex));
	vb_netlink_attr(&request, RTA_METRICS, &metric, sizeof(metric));
	CHECK(!vb_netlink_ask(&request, netns_no_answer, NULL));
}

/* Anybody may have told the host of a narrow route: one burst finds out, the others do not. */
static void a_narrow_route_is_met_once_in_namespace(void)
{
	static uint8_t bytes[4000];
	const struct vb_port_counters *counters;
	struct vb_av remote = { .sgid = rig_gid("192.0.2.7"), .dgid = rig_gid("192.0.2.1") };
	const struct vb_sender *sender;
	int discover = -1;
	socklen_t size = sizeof(discover);
	struct rig *rig;
	struct vb_way way;

	netns_veth();
	narrow_route("192.0.2.1", 700);
	rig = rig_open("wire");
	counters = vb_port_counters(rig->port);
	CHECK(!vb_port_resolve(rig->port, &remote, NULL, 0, &way));
	rig_send(rig, &way, bytes, 4000, 1000);
	CHECK(counters->packets_out == 4 && !counters->too_big && !counters->send_errors);
	sender = &rig->port->endpoints[way.socket / VB_SENDERS]->senders[way.socket % VB_SENDERS];
	CHECK(!getsockopt(sender->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, &size));
	CHECK(discover == IP_PMTUDISC_PROBE);
	rig_send(rig, &way, bytes, 4000, 1000);
	CHECK(counters->packets_out == 8 && !counters->too_big && !counters->send_errors);
}
RIG_TEST(a_narrow_route_is_met_once)

static void without_segmentation_packets_go_one_by_one_in_namespace(void)
{
	static uint8_t bytes[4 * 1000];
	const struct vb_port_counters *counters;
	const int on = 1;
	struct rig *rig;
	struct vb_way way;
	int fd;

	netns_up("lo", true);
	rig = rig_open("wire");
	way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	counters = vb_port_counters(rig->port);
	/* The kernel does not cut where it makes no checksum. */
	fd = rig->port->endpoints[0]->senders[way.socket % VB_SENDERS].fd;
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)));
	for (unsigned i = 0; i < 4; i++)
		rig_packet(bytes + i * 1000, 1000, rig_own_qpn(rig, 1), (uint8_t)i, &way, i);
	rig_send(rig, &way, bytes, sizeof(bytes), 1000);
	rig_receive(rig, 1);
	CHECK(rig->seen[0].icrc_right && rig->seen[0].id == 0);
	CHECK(counters->send_errors == 3);
	CHECK(vb_port_burst_max(rig->port, &way) == 1);
	rig_send_one(rig, &way, rig_own_qpn(rig, 1), 7);
	rig_receive(rig, 2);
}
RIG_TEST(without_segmentation_packets_go_one_by_one)

/* As rxe and hardware send. */
static void packets_without_udp_checksum_are_taken_in_namespace(void)
{
	static const char *const own[] = { "127.0.0.1", "::1" };
	const int on = 1;
	struct rig *rig;

	netns_up("lo", true);
	rig = rig_open("wire");
	for (unsigned i = 0; i < 2; i++) {
		struct vb_way way = rig_way(rig, own[i], own[i], NULL);
		int fd = rig->port->endpoints[i]->senders[way.socket % VB_SENDERS].fd;

		CHECK(!setsockopt(fd, i ? SOL_UDP : SOL_SOCKET, i ? UDP_NO_CHECK6_TX : SO_NO_CHECK,
				  &on, sizeof(on)));
		rig_send_one(rig, &way, rig_own_qpn(rig, 1), 1);
		rig_receive(rig, i + 1);
	}
}
RIG_TEST(packets_without_udp_checksum_are_taken)

/* --- somebody else has the port --- */

/* Listens at 127.0.0.1, where somebody is already, and keeps what is said of it. */
static void listen_and_hear(char *said, size_t size)
{
	const union ibv_gid localhost = rig_gid("127.0.0.1");
	int ends[2], before = dup(STDERR_FILENO);
	struct rig *rig = rig_open(NULL);
	ssize_t length;

	CHECK(!pipe(ends) && dup2(ends[1], STDERR_FILENO) >= 0);
	CHECK(!vb_port_listen(rig->port, &localhost));
	dup2(before, STDERR_FILENO);
	close(ends[1]);
	length = read(ends[0], said, size - 1);
	CHECK(length > 0);
	said[length] = '\0';
	CHECK(rig->port->endpoints[0]->fd < 0);
}

static void a_program_of_this_user_that_does_not_share_the_port_is_told_of_in_namespace(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT_ROCE) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char said[1024];

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setenv("VERBENA_EXPLAIN", "1", 1);
	netns_up("lo", true);
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&own, sizeof(own)));
	listen_and_hear(said, sizeof(said));
	CHECK(strstr(said, "a program that is not Verbena") && strstr(said, "no packets come"));
	CHECK(!strstr(said, "through its process"));
}
RIG_TEST(a_program_of_this_user_that_does_not_share_the_port_is_told_of)

/* --- watching --- */

static int outer_events(const struct rig *rig)
{
	struct epoll_event event;

	return epoll_wait(rig->outer, &event, 1, 0);
}

/* An address that comes after many others have come and gone is opened like the first. */
static void addresses_come_and_go_in_namespace(void)
{
	struct rig *rig;
	struct vb_way stays, former;
	unsigned number;
	int err = 0;

	netns_up("lo", true);
	netns_veth();
	rig = rig_open("wire");
	stays = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	former = rig_way(rig, "192.0.2.7", "192.0.2.7", NULL);
	CHECK(former.kind == VB_WAY_UDP);
	for (unsigned i = 0; i < 3 * VB_ENDPOINTS_MAX; i++) {
		struct vb_address address = { .bytes = { 10, 1, (uint8_t)(i >> 8), (uint8_t)i } };
		struct vb_endpoint *endpoint;
		char text[32];

		snprintf(text, sizeof(text), "10.1.%u.%u", i >> 8, i & 255);
		netns_address("vb0", text, "255.0.0.0");
		endpoint = vb_udp_endpoint(rig->port, &address, &number, &err);
		CHECK(endpoint && !err && endpoint->fd >= 0);
		CHECK(rig->port->endpoints[number] == endpoint);
	}
	exchange_burst(rig, &stays, 1024, 3);
	CHECK(!vb_port_counters(rig->port)->send_errors);
	rig_send_one(rig, &former, rig_own_qpn(rig, 1), 5);
	CHECK(vb_port_counters(rig->port)->send_errors == 1);
}
RIG_TEST(addresses_come_and_go)

static void the_service_thread_is_woken_once_per_watch_in_namespace(void)
{
	static const char *const paths[] = { "wire", "sim" };
	struct rig *rig;

	netns_up("lo", true);
	for (int i = 0; i < 2; i++) {
		struct vb_way way;
		pid_t child = fork(); /* VERBENA_PATH is read once per process */
		int status;

		CHECK(child >= 0);
		if (child) {
			CHECK(waitpid(child, &status, 0) == child && !status);
			continue;
		}
		rig = rig_open(paths[i]);
		way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
		CHECK(outer_events(rig) == 0);
		rig_send_one(rig, &way, rig_own_qpn(rig, 1), 1);
		CHECK(outer_events(rig) == 1);
		CHECK(outer_events(rig) == 0);
		rig_receive(rig, 1);
		CHECK(outer_events(rig) == 0);
		rig_send_one(rig, &way, rig_own_qpn(rig, 1), 1);
		CHECK(outer_events(rig) == 0);
		/* It was there before the watch: nothing is lost. */
		vb_port_watch(rig->port);
		CHECK(outer_events(rig) == 1);
		rig_receive(rig, 2);
		vb_port_watch(rig->port);
		CHECK(outer_events(rig) == 0);
		_exit(0);
	}
}
RIG_TEST(the_service_thread_is_woken_once_per_watch)

/* --- memory --- */

/* Takes in some packets, which must be the oldest ones. */
static void drain(struct rig *rig, unsigned most, uint8_t *next)
{
	for (unsigned before = rig->count;
	     most && vb_port_receive(rig->port, false, 1, rig_input, rig); most--) {
		CHECK(rig->count == before + 1);
		CHECK(rig->seen[before % RIG_KEPT].bytes[12] == *next);
		before = rig->count;
		++*next;
	}
}

static void memory_is_bounded_and_keeps_order_in_namespace(void)
{
	static uint8_t bytes[60000];
	struct rig *rig = rig_open("sim");
	const struct vb_port_counters *counters = vb_port_counters(rig->port);
	struct vb_way way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	uint8_t next_in = 0, next_out = 0;

	CHECK(way.kind == VB_WAY_MEMORY);
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t length = 64 + round * 7919 % (sizeof(bytes) - 64);
		uint64_t full = counters->memory_full;

		rig_packet(bytes, length, rig_own_qpn(rig, 1), next_in, &way, 0);
		rig_send(rig, &way, bytes, length, length);
		if (counters->memory_full == full)
			next_in++;
		else /* full: make some room, more or less of it */
			drain(rig, round % 50, &next_out);
	}
	CHECK(counters->memory_full > 10);
	CHECK(counters->packets_out + counters->memory_full == 2000);
	drain(rig, 2000, &next_out);
	CHECK(counters->packets_in == counters->packets_out && next_in == next_out);
	CHECK(rig_receive_within(rig, 0) == 0);
}
RIG_TEST(memory_is_bounded_and_keeps_order)

static struct vb_way echo_way;

static unsigned echo(void *arg, const struct vb_arrival *arrival)
{
	struct rig *rig = arg;
	uint8_t number = arrival->bytes[12];

	rig_input(rig, arrival);
	CHECK(!vb_port_receive(rig->port, false, 1, rig_input, rig)); /* not from within */
	if (number < 100)
		rig_send_one(rig, &echo_way, rig_own_qpn(rig, 1), number + 1);
	CHECK(arrival->bytes[12] == number);
	return 1;
}

static void an_input_may_send_in_namespace(void)
{
	struct rig *rig = rig_open("sim");

	echo_way = rig_way(rig, "127.0.0.1", "127.0.0.1", NULL);
	rig_send_one(rig, &echo_way, rig_own_qpn(rig, 1), 0);
	CHECK(vb_port_receive(rig->port, false, 1000, echo, rig) == 101);
	for (unsigned i = 0; i <= 100; i++)
		CHECK(rig->seen[i].bytes[12] == i && rig->seen[i].icrc_right);
}
RIG_TEST(an_input_may_send)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_arrive_in_order),
		cmocka_unit_test(bursts_that_wait_are_read_together),
		cmocka_unit_test(a_pair_of_small_packets_is_read_alone),
		cmocka_unit_test(headers_say_what_the_way_says),
		cmocka_unit_test(a_message_has_the_flow_of_its_sender),
		cmocka_unit_test(real_addresses_stay_and_made_up_ones_go_over_loopback),
		cmocka_unit_test(an_address_of_another_host_needs_a_source),
		cmocka_unit_test(what_the_kernel_refuses_is_lost_and_counted),
		cmocka_unit_test(a_narrow_route_is_met_once),
		cmocka_unit_test(without_segmentation_packets_go_one_by_one),
		cmocka_unit_test(packets_without_udp_checksum_are_taken),
		cmocka_unit_test(a_program_of_this_user_that_does_not_share_the_port_is_told_of),
		cmocka_unit_test(addresses_come_and_go),
		cmocka_unit_test(the_service_thread_is_woken_once_per_watch),
		cmocka_unit_test(memory_is_bounded_and_keeps_order),
		cmocka_unit_test(an_input_may_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
