/* SPDX-License-Identifier: BSD-2-Clause */
/* The way to the engine: only a libibverbs of the same build has it. */
#include <errno.h>

#include "legacy.h"

#pragma weak verbena_engine

int legacy_result(int err)
{
	if (err)
		errno = err;
	return err;
}

const struct vb_engine_table *legacy_engine(void)
{
	return verbena_engine ? verbena_engine(VB_ENGINE_TABLE_VERSION) : NULL;
}
