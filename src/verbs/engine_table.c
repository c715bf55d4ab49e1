/* SPDX-License-Identifier: BSD-2-Clause */
/* The one symbol that librdmacm uses beyond the public ones: the engine, as a versioned table. */
#include "verbs/engine_table.h"
#include "engine/counters.h"
#include "verbs/symver.h"

#include <stddef.h>

static void counters_each(vb_counters_each_fn each, void *arg)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic)
		vb_counters_each(nic, each, arg);
}

static const struct vb_engine_table table = {
	.version = VB_ENGINE_TABLE_VERSION,
	.release = VERBENA_VERSION,
	.counters_each = counters_each,
};

VB_PUBLIC const struct vb_engine_table *verbena_engine(unsigned version)
{
	return version == table.version ? &table : NULL;
}
