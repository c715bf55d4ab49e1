/* SPDX-License-Identifier: BSD-2-Clause */
#include "leftover.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ORPHAN_LOOKS = 30, ORPHAN_PAUSE_US = 100000 };

static uint32_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	uint32_t count = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 3; /* ".", ".." and the directory itself */
}

static uint32_t count_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	uint32_t count = 0;

	for (int c; file && (c = getc(file)) != EOF;)
		count += c == '\n';
	if (file)
		fclose(file);
	return count;
}

static uint64_t rss_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size = 0, resident = 0;

	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

struct holdings holdings_now(void)
{
	return (struct holdings){ .fds = count_entries("/proc/self/fd"),
				  .maps = count_lines("/proc/self/maps"),
				  .rss_kb = rss_kb() };
}

typedef bool (*visit)(const char *pid, const void *wanted);

static bool any_process(visit visitor, const void *wanted)
{
	DIR *dir = opendir("/proc");
	bool found = false;

	for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
		if (isdigit((unsigned char)entry->d_name[0]))
			found = visitor(entry->d_name, wanted);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool maps_file(const char *pid, const void *wanted)
{
	char path[64], line[512];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%.16s/maps", pid);
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, wanted) != NULL;
	if (file)
		fclose(file);
	return found;
}

unsigned leftover_shm(time_t since)
{
	DIR *dir = opendir("/dev/shm");
	unsigned count = 0;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[300];
		struct stat st;

		snprintf(path, sizeof(path), "/dev/shm/%s", entry->d_name);
		if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		    st.st_ctime < since || any_process(maps_file, path))
			continue;
		fprintf(stderr, "# left behind: %s\n", path);
		count++;
	}
	if (dir)
		closedir(dir);
	return count;
}

/* A process whose fds this user may not see may be the holder: then nothing is proven. */
static bool holds_socket(const char *pid, const void *wanted)
{
	char path[64], link[300], target[64];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return access(path, F_OK) == 0;
	for (struct dirent *entry; !found && (entry = readdir(dir));) {
		snprintf(link, sizeof(link), "%s/%.200s", path, entry->d_name);
		ssize_t length = readlink(link, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = 0;
		found = !strcmp(target, wanted);
	}
	closedir(dir);
	return found;
}

static unsigned count_orphans(bool say)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], name[256], wanted[64];
	unsigned long inode;
	unsigned count = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %255s", &inode, name) != 2 ||
		    strncmp(name, "@verbena", 8))
			continue;
		snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
		if (any_process(holds_socket, wanted))
			continue;
		if (say)
			fprintf(stderr, "# left behind: socket %s\n", name);
		count++;
	}
	if (file)
		fclose(file);
	return count;
}

/*
 * Other programs may be starting, ending or about to accept a connection at this moment: what is
 * really left behind is still there after many looks.
 */
unsigned leftover_sockets(void)
{
	for (unsigned look = 0; look < ORPHAN_LOOKS; look++) {
		if (!count_orphans(false))
			return 0;
		usleep(ORPHAN_PAUSE_US);
	}
	return count_orphans(true);
}
