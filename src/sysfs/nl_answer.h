/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to NETLINK_RDMA: the commands of the kernel's "nldev" that read, for Verbena's devices.
 * The kernel's devices, if there are any, do not show, as with the files of the tree.
 */
#ifndef VB_SYSFS_NL_ANSWER_H
#define VB_SYSFS_NL_ANSWER_H

#include "sysfs/adapter.h"
#include "sysfs/nl_message.h"
#include "sysfs/nl_request.h"

/* Options of the program's socket. */
struct vb_nl_options {
	bool extended_ack; /* NETLINK_EXT_ACK */
	bool capped_ack;   /* NETLINK_CAP_ACK */
};

/* Answers all messages of a datagram. Any bytes are legal. */
void vb_nl_answer(const void *datagram, size_t size, const struct vb_nl_options *options,
		  struct vb_nl_out *out);

/* --- for the commands --- */

/*
 * A command adds the messages of its answer. 0 or -errno. A reply is one message. A dump is any
 * number of messages with NLM_F_MULTI, in datagrams as they fit.
 */
typedef int vb_nl_command(struct vb_nl_request *request, struct vb_nl_out *out);

vb_nl_command vb_nl_get, vb_nl_get_dump, vb_nl_port_get, vb_nl_port_dump, vb_nl_system_get,
	vb_nl_chardev_get;                             /* nl_device.c */
vb_nl_command vb_nl_summary_get, vb_nl_summary_dump;   /* nl_resource.c */
vb_nl_command vb_nl_resource_get, vb_nl_resource_dump; /* nl_resource.c */
vb_nl_command vb_nl_statistic_get, vb_nl_statistic_dump,
	vb_nl_statistic_status; /* nl_statistic.c */

/* The number of the command: RDMA_NLDEV_CMD_*. */
unsigned vb_nl_command_of(const struct vb_nl_request *request);

/*
 * Calls fill for the device that the request names. Returns its result, or -EINVAL: the request
 * names none, or a device or port that does not exist.
 */
typedef int vb_nl_fill(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out);
int vb_nl_with_device(struct vb_nl_request *request, struct vb_nl_out *out, vb_nl_fill *fill);
/* Calls fill for every device. */
int vb_nl_each_device(struct vb_nl_request *request, struct vb_nl_out *out, vb_nl_fill *fill);

/* One message of a reply or dump, with the device in it, and what fill adds. */
int vb_nl_device_message(const struct vb_adapter *adapter, struct vb_nl_request *request,
			 struct vb_nl_out *out, unsigned command, uint16_t flags, vb_nl_fill *fill);
/* Index and name of the device. */
void vb_nl_put_device(struct vb_nl_out *out, const struct vb_adapter *adapter);
/* Begins and ends the message for a command. */
void vb_nl_begin(struct vb_nl_out *out, const struct vb_nl_request *request, unsigned command,
		 uint16_t flags);

#endif
