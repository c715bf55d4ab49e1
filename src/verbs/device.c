/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls that list devices and ask about them. */
#include "nic/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "abi/verbs.h"
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "nic/fact.h"
#include "nic/pkey.h"
#include "nic/qp.h"
#include "system/forward.h"
#include "verbs/ops.h"

#undef ibv_get_device_list
#undef ibv_query_port

/* The size that programs were linked with before port_cap_flags2 was appended. */
enum { COMPAT_PORT_ATTR_SIZE = offsetof(struct ibv_port_attr, port_cap_flags2) };
static_assert(COMPAT_PORT_ATTR_SIZE == 48, "ibv_query_port@IBVERBS_1.1");

/* A field that newer headers append. */
enum { SPEED_EX_OFFSET = 52 };
union wide_port_attr {
	struct ibv_port_attr attr;
	char room[SPEED_EX_OFFSET + sizeof(uint32_t)]; /* active_speed_ex is the last */
};

static struct vb_device *device_of(const struct ibv_context *context)
{
	return (struct vb_device *)context->device;
}

/* Copies the bytes that the caller's layout has room for. Further bytes of the caller are zero. */
static void copy_sized(void *to, size_t to_size, const void *from, size_t from_size)
{
	const size_t common = to_size < from_size ? to_size : from_size;

	memcpy(to, from, common);
	memset((char *)to + common, 0, to_size - common);
	vb_tell_filled(to, to_size);
}

/* --- the list --- */

VB_PUBLIC struct ibv_device **ibv_get_device_list(int *num_devices)
{
	VB_NO_CANCEL;
	struct ibv_device *system[VB_SYSTEM_DEVICES_MAX];
	struct vb_device *const *table;
	const int own = vb_device_table(&table), count = own + vb_system_devices(system);
	struct ibv_device **list = calloc((size_t)count + 1, sizeof(*list));

	vb_tools_find();
	if (num_devices) {
		*num_devices = list ? count : 0;
		vb_tell_filled(num_devices, sizeof(*num_devices));
	}
	if (!list)
		return vb_return_null(-ENOMEM);
	for (int i = 0; i < count; i++)
		list[i] = i < own ? &table[i]->ibv : system[i - own];
	return list;
}

/* The devices stay: programs go on using them, although they should not. */
VB_PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

VB_PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

VB_PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
	if (vb_system_knows_device(device))
		return vb_system_ibv_get_device_guid(device);
	return ((struct vb_device *)device)->guid;
}

/*
 * The index is a name in the kernel's NETLINK_RDMA, and programs ask there about it. The kernel
 * does not know the device. So the socket does not exist, or an index would name another device.
 */
VB_PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
	if (vb_system_knows_device(device))
		return vb_system_ibv_get_device_index(device);
	return -1;
}

/* --- device and port --- */

/* -EINVAL with an explanation: the device has one port. */
static int check_port(const char *call, uint32_t port_num)
{
	if (port_num == 1)
		return 0;
	vb_explain("%s: port_num %u: the device has port 1", call, port_num);
	return -EINVAL;
}

/* The same for an index of a table. */
static int check_index(const char *call, uint32_t port_num, int64_t index, uint64_t length)
{
	int err = check_port(call, port_num);

	if (err || (index >= 0 && (uint64_t)index < length))
		return err;
	vb_explain("%s: index %lld: the table has %llu entries", call, (long long)index,
		   (unsigned long long)length);
	return -EINVAL;
}

VB_PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_device, (context, attr));
	VB_NO_CANCEL;
	struct ibv_device_attr_ex all;

	vb_device_attr(device_of(context), &all);
	*attr = all.orig_attr;
	vb_tell_filled(attr, sizeof(*attr));
	return 0;
}

int vb_ops_query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	VB_NO_CANCEL;
	struct ibv_device_attr_ex all;

	if (input && input->comp_mask) {
		vb_explain("ibv_query_device_ex: comp_mask 0x%x of the input must be 0",
			   input->comp_mask);
		return vb_return_errno(-EINVAL);
	}
	vb_device_attr(device_of(context), &all);
	copy_sized(attr, size, &all, sizeof(all));
	return 0;
}

/* PortInfo has 16 bits for each count, which stay at their maximum (IBA 14.2.5.6). */
static uint32_t saturated(uint64_t count)
{
	return count < UINT16_MAX ? (uint32_t)count : UINT16_MAX;
}

static void fill_violations(const struct vb_device *dev, struct ibv_port_attr *attr)
{
	struct vb_nic *nic = vb_nic_current();
	const struct vb_violations count =
		nic ? vb_qps_violations(nic, dev) : (struct vb_violations){ 0 };

	attr->bad_pkey_cntr = saturated(count.pkey);
	attr->qkey_viol_cntr = saturated(count.qkey);
}

int vb_ops_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t size)
{
	VB_NO_CANCEL;
	const struct vb_device *dev = device_of(context);
	union wide_port_attr all = { .room = { 0 } };
	int err = check_port("ibv_query_port", port_num);

	if (!err)
		err = vb_device_port_attr(dev, port_num, &all.attr);
	if (!err) {
		const uint32_t speed = vb_device_link_rate(dev).speed;

		fill_violations(dev, &all.attr);
		memcpy(all.room + SPEED_EX_OFFSET, &speed, sizeof(speed));
		copy_sized(attr, size, &all, sizeof(all));
	}
	return vb_return_errno(err);
}

/* In units of 100 Mb/s. */
VB_PUBLIC int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_port_speed, (context, port_num, speed));
	VB_NO_CANCEL;

	if (check_port("ibv_query_port_speed", port_num))
		return vb_return_errno(-EINVAL);
	*speed = vb_device_mbps(device_of(context)) / 100;
	return 0;
}

VB_PUBLIC int ibv_query_port(struct ibv_context *context, uint8_t port_num,
			     struct _compat_ibv_port_attr *attr)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_port, (context, port_num, attr));
	VB_NO_CANCEL;

	return vb_ops_query_port(context, port_num, (struct ibv_port_attr *)attr,
				 COMPAT_PORT_ATTR_SIZE);
}

/* --- GIDs --- */

VB_PUBLIC int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
			    union ibv_gid *gid)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_gid, (context, port_num, index, gid));
	VB_NO_CANCEL;
	int err = check_index("ibv_query_gid", port_num, index, vb_fact(VB_FACT_GID_TBL_LEN));

	if (!err)
		err = vb_device_gid(device_of(context), index, gid);
	if (!err)
		vb_tell_filled(gid, sizeof(*gid));
	return vb_return_minus_one(err);
}

static int check_gid_query(const char *call, uint32_t flags, size_t entry_size)
{
	if (!flags && entry_size >= sizeof(struct ibv_gid_entry))
		return 0;
	vb_explain("%s: flags 0x%x must be 0, and an entry of %zu bytes has at least %zu", call,
		   flags, entry_size, sizeof(struct ibv_gid_entry));
	return -EINVAL;
}

VB_PUBLIC int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
				struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	VB_SYSTEM_PASS_CONTEXT(context, _ibv_query_gid_ex,
			       (context, port_num, gid_index, entry, flags, entry_size));
	VB_NO_CANCEL;
	struct ibv_gid_entry found;
	int err =
		check_index("ibv_query_gid_ex", port_num, gid_index, vb_fact(VB_FACT_GID_TBL_LEN));

	if (!err)
		err = check_gid_query("ibv_query_gid_ex", flags, entry_size);
	if (!err)
		err = vb_device_gid_entry(device_of(context), gid_index, &found);
	if (!err)
		copy_sized(entry, entry_size, &found, sizeof(found));
	return vb_return_errno(err);
}

VB_PUBLIC ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				       size_t max_entries, uint32_t flags, size_t entry_size)
{
	VB_SYSTEM_PASS_CONTEXT(context, _ibv_query_gid_table,
			       (context, entries, max_entries, flags, entry_size));
	VB_NO_CANCEL;
	char *next = (char *)entries;
	size_t count = 0;

	if (check_gid_query("ibv_query_gid_table", flags, entry_size))
		return vb_return_negative(-EINVAL);
	for (uint32_t index = 0; index < vb_fact(VB_FACT_GID_TBL_LEN); index++) {
		struct ibv_gid_entry found;

		if (vb_device_gid_entry(device_of(context), index, &found))
			continue;
		if (count == max_entries) {
			vb_explain("ibv_query_gid_table: there are more than max_entries %zu GIDs",
				   max_entries);
			return vb_return_negative(-EINVAL);
		}
		copy_sized(next, entry_size, &found, sizeof(found));
		next += entry_size;
		count++;
	}
	return (ssize_t)count;
}

/* An empty entry has the type of its neighbours: only the index can be wrong. */
int vb_verbs_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index, int *type)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_gid_type, (context, port_num, index, type));
	VB_NO_CANCEL;

	if (check_index("ibv_query_gid_type", port_num, index, vb_fact(VB_FACT_GID_TBL_LEN)))
		return vb_return_minus_one(-EINVAL);
	*type = device_of(context)->infiniband ? VB_GID_IB_OR_ROCE_V1 : VB_GID_ROCE_V2;
	vb_tell_filled(type, sizeof(*type));
	return 0;
}

/* --- P_Keys --- */

VB_PUBLIC int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_query_pkey, (context, port_num, index, pkey));
	VB_NO_CANCEL;

	if (check_index("ibv_query_pkey", port_num, index, vb_pkey_table_length()))
		return vb_return_minus_one(-EINVAL);
	*pkey = htons(vb_pkey_at((unsigned)index));
	vb_tell_filled(pkey, sizeof(*pkey));
	return 0;
}

VB_PUBLIC int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_get_pkey_index, (context, port_num, pkey));
	VB_NO_CANCEL;
	const int err = check_port("ibv_get_pkey_index", port_num);
	const int index = err ? err : vb_pkey_index(ntohs(pkey));

	if (!err && index < 0)
		vb_explain("ibv_get_pkey_index: the table has no P_Key 0x%04x", ntohs(pkey));
	return index < 0 ? vb_return_minus_one(index) : index;
}
