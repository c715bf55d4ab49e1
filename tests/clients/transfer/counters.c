/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that explain missing messages: those of the kernel's UDP, and those of the device.
 *
 * The device's are asked for through the library's private table; where libibverbs is another one
 * they are files, one number each, in hw_counters of the device's port in sysfs.
 */
#include "counters.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/engine_table.h"

enum { COUNTERS_MAX = 256, NAME_SIZE = 64 };
#define DEVICE "device "

struct counter {
	char name[NAME_SIZE];
	uint64_t value;
};

struct counters {
	struct counter counter[COUNTERS_MAX];
	unsigned count;
};

static struct counters before;

static void add(struct counters *all, const char *group, const char *name, uint64_t value)
{
	if (all->count == COUNTERS_MAX)
		return;
	struct counter *counter = &all->counter[all->count++];

	snprintf(counter->name, sizeof(counter->name), "%s%.40s", group, name);
	counter->value = value;
}

/* Two lines, names and numbers: "Udp: InDatagrams ..." */
static void read_udp4(struct counters *all)
{
	FILE *file = fopen("/proc/net/snmp", "re");
	char names[1024], values[1024], *name_at, *value_at;

	while (file && fgets(names, sizeof(names), file)) {
		if (strncmp(names, "Udp: ", 5) || !fgets(values, sizeof(values), file))
			continue;
		char *name = strtok_r(names + 5, " \n", &name_at);
		char *value = strtok_r(values + 5, " \n", &value_at);

		for (; name && value; name = strtok_r(NULL, " \n", &name_at),
				      value = strtok_r(NULL, " \n", &value_at))
			add(all, "Udp", name, strtoull(value, NULL, 10));
		break;
	}
	if (file)
		fclose(file);
}

static void read_udp6(struct counters *all)
{
	FILE *file = fopen("/proc/net/snmp6", "re");
	char name[64];
	unsigned long long value;

	while (file && fscanf(file, "%63s %llu", name, &value) == 2)
		if (!strncmp(name, "Udp6", 4))
			add(all, "", name, value);
	if (file)
		fclose(file);
}

static const struct vb_engine_table *engine_table(void)
{
	const struct vb_engine_table *(*engine)(unsigned) = NULL;
	void *symbol = dlsym(RTLD_DEFAULT, "verbena_engine");

	memcpy(&engine, &symbol, sizeof(engine));
	return engine ? engine(VB_ENGINE_TABLE_VERSION) : NULL;
}

static void add_device(void *arg, const char *name, uint64_t value)
{
	add(arg, DEVICE, name, value);
}

static void read_sysfs(struct counters *all, struct ibv_context *ctx)
{
	char folder[512], path[800];
	struct dirent *entry;

	snprintf(folder, sizeof(folder), "%s/ports/1/hw_counters", ctx->device->ibdev_path);
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		unsigned long long value;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");

		if (file && fscanf(file, "%llu", &value) == 1)
			add(all, DEVICE, entry->d_name, value);
		if (file)
			fclose(file);
	}
	if (dir)
		closedir(dir);
}

static void read_device(struct counters *all, struct ibv_context *ctx)
{
	const struct vb_engine_table *table = engine_table();

	if (table)
		table->counters_each(add_device, all);
	else
		read_sysfs(all, ctx);
}

static void read_all(struct counters *all, struct ibv_context *ctx)
{
	all->count = 0;
	read_udp4(all);
	read_udp6(all);
	read_device(all, ctx);
}

void counters_begin(struct ibv_context *ctx)
{
	read_all(&before, ctx);
}

static uint64_t value_before(const char *name)
{
	for (unsigned i = 0; i < before.count; i++)
		if (!strcmp(before.counter[i].name, name))
			return before.counter[i].value;
	return 0;
}

void counters_explain_missing(struct ibv_context *ctx, FILE *file)
{
	static struct counters now;

	read_all(&now, ctx);
	for (unsigned i = 0; i < now.count; i++) {
		uint64_t moved = now.counter[i].value - value_before(now.counter[i].name);

		if (moved)
			fprintf(file, "#   %s %llu\n", now.counter[i].name,
				(unsigned long long)moved);
	}
}

/* --- what they add up to --- */

/* Names of which each count is a message or less: a packet, or a message, that was not taken. */
static const char *const losses_in[] = {
	DEVICE "rcvd_overrun_err", DEVICE "rcvd_oversized_err", DEVICE "slot_refused_err",
	DEVICE "forward_lost_err", DEVICE "duplicate_request",  DEVICE "dropped_malformed",
	DEVICE "dropped_icrc",     DEVICE "dropped_qp_state",   DEVICE "dropped_sequence",
	DEVICE "dropped_length",   DEVICE "dropped_no_receive", DEVICE "dropped_access",
	"UdpInCsumErrors",         "Udp6InCsumErrors",
};
static const char *const losses_out[] = {
	DEVICE "send_err",
	DEVICE "send_too_big_err",
	DEVICE "forward_lost_err",
	DEVICE "memory_full_err",
};

static uint64_t moved_of(const struct counters *now, const char *name)
{
	for (unsigned i = 0; i < now->count; i++)
		if (!strcmp(now->counter[i].name, name))
			return now->counter[i].value - value_before(name);
	return 0;
}

bool counters_counted(struct ibv_context *ctx, struct counted *counted)
{
	static struct counters now;
	uint64_t messages;

	*counted = (struct counted){ 0 };
	if (!engine_table())
		return false;
	read_all(&now, ctx);
	for (unsigned i = 0; i < sizeof(losses_in) / sizeof(*losses_in); i++)
		counted->dropped_in += moved_of(&now, losses_in[i]);
	for (unsigned i = 0; i < sizeof(losses_out) / sizeof(*losses_out); i++)
		counted->lost_out += moved_of(&now, losses_out[i]);
	/* The wire counts those by reason as well; the local path does not. */
	messages = moved_of(&now, DEVICE "dropped_messages");
	if (messages > counted->dropped_in)
		counted->dropped_in = messages;
	return true;
}
