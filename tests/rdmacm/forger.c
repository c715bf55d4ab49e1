/* SPDX-License-Identifier: BSD-2-Clause */
#include "forger.h"

#include <arpa/inet.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hosts.h"

enum { ROCE_PORT = 4791, QUOTED_MAX = 512, SWEEP_PAUSE_US = 10000 };

static uint16_t checksum(const void *bytes, size_t length, uint32_t sum)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static struct udphdr udp_of(uint16_t port)
{
	return (struct udphdr){ .source = htons(port),
				.dest = htons(ROCE_PORT),
				.len = htons(sizeof(struct udphdr) + 280) };
}

/* --- IPv4 --- */

struct message4 {
	struct iphdr ip;
	struct icmphdr icmp;
	struct iphdr quoted;
	struct udphdr udp;
	uint8_t payload[QUOTED_MAX];
};

static struct iphdr ip_header(const char *from, const char *to, uint8_t protocol, size_t length)
{
	struct iphdr ip = { .version = 4,
			    .ihl = 5,
			    .ttl = 64,
			    .protocol = protocol,
			    .tot_len = htons((uint16_t)length) };

	CHECK(inet_pton(AF_INET, from, &ip.saddr) == 1 && inet_pton(AF_INET, to, &ip.daddr) == 1);
	ip.check = checksum(&ip, sizeof(ip), 0);
	return ip;
}

static void send4(int fd, const struct forgery *forgery, uint16_t port)
{
	const size_t length = offsetof(struct message4, payload) + forgery->quoted_length;
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct message4 message = {
		.ip = ip_header(forgery->from, forgery->to, IPPROTO_ICMP, length),
		.icmp = { .type = ICMP_DEST_UNREACH, .code = ICMP_PORT_UNREACH },
		.quoted = ip_header(forgery->to, forgery->quoted, IPPROTO_UDP, 308),
		.udp = udp_of(port),
	};

	message.icmp.checksum = checksum(&message.icmp, length - sizeof(struct iphdr), 0);
	to.sin_addr.s_addr = message.ip.daddr;
	(void)!sendto(fd, &message, length, 0, (void *)&to, sizeof(to));
}

/* --- IPv6 --- */

struct message6 {
	struct icmp6_hdr icmp;
	struct ip6_hdr quoted;
	struct udphdr udp;
	uint8_t payload[QUOTED_MAX];
};

static void send6(int fd, const struct forgery *forgery, uint16_t port)
{
	const size_t length = offsetof(struct message6, payload) + forgery->quoted_length;
	struct message6 message = {
		.icmp = { .icmp6_type = ICMP6_DST_UNREACH, .icmp6_code = ICMP6_DST_UNREACH_NOPORT },
		.udp = udp_of(port),
	};
	struct sockaddr_in6 to = { .sin6_family = AF_INET6 };

	message.quoted.ip6_flow = htonl(6u << 28);
	message.quoted.ip6_plen = htons(288);
	message.quoted.ip6_nxt = IPPROTO_UDP;
	message.quoted.ip6_hlim = 64;
	CHECK(inet_pton(AF_INET6, forgery->to, &message.quoted.ip6_src) == 1);
	CHECK(inet_pton(AF_INET6, forgery->quoted, &message.quoted.ip6_dst) == 1);
	to.sin6_addr = message.quoted.ip6_src;
	(void)!sendto(fd, &message, length, 0, (void *)&to,
		      sizeof(to)); /* the kernel adds the sum */
}

static int open6(const char *from)
{
	int fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
	struct sockaddr_storage own;

	set_address(&own, from, 0);
	CHECK(fd >= 0 && !bind(fd, (void *)&own, sizeof(struct sockaddr_in6)));
	return fd;
}

_Noreturn void forge(const struct forgery *forgery)
{
	const bool ipv6 = strchr(forgery->to, ':');
	int fd =
		ipv6 ? open6(forgery->from) : socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	CHECK(fd >= 0 && forgery->quoted_length <= QUOTED_MAX);
	for (;;) {
		for (uint16_t port = FORGED_PORT; port < FORGED_PORT + FORGED_PORTS; port++)
			(ipv6 ? send6 : send4)(fd, forgery, port);
		usleep(SWEEP_PAUSE_US); /* the rate, not a wait */
	}
}
