/* SPDX-License-Identifier: BSD-2-Clause */
/* What every target has: the entry that libFuzzer and driver.c call, and a check that aborts. */
#ifndef VB_TESTS_FUZZ_FUZZ_H
#define VB_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define fuzz_check(condition)                                                                   \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                \
		}                                                                               \
	} while (0)

#endif
