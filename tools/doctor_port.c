/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds the UDP port of RoCEv2. */
#include "base/udp_table.h"
#include "doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROCE_PORT = 4791, HOLDERS_MAX = 64 };

static size_t read_holders(bool ipv6, struct vb_udp_socket *holders, size_t count)
{
	struct vb_udp_table table;

	if (!vb_udp_table_open(&table, ipv6))
		return count;
	while (count < HOLDERS_MAX && vb_udp_table_next(&table, &holders[count]))
		count += holders[count].port == ROCE_PORT;
	vb_udp_table_close(&table);
	return count;
}

/* Only processes that we may look into; others' descriptors are hidden. */
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

/* The pid of a holder, 0 if it cannot be seen. */
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

/* Processes of one user share the port; for another user's its holder forwards packets. */
static void report_process(const struct vb_udp_socket *holder)
{
	/* As no process on Verbena holds it. */
	const bool everywhere = vb_udp_socket_is_everywhere(holder);
	const enum verdict verdict =
		holder->uid == geteuid() && !everywhere ? VERDICT_OK : VERDICT_WARN;
	const int pid = find_process(holder->inode);
	char name[64];

	if (pid) {
		process_name(pid, name, sizeof(name));
		report(verdict, "UDP port 4791", "held by process %d (%s) of user %u", pid, name,
		       holder->uid);
	} else {
		report(verdict, "UDP port 4791", "held by a process of user %u", holder->uid);
	}
	if (everywhere)
		advise("it is not Verbena: packets from other hosts do not arrive here; traffic within "
		       "this host does not need the port");
	else if (verdict == VERDICT_WARN)
		advise("packets from other hosts come through it, but only if it runs on Verbena; "
		       "traffic within this host does not need the port");
}

static void report_holder(const struct vb_udp_socket *holder)
{
	if (holder->inode) {
		report_process(holder);
		return;
	}
	report(VERDICT_WARN, "UDP port 4791", "held by the kernel, probably rdma_rxe");
	advise("packets from other hosts do not arrive here: as root, 'rmmod rdma_rxe'; traffic "
	       "within this host does not need the port");
}

void check_port(void)
{
	struct vb_udp_socket holders[HOLDERS_MAX];
	size_t count = read_holders(false, holders, 0);

	count = read_holders(true, holders, count);
	for (size_t i = 0; i < count; i++)
		report_holder(&holders[i]);
	if (!count)
		report(VERDICT_OK, "UDP port 4791", "free");
}
