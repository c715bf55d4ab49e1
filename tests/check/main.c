/* SPDX-License-Identifier: BSD-2-Clause */
/* check-cases list | check-cases can-watch | check-cases wrong|right PAIR */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "cases.h"

static const struct pair *const tables[] = { buffer_pairs, memory_pairs, queue_pairs, section_pairs,
					     attribute_pairs };

static int run(const struct pair *pair, bool wrong)
{
	struct rig rig = { 0 };

	rig_open(&rig);
	(wrong ? pair->wrong : pair->right)(&rig);
	rig_close(&rig);
	return 0;
}

/* As the rule recv-used does it. */
static int cannot_watch(void)
{
	static uint64_t bytes;
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_BREAKPOINT,
					.bp_type = HW_BREAKPOINT_RW,
					.bp_addr = (uintptr_t)&bytes,
					.bp_len = sizeof(bytes),
					.sample_period = 1,
					.exclude_kernel = 1,
					.exclude_hv = 1,
					.sigtrap = 1,
					.remove_on_exec = 1 };

#if defined(__x86_64__)
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0;
#else
	(void)attr;
	return 1;
#endif
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "can-watch"))
		return cannot_watch();
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct pair *pair = tables[i]; pair->name; pair++) {
			if (argc == 2 && !strcmp(argv[1], "list"))
				puts(pair->name);
			else if (argc == 3 && !strcmp(argv[2], pair->name))
				return run(pair, !strcmp(argv[1], "wrong"));
		}
	return argc == 2 ? 0 : 2;
}
