/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs keep the file of a counter open and read it again from the start. A kernel then makes
 * the text anew. Here the library writes the nameless file behind the descriptor again.
 */
#ifndef VB_SYSFS_REREAD_H
#define VB_SYSFS_REREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { VB_REREAD_FDS = 1024, VB_REREAD_WORD = 64 };

/* Descriptors that may be of such files, or of MADs (umad.h). */
extern _Atomic uint64_t vb_reread_suspects[VB_REREAD_FDS / VB_REREAD_WORD]
	__attribute__((visibility("hidden")));

/* Every read and write of the program looks at one bit. */
static inline bool vb_reread_is_suspect(int fd)
{
	return (unsigned)fd < VB_REREAD_FDS &&
	       atomic_load_explicit(&vb_reread_suspects[fd / VB_REREAD_WORD],
				    memory_order_relaxed) >>
			       fd % VB_REREAD_WORD &
		       1;
}

/* Sets the bit. Higher descriptors have none. */
void vb_reread_suspect(int fd);

/* fd is open for the counter at path, in the tree. */
void vb_reread_watch(int fd, const char *path);

#endif
