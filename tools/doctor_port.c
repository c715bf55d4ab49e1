/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that hold the UDP port of RoCEv2. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/udp_table.h"
#include "doctor.h"

enum { ROCE_PORT = 4791, HOLDERS_MAX = 64 };

struct holder {
	struct vb_udp_socket socket;
	bool ipv6;
};

static size_t read_holders(bool ipv6, struct holder *holders, size_t count)
{
	struct vb_udp_table table;

	if (!vb_udp_table_open(&table, ipv6))
		return count;
	while (count < HOLDERS_MAX && vb_udp_table_next(&table, &holders[count].socket)) {
		holders[count].ipv6 = ipv6;
		count += holders[count].socket.port == ROCE_PORT;
	}
	vb_udp_table_close(&table);
	return count;
}

/* Works only for processes whose descriptors /proc shows us. */
static bool process_has_socket(const char *pid, const char *link)
{
	char path[300], target[64];
	struct dirent *entry;
	bool found = false;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	directory = opendir(path);
	if (!directory)
		return false;
	while (!found && (entry = readdir(directory))) {
		ssize_t length =
			readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

		if (length <= 0)
			continue;
		target[length] = '\0';
		found = !strcmp(target, link);
	}
	closedir(directory);
	return found;
}

/* The pid of a holder; 0: /proc does not show it. */
static int find_process(unsigned long inode)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char link[64];
	int pid = 0;

	if (!proc)
		return 0;
	snprintf(link, sizeof(link), "socket:[%lu]", inode);
	while (!pid && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    process_has_socket(entry->d_name, link))
			pid = atoi(entry->d_name);
	closedir(proc);
	return pid;
}

static void process_name(int pid, char *name, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file || !fgets(name, (int)size, file))
		snprintf(name, size, "?");
	name[strcspn(name, "\n")] = '\0';
	if (file)
		fclose(file);
}

/* --- sharing the port --- */

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* The interface with a link-local address, which the table does not tell; 0: there is none. */
static unsigned interface_of(const struct in6_addr *address)
{
	struct ifaddrs *all, *entry;
	unsigned index = 0;

	if (getifaddrs(&all))
		return 0;
	for (entry = all; entry && !index; entry = entry->ifa_next) {
		union address own;

		if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6)
			continue;
		memcpy(&own.in6, entry->ifa_addr, sizeof(own.in6));
		if (!memcmp(&own.in6.sin6_addr, address, sizeof(*address)))
			index = if_nametoindex(entry->ifa_name);
	}
	freeifaddrs(all);
	return index;
}

static socklen_t fill_address(union address *address, const struct holder *holder)
{
	memset(address, 0, sizeof(*address));
	if (!holder->ipv6) {
		address->in.sin_family = AF_INET;
		address->in.sin_port = htons(ROCE_PORT);
		memcpy(&address->in.sin_addr, holder->socket.address, sizeof(address->in.sin_addr));
		return sizeof(address->in);
	}
	address->in6.sin6_family = AF_INET6;
	address->in6.sin6_port = htons(ROCE_PORT);
	memcpy(&address->in6.sin6_addr, holder->socket.address, sizeof(address->in6.sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr))
		address->in6.sin6_scope_id = interface_of(&address->in6.sin6_addr);
	return sizeof(address->in6);
}

/*
 * Binds the port as a process on Verbena does. Packets for other processes must not come to us
 * meanwhile. So the socket is tied to the loopback interface, if the kernel allows it: that does
 * not change which sockets may share the port.
 */
static int try_share(void *argument)
{
	static const char loopback[] = "lo";
	const struct holder *holder = argument;
	const int one = 1;
	union address address;
	socklen_t length = fill_address(&address, holder);
	int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)))
		return errno;
	if (!holder->ipv6 || !address.in6.sin6_scope_id)
		(void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, loopback, sizeof(loopback));
	return bind(fd, &address.any, length) ? errno : 0;
}

/* A process on Verbena binds single addresses, and shares them with processes of its user. */
static bool is_stranger(struct holder *holder)
{
	return vb_udp_socket_is_everywhere(&holder->socket) ||
	       (holder->socket.uid == geteuid() && probe_run(try_share, holder) == EADDRINUSE);
}

/*
 * Processes of one user share the port. For processes of other users the holder forwards packets.
 */
static void report_process(struct holder *holder)
{
	const bool stranger = is_stranger(holder);
	const uid_t uid = holder->socket.uid;
	const enum verdict verdict = uid == geteuid() && !stranger ? VERDICT_OK : VERDICT_WARN;
	const int pid = find_process(holder->socket.inode);
	char name[64];

	if (pid) {
		process_name(pid, name, sizeof(name));
		report(verdict, "UDP port 4791", "held by process %d (%s) of user %u", pid, name,
		       uid);
	} else {
		report(verdict, "UDP port 4791", "held by a process of user %u", uid);
	}
	if (stranger)
		advise("that program is not Verbena: packets from other hosts do not arrive here; "
		       "traffic within this host does not need the port");
	else if (verdict == VERDICT_WARN)
		advise("packets from other hosts come through that process, but only if it runs "
		       "on Verbena; traffic within this host does not need the port");
}

static void report_holder(struct holder *holder)
{
	if (holder->socket.inode) {
		report_process(holder);
		return;
	}
	report(VERDICT_WARN, "UDP port 4791", "held by the kernel, probably rdma_rxe");
	advise("packets from other hosts do not arrive here: as root, 'rmmod rdma_rxe'; traffic "
	       "within this host does not need the port");
}

void check_port(void)
{
	struct holder holders[HOLDERS_MAX];
	size_t count = read_holders(false, holders, 0);

	count = read_holders(true, holders, count);
	for (size_t i = 0; i < count; i++)
		report_holder(&holders[i]);
	if (!count)
		report(VERDICT_OK, "UDP port 4791", "free");
}
