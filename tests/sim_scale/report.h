/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of several courses of a scenario, as a row of the table and of a file for a plot. */
#ifndef VB_TESTS_SIM_SCALE_REPORT_H
#define VB_TESTS_SIM_SCALE_REPORT_H

#include <stdio.h>

#include "scale.h"

struct result {
	struct scenario scenario;
	unsigned courses;
	struct figures worst; /* share and fairness: the lowest; recover_us: the longest */
	struct figures sum;   /* of all other figures */
};

void result_add(struct result *result, const struct scenario *scenario,
		const struct figures *figures);
void report_head(FILE *out);
void report_row(FILE *out, const struct result *result, enum rules rules);
/* Comma-separated values. */
void report_csv_head(FILE *out);
void report_csv_row(FILE *out, const struct result *result, enum rules rules);

#endif
