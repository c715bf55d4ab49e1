/* SPDX-License-Identifier: BSD-2-Clause */
/* A game of one QP on each side, from the command line to the exit status: RC, UC and UD. */
#ifndef UTILS_DUEL_H
#define UTILS_DUEL_H

#include "options.h"

int pp_duel(const struct pp_program *program, enum ibv_qp_type type, int argc, char **argv);

#endif
