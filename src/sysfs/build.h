/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree in the file system: sys/class/..., sys/devices/virtual/verbena/..., dev/infiniband. */
#ifndef VB_SYSFS_BUILD_H
#define VB_SYSFS_BUILD_H

#include "sysfs/attribute.h"

/* Makes everything below the directory. 0 or -errno. */
int vb_build(int root_fd);

/* Brings every file up to date, but not those that count what one process did. */
void vb_build_refresh(int root_fd);

/*
 * What is to be read in the file, now. path is relative to the root and free of links;
 * text->length is -ENOENT if the file belongs to no device.
 */
void vb_build_read(const char *path, struct vb_attribute_text *text);

/* True if the file says something else. */
bool vb_build_differs(int root_fd, const char *path, const struct vb_attribute_text *text);
/* Replaced as a whole, for those who read it meanwhile. */
void vb_build_replace(int root_fd, const char *path, const struct vb_attribute_text *text);

/* A number that differs between trees that must not be shared. */
uint64_t vb_build_key(void);

#endif
