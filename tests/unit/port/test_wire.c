/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts, and what really is on the wire between them:
 *
 *	sender (parent)                 receiver (child)
 *	+---------------------+         +----------------------+
 *	| vb0   192.0.2.7     |---------| veth0   192.0.2.8    |
 *	|       2001:db8::7   |  veth   |         2001:db8::8  |
 *	+---------------------+         +----------------------+
 *
 * vb0 does not segment: the kernel cuts bursts before they get to the link, as for a NIC.
 */
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>

#include <cmocka.h>

#include "port_rig.h"

enum { PACKETS = 8, LENGTH = 1040, UDP_HEADER = 8, IPV6_HEADER = 40 };

struct wire {
	int to_child[2], to_parent[2];
	pid_t child;
};

static void tell(int fd, uint32_t value)
{
	CHECK(write(fd, &value, sizeof(value)) == sizeof(value));
}

static uint32_t hear(int fd)
{
	uint32_t value;

	CHECK(read(fd, &value, sizeof(value)) == sizeof(value));
	return value;
}

static void give_away(const char *name, pid_t to)
{
	const struct ifinfomsg body = { .ifi_index = (int)if_nametoindex(name) };
	const uint32_t pid = (uint32_t)to;
	struct vb_netlink_request request;

	vb_netlink_request(&request, RTM_NEWLINK, NLM_F_ACK, &body, sizeof(body));
	vb_netlink_attr(&request, IFLA_NET_NS_PID, &pid, sizeof(pid));
	CHECK(!vb_netlink_ask(&request, netns_no_answer, NULL));
}

/* Usable at once: nobody else can have it. */
static void add_ipv6(const char *name, const char *text)
{
	const struct ifaddrmsg body = { .ifa_family = AF_INET6,
					.ifa_prefixlen = 64,
					.ifa_flags = 2 /* IFA_F_NODAD */,
					.ifa_index = if_nametoindex(name) };
	struct vb_netlink_request request;
	uint8_t address[16];

	CHECK(inet_pton(AF_INET6, text, address) == 1);
	vb_netlink_request(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK, &body, sizeof(body));
	vb_netlink_attr(&request, IFA_ADDRESS, address, sizeof(address));
	CHECK(!vb_netlink_ask(&request, netns_no_answer, NULL));
}

static void ethtool(const char *name, void *command)
{
	struct ifreq request = { .ifr_data = command };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	netns_ioctl(SIOCETHTOOL, &request);
}

/* The bit of a feature among all that the kernel knows. */
static uint32_t feature_bit(const char *name, const char *feature, uint32_t *words)
{
	struct ethtool_gstrings *strings = calloc(1, sizeof(*strings) + 256 * ETH_GSTRING_LEN);
	uint32_t bit = 0;

	CHECK(strings);
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = ETH_SS_FEATURES;
	ethtool(name, strings);
	while (bit < strings->len &&
	       strcmp((char *)strings->data + bit * ETH_GSTRING_LEN, feature) != 0)
		bit++;
	CHECK(bit < strings->len);
	*words = (strings->len + 31) / 32;
	free(strings);
	return bit;
}

static void feature_off(const char *name, const char *feature)
{
	enum { BLOCKS = 4 };
	struct ethtool_sfeatures *command =
		calloc(1, sizeof(*command) + BLOCKS * sizeof(command->features[0]));
	uint32_t bit;

	CHECK(command);
	command->cmd = ETHTOOL_SFEATURES;
	bit = feature_bit(name, feature, &command->size);
	CHECK(command->size <= BLOCKS);
	command->features[bit / 32].valid = 1u << bit % 32;
	ethtool(name, command);
	free(command);
}

/* --- the receiver --- */

static int open_capture(void)
{
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));

	CHECK(fd >= 0);
	return fd;
}

/* The ICRC of a frame with the identification that it really has. */
static void check_frame(const uint8_t *frame, size_t size, unsigned i, bool ipv6)
{
	size_t ip = ipv6 ? IPV6_HEADER : sizeof(struct iphdr);
	struct vb_icrc_flow flow = { .ipv6 = ipv6 };
	const uint8_t *packet = frame + ip + UDP_HEADER;
	size_t length = size - ip - UDP_HEADER;
	uint16_t id = ipv6 ? 0 : (uint16_t)(frame[4] << 8 | frame[5]);
	uint16_t found = 0;

	memcpy(flow.src, frame + (ipv6 ? 8 : 12), ipv6 ? 16 : 4);
	memcpy(flow.dst, frame + (ipv6 ? 24 : 16), ipv6 ? 16 : 4);
	flow.src_port = (uint16_t)(frame[ip] << 8 | frame[ip + 1]);
	flow.dst_port = (uint16_t)(frame[ip + 2] << 8 | frame[ip + 3]);
	vb_icrc_flow_init(&flow);
	CHECK(flow.dst_port == 4791 && packet[12] == i);
	CHECK(ipv6 || (id == i && frame[6] == 0x40 /* DF */ && frame[7] == 0));
	CHECK(vb_icrc_check(&flow, packet, length - VB_ICRC_LENGTH, &found));
	CHECK(ipv6 || found == id);
}

/* The next frame that is UDP to port 4791. */
static size_t next_frame(int capture, uint8_t *frame, size_t room, bool ipv6)
{
	size_t ip = ipv6 ? IPV6_HEADER : sizeof(struct iphdr);

	for (;;) {
		struct pollfd ready = { .fd = capture, .events = POLLIN };
		struct sockaddr_ll from;
		socklen_t from_size = sizeof(from);
		ssize_t size;

		CHECK(poll(&ready, 1, RIG_PATIENCE_MS) == 1);
		size = recvfrom(capture, frame, room, 0, (struct sockaddr *)&from, &from_size);
		if (size > (ssize_t)ip + UDP_HEADER && from.sll_pkttype == PACKET_HOST &&
		    from.sll_protocol == htons(ipv6 ? ETH_P_IPV6 : ETH_P_IP) &&
		    frame[ipv6 ? 6 : 9] == IPPROTO_UDP && frame[ip + 2] == 4791 >> 8 &&
		    frame[ip + 3] == (4791 & 255))
			return (size_t)size;
	}
}

static void receiver(struct wire *wire)
{
	static const char *const own[] = { "192.0.2.8", "2001:db8::8" };
	static uint8_t frame[70000];
	struct rig *rig;
	int capture;

	CHECK(!unshare(CLONE_NEWNET));
	tell(wire->to_parent[1], 0);
	hear(wire->to_child[0]);
	feature_off("veth0", "rx-gro");
	netns_up("veth0", true);
	netns_address("veth0", "192.0.2.8", "255.255.255.0");
	add_ipv6("veth0", "2001:db8::8");
	rig = rig_open(NULL);
	capture = open_capture();
	for (int i = 0; i < 2; i++)
		CHECK(!vb_port_listen(rig->port, &(union ibv_gid[]){ rig_gid(own[i]) }[0]));
	tell(wire->to_parent[1], rig_own_qpn(rig, 1));
	for (unsigned family = 0; family < 2; family++) {
		rig_receive(rig, (family + 1) * PACKETS);
		for (unsigned i = 0; i < PACKETS; i++) {
			const struct rig_seen *seen = &rig->seen[family * PACKETS + i];

			CHECK(seen->length == LENGTH && seen->bytes[12] == i && seen->icrc_right);
			CHECK(seen->traffic_class == 0x22 && seen->hop_limit == 200);
			check_frame(frame, next_frame(capture, frame, sizeof(frame), family), i,
				    family);
		}
		tell(wire->to_parent[1], 0);
	}
	_exit(0);
}

/* --- the sender --- */

static void send_burst(struct rig *rig, const char *from, const char *to, uint32_t qpn)
{
	static uint8_t bytes[PACKETS * LENGTH];
	struct vb_av av = {
		.sgid = rig_gid(from), .dgid = rig_gid(to), .traffic_class = 0x22, .hop_limit = 200
	};
	struct vb_way way;

	CHECK(!vb_port_resolve(rig->port, &av, NULL, 0x3fff, &way));
	for (unsigned i = 0; i < PACKETS; i++)
		rig_packet(bytes + i * LENGTH, LENGTH, qpn, (uint8_t)i, &way, i);
	rig_send(rig, &way, bytes, sizeof(bytes), LENGTH);
	CHECK(vb_port_counters(rig->port)->send_errors == 0);
	CHECK(vb_port_burst_max(rig->port, &way) == VB_BURST_PACKETS);
	/* More than the link carries. */
	rig_send(rig, &way, bytes, 2 * LENGTH, 2 * LENGTH);
	CHECK(vb_port_counters(rig->port)->too_big > 0);
}

static void identifications_count_from_zero_in_namespace(void)
{
	struct wire wire;
	struct rig *rig;
	uint32_t qpn;
	int status;

	netns_veth();
	CHECK(!pipe(wire.to_child) && !pipe(wire.to_parent));
	wire.child = fork();
	if (!wire.child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		receiver(&wire);
	}
	close(wire.to_parent[1]); /* so that its end is seen */
	hear(wire.to_parent[0]);
	give_away("veth0", wire.child);
	add_ipv6("vb0", "2001:db8::7");
	feature_off("vb0", "tx-udp-segmentation");
	tell(wire.to_child[1], 0);
	qpn = hear(wire.to_parent[0]);
	rig = rig_open(NULL);
	send_burst(rig, "192.0.2.7", "192.0.2.8", qpn);
	hear(wire.to_parent[0]);
	send_burst(rig, "2001:db8::7", "2001:db8::8", qpn);
	hear(wire.to_parent[0]);
	CHECK(waitpid(wire.child, &status, 0) == wire.child && !status);
}
RIG_TEST(identifications_count_from_zero)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identifications_count_from_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
