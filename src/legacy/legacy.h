/* SPDX-License-Identifier: BSD-2-Clause */
/* Within libverbena-legacy: the names as they are, and what its files share. */
#ifndef VB_LEGACY_LEGACY_H
#define VB_LEGACY_LEGACY_H

#define VERBENA_LEGACY_NO_MACROS
#include <verbena/legacy.h>

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

/* errno is set to err; returned as these calls do. */
int legacy_result(int err);

/* --- masked.c --- */

/* The QP may be used for masked atomics; each may take so many slots. An error number, or 0. */
int masked_adopt(struct ibv_qp *qp, unsigned slots);
/* Executes a masked atomic: 0, or an error number before anything was changed. */
int masked_post(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr);
/* The QP goes: what it needed for masked atomics goes, too. */
void masked_forget(struct ibv_qp *qp);

#endif
