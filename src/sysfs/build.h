/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree in the file system: sys/class/..., sys/devices/virtual/verbena/..., dev/infiniband. */
#ifndef VB_SYSFS_BUILD_H
#define VB_SYSFS_BUILD_H

#include "sysfs/attribute.h"

/* Makes the whole tree in the directory. 0 or -errno. */
int vb_build(int root_fd);

/* Updates every file but the counters of a process. */
void vb_build_refresh(int root_fd);

/*
 * The present text of a file. path is relative to the root and has no links. text->length is
 * -ENOENT if the file belongs to no device.
 */
void vb_build_read(const char *path, struct vb_attribute_text *text);

/* Does the file have another text? */
bool vb_build_differs(int root_fd, const char *path, const struct vb_attribute_text *text);
/* Replaces the file as a whole, so that no reader sees a part of it. */
void vb_build_replace(int root_fd, const char *path, const struct vb_attribute_text *text);

/* A key of the tree: processes with different keys must not share a tree. */
uint64_t vb_build_key(void);

#endif
