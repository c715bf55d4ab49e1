/* SPDX-License-Identifier: BSD-2-Clause */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/if_tun.h>

enum { QUEUE_FRAMES = 10000 };

/* Enters a namespace; a descriptor of the one that was left, or -errno. */
static int netns_enter(const char *netns)
{
	char path[256];
	int home, there, err = 0;

	snprintf(path, sizeof(path), "%s%s", strchr(netns, '/') ? "" : "/run/netns/", netns);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (there < 0)
		return -errno;
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0 || setns(there, CLONE_NEWNET))
		err = -errno;
	close(there);
	if (!err)
		return home;
	if (home >= 0)
		close(home);
	return err;
}

static void netns_leave(int home)
{
	if (setns(home, CLONE_NEWNET))
		perror("impair: back to the first namespace");
	close(home);
}

static int tap_make(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int err, fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (!ioctl(fd, TUNSETIFF, &request))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* Inside its namespace. */
static int link_up(const char *name, unsigned mtu)
{
	int err = 0, sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	if (sock < 0)
		return -errno;
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	request.ifr_mtu = (int)mtu;
	if (ioctl(sock, SIOCSIFMTU, &request))
		err = -errno;
	request.ifr_qlen = QUEUE_FRAMES;
	if (!err && ioctl(sock, SIOCSIFTXQLEN, &request))
		err = -errno;
	if (!err && ioctl(sock, SIOCGIFFLAGS, &request))
		err = -errno;
	request.ifr_flags |= IFF_UP;
	if (!err && ioctl(sock, SIOCSIFFLAGS, &request))
		err = -errno;
	close(sock);
	return err;
}

int tap_open(const char *netns, const char *name, unsigned mtu)
{
	int err, fd, home = netns_enter(netns);

	if (home < 0)
		return home;
	fd = tap_make(name);
	err = fd < 0 ? fd : link_up(name, mtu);
	netns_leave(home);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

/* The 12th number behind the name in /proc/net/dev is the drops on the way out. */
static uint64_t dropped_read(const char *name)
{
	FILE *file = fopen("/proc/thread-self/net/dev", "re");
	unsigned long long dropped = 0;
	char line[512], found[64];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %llu",
			   found, &dropped) == 2 &&
		    !strcmp(found, name))
			break;
		else
			dropped = 0;
	if (file)
		fclose(file);
	return dropped;
}

uint64_t tap_dropped(const char *netns, const char *name)
{
	int home = netns_enter(netns);
	uint64_t dropped;

	if (home < 0)
		return 0;
	dropped = dropped_read(name);
	netns_leave(home);
	return dropped;
}
