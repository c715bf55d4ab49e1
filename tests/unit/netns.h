/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace for a test, made by an ordinary user:
 *
 *	child process, own user and network namespace
 *	+-----------------------------------------------+
 *	| lo (down)      vb0 --- peer                   |
 *	|                02:00:00:00:00:07  192.0.2.7/24|
 *	+-----------------------------------------------+
 */
#ifndef VB_TEST_NETNS_H
#define VB_TEST_NETNS_H

#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/netlink.h"

enum { NETNS_SKIPPED = 77 };

/* In the child: the test ends here when something is not as promised. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

/* Runs body in a fresh namespace; 0, 1 (a CHECK failed) or NETNS_SKIPPED, loudly. */
static inline int netns_run(void (*body)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		/* A chroot has no user namespaces; root needs none. */
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET)) {
			perror("SKIPPED: a network namespace");
			_exit(NETNS_SKIPPED);
		}
		body();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static inline void netns_ioctl(unsigned long request, void *argument)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK(!ioctl(fd, request, argument));
	close(fd);
}

static inline void netns_up(const char *name, bool up)
{
	struct ifreq request = { .ifr_flags = up ? IFF_UP : 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	netns_ioctl(SIOCSIFFLAGS, &request);
}

/* Sets the IPv4 address of an interface; "lo:1" adds one. */
static inline void netns_address(const char *name, const char *address, const char *mask)
{
	struct sockaddr_in inet = { .sin_family = AF_INET };
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	CHECK(inet_pton(AF_INET, address, &inet.sin_addr) == 1);
	memcpy(&request.ifr_addr, &inet, sizeof(inet));
	netns_ioctl(SIOCSIFADDR, &request);
	CHECK(inet_pton(AF_INET, mask, &inet.sin_addr) == 1);
	memcpy(&request.ifr_netmask, &inet, sizeof(inet));
	netns_ioctl(SIOCSIFNETMASK, &request);
}

static inline void netns_default_route(const char *gateway)
{
	struct sockaddr_in inet = { .sin_family = AF_INET };
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };

	memcpy(&route.rt_dst, &inet, sizeof(inet));
	memcpy(&route.rt_genmask, &inet, sizeof(inet));
	CHECK(inet_pton(AF_INET, gateway, &inet.sin_addr) == 1);
	memcpy(&route.rt_gateway, &inet, sizeof(inet));
	netns_ioctl(SIOCADDRT, &route);
}

static inline void netns_no_answer(const struct nlmsghdr *message, void *argument)
{
}

/* A pair vb0 and vb1; skips where the kernel has no veth. */
static inline void netns_veth(void)
{
	static const unsigned char mac[6] = { 2, 0, 0, 0, 0, 7 };
	const struct ifinfomsg body = { 0 };
	struct {
		struct rtattr header;
		char kind[4];
	} info = { { sizeof(info), IFLA_INFO_KIND }, { 'v', 'e', 't', 'h' } };
	struct vb_netlink_request request;

	vb_netlink_request(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &body,
			   sizeof(body));
	vb_netlink_attr(&request, IFLA_IFNAME, "vb0", sizeof("vb0"));
	vb_netlink_attr(&request, IFLA_ADDRESS, mac, sizeof(mac));
	vb_netlink_attr(&request, IFLA_LINKINFO, &info, sizeof(info));
	if (vb_netlink_ask(&request, netns_no_answer, NULL)) {
		fprintf(stderr, "SKIPPED: the kernel makes no veth interfaces\n");
		_exit(NETNS_SKIPPED);
	}
	netns_up("vb0", true);
	netns_up("veth0", true);
	netns_address("vb0", "192.0.2.7", "255.255.255.0");
}

#endif
