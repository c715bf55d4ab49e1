/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds memory that two processes share: compares their mappings, as the kernel lists them. */
#include "nic/import_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mapping {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	bool shared, writable;
};

static bool read_line(const char *line, struct mapping *out)
{
	char rights[5] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &out->start,
		   &out->end, rights, &out->offset, &out->major, &out->minor, &out->inode) != 7)
		return false;
	out->writable = rights[1] == 'w';
	out->shared = rights[3] == 's';
	return true;
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->major == b->major && a->minor == b->minor && a->inode == b->inode;
}

/* Mappings that lie side by side, in memory and in the file, count as one. */
static bool continues(const struct mapping *before, const struct mapping *next)
{
	return next->start == before->end && same_file(before, next) &&
	       next->shared == before->shared && next->writable == before->writable &&
	       next->offset == before->offset + (before->end - before->start);
}

typedef bool (*wanted_fn)(const struct mapping *mapping, const void *arg);

/* The first wanted stretch among the mappings of a process. */
static bool find_mapping(const char *path, wanted_fn wanted, const void *arg, struct mapping *found)
{
	FILE *maps = fopen(path, "re");
	char line[512];
	bool any = false, got = false;

	if (!maps)
		return false;
	while (!got && fgets(line, sizeof(line), maps)) {
		struct mapping next = { 0 };

		if (!read_line(line, &next))
			continue; /* the rest of a long name */
		if (any && continues(found, &next))
			found->end = next.end;
		else
			*found = next;
		any = true;
		got = wanted(found, arg);
	}
	fclose(maps);
	return got;
}

struct range {
	uint64_t addr, length;
};

static bool covers_range(const struct mapping *mapping, const void *arg)
{
	const struct range *range = arg;

	return mapping->start <= range->addr && mapping->end >= range->addr + range->length;
}

struct part { /* of a file */
	struct mapping of;
	uint64_t offset, length;
	bool write;
};

static bool covers_part(const struct mapping *mapping, const void *arg)
{
	const struct part *part = arg;

	return mapping->shared && (mapping->writable || !part->write) &&
	       same_file(mapping, &part->of) && mapping->offset <= part->offset &&
	       mapping->offset + (mapping->end - mapping->start) >= part->offset + part->length;
}

int vb_import_locate(pid_t pid, uint64_t addr, uint64_t length, bool write, uint64_t *here)
{
	struct range range = { addr, length };
	struct part part = { .length = length, .write = write };
	struct mapping own = { 0 };
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	if (!find_mapping(path, covers_range, &range, &part.of) || !part.of.shared ||
	    !part.of.inode)
		return -EOPNOTSUPP;
	part.offset = part.of.offset + (addr - part.of.start);
	if (!find_mapping("/proc/self/maps", covers_part, &part, &own))
		return -EOPNOTSUPP;
	*here = own.start + (part.offset - own.offset);
	return 0;
}
