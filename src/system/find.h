/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the system's own libraries may lie. The loader's search is of no use: `verbena run` has put
 * Verbena's libraries first on its path.
 */
#ifndef VB_SYSTEM_FIND_H
#define VB_SYSTEM_FIND_H

#include <stdbool.h>

/*
 * Calls each(arg, path) for every file that may be the library, an absolute path, until it returns
 * true. In order: the directory of VERBENA_SYSTEM_LIBDIR, and no other if that is set; the cache of
 * ldconfig; the directory of the C library. Returns whether each() has.
 */
bool vb_system_find(const char *name, bool (*each)(void *arg, const char *path), void *arg);

#endif
