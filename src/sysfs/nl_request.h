/* SPDX-License-Identifier: BSD-2-Clause */
/* One request to NETLINK_RDMA, checked: its header and its attributes. */
#ifndef VB_SYSFS_NL_REQUEST_H
#define VB_SYSFS_NL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/netlink.h>

/* Attributes and commands that the headers of older systems lack. */
enum {
	VB_NLDEV_STAT_HWCOUNTER_INDEX = 94,
	VB_NLDEV_SYS_PRIVILEGED_QKEY_MODE = 96,
	VB_NLDEV_NAME_ASSIGN_TYPE = 101,
	VB_NLDEV_SYS_MONITOR_MODE = 103,
	VB_NLDEV_ATTR_END = 119, /* beyond all that are known */
};
enum {
	VB_NLDEV_CMD_STAT_GET_STATUS = 24,
	VB_NLDEV_CMD_RES_SRQ_GET_RAW,
	VB_NLDEV_CMD_NEWDEV,
	VB_NLDEV_CMD_DELDEV,
	VB_NLDEV_CMD_MONITOR,
	VB_NLDEV_CMD_FRMR_POOLS_GET,
	VB_NLDEV_CMD_FRMR_POOLS_SET,
	VB_NLDEV_CMD_END,
};

struct vb_nl_request {
	const struct nlmsghdr *header;                      /* the message is whole, and aligned */
	const struct nlattr *attributes[VB_NLDEV_ATTR_END]; /* by type; NULL: not there */
	bool admin;                                         /* the asker has CAP_NET_ADMIN */
	const char *complaint; /* for the extended acknowledgement, or NULL; static text */
};

/* Fills attributes. 0, or -EINVAL: an attribute has a wrong form. */
int vb_nl_request_parse(struct vb_nl_request *request);

/* The attribute is there; for those the parser has checked the length. */
bool vb_nl_request_has(const struct vb_nl_request *request, unsigned type);
uint32_t vb_nl_request_u32(const struct vb_nl_request *request, unsigned type);
const char *vb_nl_request_string(const struct vb_nl_request *request, unsigned type);

/* Notes the complaint and returns the error. */
int vb_nl_refuse(struct vb_nl_request *request, int error, const char *complaint);

#endif
