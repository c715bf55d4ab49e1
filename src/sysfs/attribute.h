/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of one device and their text. Names are relative to the directory of the adapter,
 * /sys/devices/virtual/verbena/<device>. The classes link to its subdirectories:
 * infiniband/<device>, infiniband_verbs/<uverbs>, infiniband_mad/<umad, issm>.
 */
#ifndef VB_SYSFS_ATTRIBUTE_H
#define VB_SYSFS_ATTRIBUTE_H

#include <stddef.h>

#include "sysfs/adapter.h"

enum { VB_ATTRIBUTE_SIZE = 256, VB_ATTRIBUTE_NAME_SIZE = 256 };

/* The major and the first minor that the kernel gives to these devices, and their interface. */
enum { VB_UVERBS_MAJOR = 231, VB_UVERBS_MINOR = 192, VB_UVERBS_ABI = 1, VB_ISSM_MINOR = 64 };

struct vb_attribute_text {
	int length; /* or -errno: reading fails, as in a real kernel; -ENOENT: no such file */
	bool own;   /* a counter of this process; other processes have other values */
	char text[VB_ATTRIBUTE_SIZE];
};

/* Calls each for every file, until a call does not return 0. Returns that value, or 0. */
int vb_attribute_each(const struct vb_adapter *adapter,
		      int (*each)(const char *name, const struct vb_attribute_text *text,
				  void *arg),
		      void *arg);

/* text->length is -ENOENT if there is no such file. */
void vb_attribute_read(const struct vb_adapter *adapter, const char *name,
		       struct vb_attribute_text *text);

#endif
