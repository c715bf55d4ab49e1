/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices as the libibverbs beside this library describes them, through its public calls. */
#ifndef VB_SYSFS_ADAPTER_H
#define VB_SYSFS_ADAPTER_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct vb_adapter {
	struct ibv_context *context;
	unsigned index;
	char name[IBV_SYSFS_NAME_MAX];
	char uverbs[IBV_SYSFS_NAME_MAX];
	char netdev[IF_NAMESIZE]; /* empty: no interface belongs to its GIDs */
	struct ibv_device_attr attr;
	struct ibv_port_attr port; /* what port_cap_flags2 and later would hold is zero */
};

/* So that libibverbs, if it can be had, has registered for fork; the other calls do it as well. */
void vb_adapter_load(void);

/*
 * Calls each for every device, opened, until one call does not return 0. Returns that, or 0,
 * or -ENODEV where libibverbs cannot be had.
 */
int vb_adapter_each(int (*each)(const struct vb_adapter *adapter, void *arg), void *arg);

/* A zero GID where the index is empty. */
void vb_adapter_gid(const struct vb_adapter *adapter, unsigned index, union ibv_gid *gid);
/* 0, or -ENODATA where the index is empty. */
int vb_adapter_gid_entry(const struct vb_adapter *adapter, unsigned index,
			 struct ibv_gid_entry *entry);
int vb_adapter_pkey(const struct vb_adapter *adapter, unsigned index, uint16_t *pkey);

/* Every counter of this process. */
void vb_adapter_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

/* The program itself has loaded libibverbs: its counters may change. */
bool vb_adapter_in_use(void);

/* The release of the libraries, and "" where libibverbs cannot be had. */
const char *vb_adapter_release(void);

#endif
