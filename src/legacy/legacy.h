/* SPDX-License-Identifier: BSD-2-Clause */
/* The names without the macros of the public header, and functions that the files share. */
#ifndef VB_LEGACY_LEGACY_H
#define VB_LEGACY_LEGACY_H

#define VERBENA_LEGACY_NO_MACROS
#include <stdbool.h>
#include <verbena/legacy.h>

#define EXPORT __attribute__((visibility("default")))

/* Sets errno to err unless err is 0, and returns err. */
int legacy_result(int err);

/* --- masked.c --- */

/* Allows masked atomics on the QP; each may take this many slots. An error number, or 0. */
int masked_adopt(struct ibv_qp *qp, unsigned slots);
/* Executes a masked atomic. 0, or an error number before any change of memory. */
int masked_post(struct ibv_qp *qp, const struct ibv_exp_send_wr *wr);
/* The QP is destroyed: frees what it needed for masked atomics. */
void masked_forget(struct ibv_qp *qp);

#endif
