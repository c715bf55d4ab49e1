/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/nl_answer.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

/* --- the commands --- */

static int no_change(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_refuse(request, -EOPNOTSUPP,
			    "Verbena's devices are not of the kernel: they cannot be changed here");
}

static int no_answer(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_refuse(request, -EOPNOTSUPP, "Verbena does not answer this command");
}

static const struct command {
	vb_nl_command *reply, *dump; /* NULL: the kernel has none, either */
	bool admin;                  /* needs CAP_NET_ADMIN */
} commands[VB_NLDEV_CMD_END] = {
	[RDMA_NLDEV_CMD_GET] = { vb_nl_get, vb_nl_get_dump },
	[RDMA_NLDEV_CMD_SET] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_NEWLINK] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_DELLINK] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_PORT_GET] = { vb_nl_port_get, vb_nl_port_dump },
	[RDMA_NLDEV_CMD_SYS_GET] = { vb_nl_system_get, NULL },
	[RDMA_NLDEV_CMD_SYS_SET] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_RES_GET] = { vb_nl_summary_get, vb_nl_summary_dump },
	[RDMA_NLDEV_CMD_RES_QP_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_RES_CM_ID_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_RES_CQ_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_RES_MR_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_RES_PD_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_GET_CHARDEV] = { vb_nl_chardev_get, NULL },
	[RDMA_NLDEV_CMD_STAT_SET] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_STAT_GET] = { vb_nl_statistic_get, vb_nl_statistic_dump },
	[RDMA_NLDEV_CMD_STAT_DEL] = { no_change, NULL, true },
	[RDMA_NLDEV_CMD_RES_QP_GET_RAW] = { no_answer, no_answer, true },
	[RDMA_NLDEV_CMD_RES_CQ_GET_RAW] = { no_answer, no_answer, true },
	[RDMA_NLDEV_CMD_RES_MR_GET_RAW] = { no_answer, no_answer, true },
	[RDMA_NLDEV_CMD_RES_CTX_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[RDMA_NLDEV_CMD_RES_SRQ_GET] = { vb_nl_resource_get, vb_nl_resource_dump },
	[VB_NLDEV_CMD_STAT_GET_STATUS] = { vb_nl_statistic_status, NULL },
	[VB_NLDEV_CMD_RES_SRQ_GET_RAW] = { no_answer, no_answer, true },
	[VB_NLDEV_CMD_NEWDEV] = { no_change, NULL, true },
	[VB_NLDEV_CMD_DELDEV] = { no_change, NULL, true },
	[VB_NLDEV_CMD_FRMR_POOLS_GET] = { no_answer, no_answer },
	[VB_NLDEV_CMD_FRMR_POOLS_SET] = { no_change, NULL, true },
};

unsigned vb_nl_command_of(const struct vb_nl_request *request)
{
	return request->header->nlmsg_type & 0x3ff;
}

/* --- acknowledgements --- */

static void add_complaint(struct vb_nl_out *out, const struct vb_nl_request *request,
			  const struct vb_nl_options *options)
{
	if (options->extended_ack && request->complaint)
		vb_nl_put_string(out, NLMSGERR_ATTR_MSG, request->complaint);
}

/* A failure quotes the whole request, unless the program has asked for its header only. */
static void acknowledge(struct vb_nl_out *out, const struct vb_nl_request *request, int error,
			const struct vb_nl_options *options)
{
	const struct nlmsghdr *header = request->header;
	const bool quotes = error && !options->capped_ack;
	uint16_t flags = quotes ? 0 : NLM_F_CAPPED;

	if (options->extended_ack && request->complaint)
		flags |= NLM_F_ACK_TLVS;
	vb_nl_datagram_begin(out, 0);
	vb_nl_message_begin(out, NLMSG_ERROR, flags, header->nlmsg_seq);
	vb_nl_raw(out, &error, sizeof(error));
	vb_nl_raw(out, header, quotes ? header->nlmsg_len : sizeof(*header));
	add_complaint(out, request, options);
	vb_nl_message_end(out);
	vb_nl_datagram_end(out);
}

static void add_done(struct vb_nl_out *out, const struct vb_nl_request *request, int error,
		     const struct vb_nl_options *options)
{
	const uint16_t more = options->extended_ack && request->complaint ? NLM_F_ACK_TLVS : 0;

	vb_nl_message_begin(out, NLMSG_DONE, NLM_F_MULTI | more, request->header->nlmsg_seq);
	vb_nl_raw(out, &error, sizeof(error));
	add_complaint(out, request, options);
	vb_nl_message_end(out);
}

/* --- one message --- */

static bool has_net_admin(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return !syscall(SYS_capget, &head, data) && (data[0].effective >> CAP_NET_ADMIN & 1);
}

/* An error of a dump is in the message that ends it. */
static void dump(struct vb_nl_out *out, struct vb_nl_request *request, vb_nl_command *command,
		 const struct vb_nl_options *options)
{
	size_t before;
	int error;

	vb_nl_datagram_begin(out, VB_NL_DATAGRAM_MAX);
	error = command(request, out);
	before = out->length;
	add_done(out, request, error, options);
	if (out->full) {
		vb_nl_cut(out, before);
		vb_nl_datagram_end(out);
		vb_nl_datagram_begin(out, VB_NL_DATAGRAM_MAX);
		add_done(out, request, error, options);
	}
	vb_nl_datagram_end(out);
}

static int reply(struct vb_nl_out *out, struct vb_nl_request *request, vb_nl_command *command)
{
	int error;

	vb_nl_datagram_begin(out, VB_NL_DATAGRAM_MAX);
	error = command(request, out);
	if (!error && out->full)
		error = -EMSGSIZE;
	if (error)
		vb_nl_cut(out, out->datagram + sizeof(uint32_t));
	vb_nl_datagram_end(out);
	return error;
}

/* 0, -errno, or -EINTR: a dump, which has its own end. */
static int execute(struct vb_nl_out *out, struct vb_nl_request *request,
		   const struct vb_nl_options *options)
{
	const unsigned type = request->header->nlmsg_type, number = vb_nl_command_of(request);
	const struct command *command = &commands[number < VB_NLDEV_CMD_END ? number : 0];
	const bool dumps = request->header->nlmsg_flags & NLM_F_DUMP;

	if (RDMA_NL_GET_CLIENT(type) != RDMA_NL_NLDEV || (!command->reply && !command->dump))
		return -EINVAL;
	request->admin = has_net_admin();
	if (command->admin && !request->admin)
		return -EPERM;
	if (dumps ? !command->dump : !command->reply)
		return -EINVAL;
	if (dumps) {
		dump(out, request, command->dump, options);
		return -EINTR;
	}
	return reply(out, request, command->reply);
}

/* Answers that are no requests of a program are ignored. */
static void answer_message(const struct nlmsghdr *header, const struct vb_nl_options *options,
			   struct vb_nl_out *out)
{
	struct vb_nl_request request = { .header = header };
	int error = 0;

	if ((header->nlmsg_flags & NLM_F_REQUEST) && header->nlmsg_type >= NLMSG_MIN_TYPE)
		error = execute(out, &request, options);
	if (error != -EINTR && (error || header->nlmsg_flags & NLM_F_ACK))
		acknowledge(out, &request, error, options);
}

void vb_nl_answer(const void *datagram, size_t size, const struct vb_nl_options *options,
		  struct vb_nl_out *out)
{
	const char *at = datagram;

	while (size >= NLMSG_HDRLEN) {
		const struct nlmsghdr *header = (const void *)at;
		size_t step = NLMSG_ALIGN((size_t)header->nlmsg_len);

		if (header->nlmsg_len < NLMSG_HDRLEN || header->nlmsg_len > size)
			return;
		answer_message(header, options, out);
		if (step >= size)
			return;
		at += step;
		size -= step;
	}
}
