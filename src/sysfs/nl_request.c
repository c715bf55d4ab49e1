/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/nl_request.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

/* The forms of attributes, as the kernel's policy for these messages has them. */
enum form { ANY, U8, U32, U64, STRING };

static const uint8_t forms[VB_NLDEV_ATTR_END] = {
	[RDMA_NLDEV_ATTR_DEV_INDEX] = U32,
	[RDMA_NLDEV_ATTR_DEV_NAME] = STRING,
	[RDMA_NLDEV_ATTR_PORT_INDEX] = U32,
	[RDMA_NLDEV_ATTR_CAP_FLAGS] = U64,
	[RDMA_NLDEV_ATTR_FW_VERSION] = STRING,
	[RDMA_NLDEV_ATTR_NODE_GUID] = U64,
	[RDMA_NLDEV_ATTR_SYS_IMAGE_GUID] = U64,
	[RDMA_NLDEV_ATTR_SUBNET_PREFIX] = U64,
	[RDMA_NLDEV_ATTR_LID] = U32,
	[RDMA_NLDEV_ATTR_SM_LID] = U32,
	[RDMA_NLDEV_ATTR_LMC] = U8,
	[RDMA_NLDEV_ATTR_PORT_STATE] = U8,
	[RDMA_NLDEV_ATTR_PORT_PHYS_STATE] = U8,
	[RDMA_NLDEV_ATTR_DEV_NODE_TYPE] = U8,
	[RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME] = STRING,
	[RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR] = U64,
	[RDMA_NLDEV_ATTR_RES_LQPN] = U32,
	[RDMA_NLDEV_ATTR_RES_RQPN] = U32,
	[RDMA_NLDEV_ATTR_RES_RQ_PSN] = U32,
	[RDMA_NLDEV_ATTR_RES_SQ_PSN] = U32,
	[RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE] = U8,
	[RDMA_NLDEV_ATTR_RES_TYPE] = U8,
	[RDMA_NLDEV_ATTR_RES_STATE] = U8,
	[RDMA_NLDEV_ATTR_RES_PID] = U32,
	[RDMA_NLDEV_ATTR_RES_KERN_NAME] = STRING,
	[RDMA_NLDEV_ATTR_RES_PS] = U32,
	[RDMA_NLDEV_ATTR_RES_CQE] = U32,
	[RDMA_NLDEV_ATTR_RES_USECNT] = U64,
	[RDMA_NLDEV_ATTR_RES_POLL_CTX] = U8,
	[RDMA_NLDEV_ATTR_RES_RKEY] = U32,
	[RDMA_NLDEV_ATTR_RES_LKEY] = U32,
	[RDMA_NLDEV_ATTR_RES_IOVA] = U64,
	[RDMA_NLDEV_ATTR_RES_MRLEN] = U64,
	[RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY] = U32,
	[RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY] = U32,
	[RDMA_NLDEV_ATTR_NDEV_INDEX] = U32,
	[RDMA_NLDEV_ATTR_NDEV_NAME] = STRING,
	[RDMA_NLDEV_ATTR_RES_PDN] = U32,
	[RDMA_NLDEV_ATTR_RES_CQN] = U32,
	[RDMA_NLDEV_ATTR_RES_MRN] = U32,
	[RDMA_NLDEV_ATTR_RES_CM_IDN] = U32,
	[RDMA_NLDEV_ATTR_RES_CTXN] = U32,
	[RDMA_NLDEV_ATTR_LINK_TYPE] = STRING,
	[RDMA_NLDEV_SYS_ATTR_NETNS_MODE] = U8,
	[RDMA_NLDEV_ATTR_DEV_PROTOCOL] = STRING,
	[RDMA_NLDEV_NET_NS_FD] = U32,
	[RDMA_NLDEV_ATTR_CHARDEV_TYPE] = STRING,
	[RDMA_NLDEV_ATTR_CHARDEV_NAME] = STRING,
	[RDMA_NLDEV_ATTR_CHARDEV_ABI] = U64,
	[RDMA_NLDEV_ATTR_CHARDEV] = U64,
	[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID] = U64,
	[RDMA_NLDEV_ATTR_STAT_MODE] = U32,
	[RDMA_NLDEV_ATTR_STAT_RES] = U32,
	[RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK] = U32,
	[RDMA_NLDEV_ATTR_STAT_COUNTER_ID] = U32,
	[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME] = STRING,
	[RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE] = U64,
	[RDMA_NLDEV_ATTR_DEV_DIM] = U8,
	[RDMA_NLDEV_ATTR_RES_SRQN] = U32,
	[RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK] = U8,
	[VB_NLDEV_SYS_PRIVILEGED_QKEY_MODE] = U8,
	[VB_NLDEV_NAME_ASSIGN_TYPE] = U8,
	[VB_NLDEV_SYS_MONITOR_MODE] = U8,
};

static const void *payload_of(const struct nlattr *attribute)
{
	return (const char *)attribute + NLA_HDRLEN;
}

static size_t size_of(const struct nlattr *attribute)
{
	return (size_t)attribute->nla_len - NLA_HDRLEN;
}

/* A longer number passes, as in the kernel. */
static bool has_form(const struct nlattr *attribute, enum form form)
{
	static const size_t sizes[] = { [U8] = 1, [U32] = 4, [U64] = 8, [STRING] = 1 };

	if (form == ANY)
		return true;
	if (size_of(attribute) < sizes[form])
		return false;
	return form != STRING || memchr(payload_of(attribute), '\0', size_of(attribute));
}

/* Bytes behind the last whole attribute are ignored, as are types that are not known. */
int vb_nl_request_parse(struct vb_nl_request *request)
{
	const char *at = (const char *)request->header + NLMSG_HDRLEN;
	size_t left = request->header->nlmsg_len - NLMSG_HDRLEN;

	while (left >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const void *)at;
		const unsigned type = attribute->nla_type & NLA_TYPE_MASK;
		size_t step;

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > left)
			break;
		if (type < VB_NLDEV_ATTR_END && !has_form(attribute, forms[type]))
			return vb_nl_refuse(request, -EINVAL,
					    "An attribute is too short, or its text has no end");
		if (type < VB_NLDEV_ATTR_END)
			request->attributes[type] = attribute;
		step = NLA_ALIGN((size_t)attribute->nla_len);
		if (step >= left)
			break;
		at += step;
		left -= step;
	}
	return 0;
}

bool vb_nl_request_has(const struct vb_nl_request *request, unsigned type)
{
	return request->attributes[type] != NULL;
}

uint32_t vb_nl_request_u32(const struct vb_nl_request *request, unsigned type)
{
	uint32_t value;

	memcpy(&value, payload_of(request->attributes[type]), sizeof(value));
	return value;
}

const char *vb_nl_request_string(const struct vb_nl_request *request, unsigned type)
{
	return payload_of(request->attributes[type]);
}

int vb_nl_refuse(struct vb_nl_request *request, int error, const char *complaint)
{
	request->complaint = complaint;
	return error;
}
