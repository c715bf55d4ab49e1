/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs worlds by their seeds:
 *
 *   SIM [--seed S] [--worlds N] [--seconds T] [-v]   one line per world that fails, and a summary
 *   SIM --tap [--seeds FILE] [--seed S] [--worlds N] one test per batch of worlds; those of FILE,
 *                                                    which failed once, come first
 *   SIM --lanes N ...                                so many lanes per host, where hosts have lanes
 *   SIM --self-check                                 does the oracle notice what is wrong?
 */
#ifndef VB_TESTS_SIM_DRIVER_H
#define VB_TESTS_SIM_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver {
	unsigned batch;
	/* False: it failed, and failure says why. */
	bool (*run)(uint64_t seed, bool verbose, char *failure, size_t size);
	/* Each line begins with prefix. */
	void (*summary)(const char *prefix, unsigned failures, double took_s);
	/* TAP; returns how many failed. NULL: there is none. */
	unsigned (*self_check)(void);
	/* So many lanes per host. NULL: hosts have none. */
	void (*lanes)(unsigned count);
};

/* What main returns. */
int driver_main(int argc, char **argv, const struct driver *driver);

#endif
