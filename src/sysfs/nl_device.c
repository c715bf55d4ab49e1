/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of NETLINK_RDMA about devices, their ports, the system, and character devices. */
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

#include "sysfs/attribute.h"
#include "sysfs/nl_answer.h"

/* --- devices in messages --- */

void vb_nl_put_device(struct vb_nl_out *out, const struct vb_adapter *adapter)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_DEV_INDEX, adapter->index);
	vb_nl_put_string(out, RDMA_NLDEV_ATTR_DEV_NAME, adapter->name);
}

void vb_nl_begin(struct vb_nl_out *out, const struct vb_nl_request *request, unsigned command,
		 uint16_t flags)
{
	vb_nl_message_begin(out, (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags,
			    request->header->nlmsg_seq);
}

static int add_message(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out, unsigned command, uint16_t flags, vb_nl_fill *fill)
{
	int result;

	vb_nl_begin(out, request, command, flags);
	vb_nl_put_device(out, adapter);
	result = fill(adapter, request, out);
	vb_nl_message_end(out);
	return result;
}

/* In a dump a message that does not fit begins the next datagram. */
int vb_nl_device_message(const struct vb_adapter *adapter, struct vb_nl_request *request,
			 struct vb_nl_out *out, unsigned command, uint16_t flags, vb_nl_fill *fill)
{
	const size_t before = out->length;
	int result = add_message(adapter, request, out, command, flags, fill);

	if (!result && out->full && (flags & NLM_F_MULTI) && before > out->datagram + 4) {
		vb_nl_cut(out, before);
		vb_nl_datagram_end(out);
		vb_nl_datagram_begin(out, VB_NL_DATAGRAM_MAX);
		result = add_message(adapter, request, out, command, flags, fill);
	}
	if (!result && out->full)
		result = -EMSGSIZE;
	if (result)
		vb_nl_cut(out, before);
	return result;
}

/* --- choosing devices --- */

struct choice {
	struct vb_nl_request *request;
	struct vb_nl_out *out;
	vb_nl_fill *fill;
	bool all, found;
	uint32_t index;
	int result;
};

/* Port 0 stands for the device as a whole. */
static bool has_port(const struct vb_adapter *adapter, const struct vb_nl_request *request)
{
	uint32_t port;

	if (!vb_nl_request_has(request, RDMA_NLDEV_ATTR_PORT_INDEX))
		return true;
	port = vb_nl_request_u32(request, RDMA_NLDEV_ATTR_PORT_INDEX);
	return port >= 1 && port <= adapter->attr.phys_port_cnt;
}

static int try_device(const struct vb_adapter *adapter, void *arg)
{
	struct choice *choice = arg;

	if (!choice->all && adapter->index != choice->index)
		return 0;
	choice->found = true;
	choice->result = !choice->all && !has_port(adapter, choice->request)
				 ? -EINVAL
				 : choice->fill(adapter, choice->request, choice->out);
	return !choice->all || choice->result;
}

int vb_nl_with_device(struct vb_nl_request *request, struct vb_nl_out *out, vb_nl_fill *fill)
{
	struct choice choice = { request, out, fill };

	if (vb_nl_request_parse(request) || !vb_nl_request_has(request, RDMA_NLDEV_ATTR_DEV_INDEX))
		return -EINVAL;
	choice.index = vb_nl_request_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX);
	vb_adapter_each(try_device, &choice);
	return choice.found ? choice.result : -EINVAL;
}

int vb_nl_each_device(struct vb_nl_request *request, struct vb_nl_out *out, vb_nl_fill *fill)
{
	struct choice choice = { request, out, fill, .all = true };

	vb_adapter_each(try_device, &choice);
	return choice.result;
}

/* --- the device --- */

static bool is_infiniband(const struct vb_adapter *adapter)
{
	return adapter->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static int fill_device(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, adapter->attr.phys_port_cnt);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, adapter->attr.device_cap_flags);
	if (*adapter->attr.fw_ver)
		vb_nl_put_string(out, RDMA_NLDEV_ATTR_FW_VERSION, adapter->attr.fw_ver);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_NODE_GUID, be64toh(adapter->attr.node_guid));
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, be64toh(adapter->attr.sys_image_guid));
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, IBV_NODE_CA);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_DIM, 0); /* no adaptive moderation */
	vb_nl_put_string(out, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_infiniband(adapter) ? "ib" : "roce");
	vb_nl_put_u8(out, VB_NLDEV_NAME_ASSIGN_TYPE, 0); /* by the driver */
	return 0;
}

static int get_one(const struct vb_adapter *adapter, struct vb_nl_request *request,
		   struct vb_nl_out *out)
{
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_GET, 0, fill_device);
}

static int get_each(const struct vb_adapter *adapter, struct vb_nl_request *request,
		    struct vb_nl_out *out)
{
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_GET, NLM_F_MULTI,
				    fill_device);
}

int vb_nl_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, get_one);
}

int vb_nl_get_dump(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_each_device(request, out, get_each);
}

/* --- its port --- */

static void put_subnet(const struct vb_adapter *adapter, struct vb_nl_out *out)
{
	const struct ibv_port_attr *port = &adapter->port;
	union ibv_gid gid;

	vb_adapter_gid(adapter, 0, &gid);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_CAP_FLAGS, port->port_cap_flags);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_SUBNET_PREFIX, be64toh(gid.global.subnet_prefix));
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_LID, port->lid);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_SM_LID, port->sm_lid);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_LMC, port->lmc);
}

static int fill_port(const struct vb_adapter *adapter, struct vb_nl_request *request,
		     struct vb_nl_out *out)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	if (is_infiniband(adapter))
		put_subnet(adapter, out);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_STATE, (uint8_t)adapter->port.state);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, adapter->port.phys_state);
	if (!is_infiniband(adapter) && *adapter->netdev) {
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_NDEV_INDEX, if_nametoindex(adapter->netdev));
		vb_nl_put_string(out, RDMA_NLDEV_ATTR_NDEV_NAME, adapter->netdev);
	}
	return 0;
}

/* The kernel's answer about one port has the number of the command for devices. */
static int port_one(const struct vb_adapter *adapter, struct vb_nl_request *request,
		    struct vb_nl_out *out)
{
	if (!vb_nl_request_has(request, RDMA_NLDEV_ATTR_PORT_INDEX))
		return -EINVAL;
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_GET, 0, fill_port);
}

static int port_each(const struct vb_adapter *adapter, struct vb_nl_request *request,
		     struct vb_nl_out *out)
{
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_PORT_GET, NLM_F_MULTI,
				    fill_port);
}

int vb_nl_port_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, port_one);
}

int vb_nl_port_dump(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, port_each);
}

/* --- the system --- */

/* Devices belong to one network namespace. Memory that is registered survives fork as it is. */
int vb_nl_system_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	enum { NETNS_EXCLUSIVE = 0 };

	if (vb_nl_request_parse(request))
		return -EINVAL;
	vb_nl_begin(out, request, RDMA_NLDEV_CMD_SYS_GET, 0);
	vb_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, NETNS_EXCLUSIVE);
	vb_nl_put_u8(out, VB_NLDEV_SYS_PRIVILEGED_QKEY_MODE, 0);
	vb_nl_put_u8(out, VB_NLDEV_SYS_MONITOR_MODE, 0);
	vb_nl_put_u8(out, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	vb_nl_message_end(out);
	return 0;
}

/* --- character devices --- */

/* A device number as the kernel packs it. */
static uint64_t device_number(unsigned major, unsigned minor)
{
	return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

static void put_chardev(struct vb_nl_out *out, uint64_t number, uint64_t abi, const char *name)
{
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV, number);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_CHARDEV_ABI, abi);
	vb_nl_put_string(out, RDMA_NLDEV_ATTR_CHARDEV_NAME, name);
}

/* Of a device: only uverbs. */
static int chardev_one(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out)
{
	if (strcmp(vb_nl_request_string(request, RDMA_NLDEV_ATTR_CHARDEV_TYPE), "uverbs"))
		return vb_nl_refuse(request, -EOPNOTSUPP,
				    "Verbena's devices have a file of type uverbs only");
	vb_nl_begin(out, request, RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 0); /* unknown */
	put_chardev(out, device_number(VB_UVERBS_MAJOR, VB_UVERBS_MINOR + adapter->index),
		    VB_UVERBS_ABI, adapter->uverbs);
	vb_nl_message_end(out);
	return 0;
}

int vb_nl_chardev_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	if (vb_nl_request_parse(request) ||
	    !vb_nl_request_has(request, RDMA_NLDEV_ATTR_CHARDEV_TYPE))
		return -EINVAL;
	if (vb_nl_request_has(request, RDMA_NLDEV_ATTR_DEV_INDEX))
		return vb_nl_with_device(request, out, chardev_one);
	if (vb_nl_request_has(request, RDMA_NLDEV_ATTR_PORT_INDEX))
		return -EINVAL;
	return vb_nl_refuse(request, -EOPNOTSUPP,
			    "Verbena has no character device that belongs to no RDMA device");
}
