/* SPDX-License-Identifier: BSD-2-Clause */
/* The names without the macros of the public header, and functions that the files share. */
#ifndef VB_LEGACY_LEGACY_H
#define VB_LEGACY_LEGACY_H

#define VERBENA_LEGACY_NO_MACROS
#include <stdbool.h>
#include <verbena/legacy.h>

#include "verbs/engine_table.h"

#define EXPORT __attribute__((visibility("default")))

/* Sets errno to err unless err is 0, and returns err. */
int legacy_result(int err);

/* The libibverbs beside this library; NULL: another one, which has no extended work requests. */
const struct vb_engine_table *legacy_engine(void);

/* The access flags of today; false: one has no meaning here. */
bool legacy_access(uint64_t exp_access, unsigned *access);

/* exp_umr.c: the list of a UMR request, which the caller frees. 0, or an error number. */
int legacy_umr(const struct ibv_exp_send_wr *wr, struct vb_umr **out);

#endif
