/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that holds a slot and takes no connections, because it is stopped: /proc shows the
 * owner of the socket.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/attach/why_words.h"

/* The inode of the socket with this slot's name; 0: there is none. */
static unsigned long slot_inode(unsigned slot)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], name[32];
	unsigned long inode = 0, found;
	const size_t length = (size_t)snprintf(name, sizeof(name), "@verbena.%u", slot);

	while (file && !inode && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, name);

		/* Own slots have a random number behind a dot. */
		if (at && (at[length] == '\n' || at[length] == '.') &&
		    sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &found) == 1)
			inode = found;
	}
	if (file)
		fclose(file);
	return inode;
}

static bool has_socket(const char *pid, const char *socket)
{
	char path[300], target[64];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%.16s/fd/%.200s", pid, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		found = !strcmp(target, socket);
	}
	if (folder)
		closedir(folder);
	return found;
}

pid_t vb_why_holder(unsigned slot)
{
	const unsigned long inode = slot_inode(slot);
	DIR *folder = inode ? opendir("/proc") : NULL;
	struct dirent *entry;
	char socket[64];
	pid_t pid = 0;

	snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
	while (folder && !pid && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]) && has_socket(entry->d_name, socket))
			pid = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return pid;
}
