/* SPDX-License-Identifier: BSD-2-Clause */
/* The one symbol that librdmacm uses beyond the public ones: the engine, as a versioned table. */
#include "verbs/engine_table.h"
#include "verbs/symver.h"

#include <stddef.h>

static const struct vb_engine_table table = {
	.version = VB_ENGINE_TABLE_VERSION,
	.release = VERBENA_VERSION,
};

VB_PUBLIC const struct vb_engine_table *verbena_engine(unsigned version)
{
	return version == table.version ? &table : NULL;
}
