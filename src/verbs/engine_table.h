/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_ENGINE_TABLE_H
#define VB_VERBS_ENGINE_TABLE_H

enum { VB_ENGINE_TABLE_VERSION = 1 };

struct vb_engine_table {
	unsigned version;
	const char *release; /* of the library: both come from one build */
};

/* NULL: this libibverbs.so.1 speaks another version of the table. */
const struct vb_engine_table *verbena_engine(unsigned version);

#endif
