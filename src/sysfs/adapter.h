/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices, as the public calls of the libibverbs beside this library describe them. */
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
	char netdev[IF_NAMESIZE]; /* empty: its first GID has no interface */
	struct ibv_device_attr attr;
	struct ibv_port_attr port; /* port_cap_flags2 and later members are zero */
};

/* So that libibverbs, if it can be had, has registered for fork; the other calls do it as well. */
void vb_adapter_load(void);

/* The engine; NULL: libibverbs cannot be loaded. */
struct vb_engine_table;
const struct vb_engine_table *vb_adapter_engine(void);

/*
 * Opens every device and calls each, until a call does not return 0. Returns that value, 0, or
 * -ENODEV: libibverbs cannot be loaded.
 */
int vb_adapter_each(int (*each)(const struct vb_adapter *adapter, void *arg), void *arg);
/* Likewise for the names of the system's devices, where VERBENA_DEVICES asks for them. */
int vb_adapter_each_system(int (*each)(const char *name, void *arg), void *arg);

/* The GID is zero if the index is empty. */
void vb_adapter_gid(const struct vb_adapter *adapter, unsigned index, union ibv_gid *gid);
/* 0, or -ENODATA: the index is empty. */
int vb_adapter_gid_entry(const struct vb_adapter *adapter, unsigned index,
			 struct ibv_gid_entry *entry);
int vb_adapter_pkey(const struct vb_adapter *adapter, unsigned index, uint16_t *pkey);

/* Calls each for every counter of this process. */
void vb_adapter_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg);

/* Has the program itself loaded libibverbs? Then its counters may change. */
bool vb_adapter_in_use(void);

/* The release of the libraries; "": libibverbs cannot be loaded. */
const char *vb_adapter_release(void);

#endif
