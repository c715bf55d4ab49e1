/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_ENGINE_TABLE_H
#define VB_VERBS_ENGINE_TABLE_H

#include <stdint.h>

enum { VB_ENGINE_TABLE_VERSION = 2 };

struct vb_engine_table {
	unsigned version;
	const char *release; /* of the library: both come from one build */
	/* Every counter of this process (engine/counters.h); none before a device was opened. */
	void (*counters_each)(void (*each)(void *arg, const char *name, uint64_t value), void *arg);
};

/* NULL: this libibverbs.so.1 speaks another version of the table. */
const struct vb_engine_table *verbena_engine(unsigned version);

#endif
