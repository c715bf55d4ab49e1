/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/adapter.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/engine_table.h"

#undef ibv_get_device_list
#undef ibv_query_port

/* Pointers, because a reference by name would load libibverbs into every program. */
/* clang-format off */
#define CALLS(X) \
	X(ibv_get_device_list) X(ibv_free_device_list) X(ibv_open_device) X(ibv_close_device) \
	X(ibv_query_device) X(ibv_query_port) X(ibv_query_gid) X(_ibv_query_gid_ex) \
	X(ibv_query_pkey) X(verbena_engine)
/* clang-format on */

#define MEMBER(name) __typeof__(name) *name;
static struct {
	CALLS(MEMBER)
} calls;
#undef MEMBER

static bool loaded; /* load_library writes it once */
static bool in_use; /* likewise */

/* The libibverbs beside this file, whatever the library path says: it has Verbena's devices. */
static void *open_library(void)
{
	char path[4096];
	const char *slash;
	Dl_info self;

	if (!dladdr(&loaded, &self) || !self.dli_fname)
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	if (!slash ||
	    (size_t)snprintf(path, sizeof(path), "%.*s/libibverbs.so.1",
			     (int)(slash - self.dli_fname), self.dli_fname) >= sizeof(path))
		return NULL;
	in_use = dlopen(path, RTLD_LAZY | RTLD_NOLOAD) != NULL;
	return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

static void load_library(void)
{
	void *library = open_library();

	if (!library)
		return;
	loaded = true;
#define FIND(name)                                              \
	calls.name = (__typeof__(name) *)dlsym(library, #name); \
	loaded &= calls.name != NULL;
	CALLS(FIND)
#undef FIND
}

static bool is_loaded(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_library);
	return loaded;
}

bool vb_adapter_in_use(void)
{
	return is_loaded() && in_use;
}

const struct vb_engine_table *vb_adapter_engine(void)
{
	return is_loaded() ? calls.verbena_engine(VB_ENGINE_TABLE_VERSION) : NULL;
}

void vb_adapter_load(void)
{
	vb_adapter_engine();
}

const char *vb_adapter_release(void)
{
	const struct vb_engine_table *table = vb_adapter_engine();

	return table ? table->release : "";
}

void vb_adapter_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct vb_engine_table *table = vb_adapter_engine();

	if (table)
		table->counters_each(each, arg);
}

/* --- one device --- */

void vb_adapter_gid(const struct vb_adapter *adapter, unsigned index, union ibv_gid *gid)
{
	if (calls.ibv_query_gid(adapter->context, 1, (int)index, gid))
		memset(gid, 0, sizeof(*gid));
}

int vb_adapter_gid_entry(const struct vb_adapter *adapter, unsigned index,
			 struct ibv_gid_entry *entry)
{
	return -calls._ibv_query_gid_ex(adapter->context, 1, index, entry, 0, sizeof(*entry));
}

int vb_adapter_pkey(const struct vb_adapter *adapter, unsigned index, uint16_t *pkey)
{
	__be16 value;

	if (calls.ibv_query_pkey(adapter->context, 1, (int)index, &value))
		return -EINVAL;
	*pkey = ntohs(value);
	return 0;
}

static int describe_device(struct vb_adapter *adapter, const struct ibv_device *device)
{
	struct ibv_gid_entry entry;

	snprintf(adapter->name, sizeof(adapter->name), "%s", device->name);
	snprintf(adapter->uverbs, sizeof(adapter->uverbs), "%s", device->dev_name);
	if (calls.ibv_query_device(adapter->context, &adapter->attr) ||
	    calls.ibv_query_port(adapter->context, 1, (void *)&adapter->port))
		return -ENODEV;
	if (vb_adapter_gid_entry(adapter, 0, &entry) || !entry.ndev_ifindex ||
	    !if_indextoname(entry.ndev_ifindex, adapter->netdev))
		adapter->netdev[0] = '\0';
	return 0;
}

static bool is_systems(const struct ibv_device *device)
{
	const struct vb_engine_table *table = vb_adapter_engine();

	return table && table->system_device(device);
}

int vb_adapter_each(int (*each)(const struct vb_adapter *adapter, void *arg), void *arg)
{
	struct ibv_device **list = is_loaded() ? calls.ibv_get_device_list(NULL) : NULL;
	int result = list ? 0 : -ENODEV;

	/* The system's devices follow ours, and the kernel shows them itself. */
	for (unsigned i = 0; !result && list[i] && !is_systems(list[i]); i++) {
		struct vb_adapter adapter = { .index = i };

		/* The device is closed at once: the program's process keeps no context of ours. */
		adapter.context = calls.ibv_open_device(list[i]);
		if (!adapter.context)
			result = -ENODEV;
		else if (!(result = describe_device(&adapter, list[i])))
			result = each(&adapter, arg);
		if (adapter.context)
			calls.ibv_close_device(adapter.context);
	}
	if (list)
		calls.ibv_free_device_list(list);
	return result;
}

int vb_adapter_each_system(int (*each)(const char *name, void *arg), void *arg)
{
	struct ibv_device **list = is_loaded() ? calls.ibv_get_device_list(NULL) : NULL;
	int result = 0;

	for (unsigned i = 0; list && !result && list[i]; i++)
		if (is_systems(list[i]))
			result = each(list[i]->name, arg);
	if (list)
		calls.ibv_free_device_list(list);
	return result;
}
