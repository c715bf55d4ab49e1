/* SPDX-License-Identifier: BSD-2-Clause */
/* Every way in which a program opens a file, or asks about one. The last of a table has no name. */
#ifndef TESTS_SYSFS_WAYS_H
#define TESTS_SYSFS_WAYS_H

#include <sys/types.h>

struct opener {
	const char *name;
	int (*open)(const char *path);
};

struct looker {
	const char *name;
	int (*look)(const char *path, mode_t *mode);
};

extern const struct opener openers[];
extern const struct looker lookers[];

#endif
