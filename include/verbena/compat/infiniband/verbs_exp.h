/* SPDX-License-Identifier: BSD-2-Clause */
/* Where programs of their time look for the experimental verbs. */
#include <verbena/exp.h>
