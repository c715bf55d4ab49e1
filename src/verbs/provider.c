/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private nodes, through which provider libraries (libmlx5, libefa and others) use libibverbs:
 * rdma-core begins a new node when that interface changes. Programs pull providers in by name, for
 * calls that only their own NICs answer. A provider is linked so that every symbol must resolve
 * when it is loaded. While loading it registers itself. Nothing further is called, because no
 * device here belongs to a provider: all commands to the kernel return EOPNOTSUPP.
 *
 * No installed header declares these functions. Functions that only refuse take no parameters: the
 * caller owns its argument registers and stack. Ordinary programs use two names of
 * these nodes: ibv_query_gid_type, and ibv_wr_opcode_str, which lives with the strings.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "verbs/ops.h"

/* Providers read one byte: may a context be torn down after its device went away? */
extern bool verbs_allow_disassociate_destroy VB_PRIVATE(verbs_allow_disassociate_destroy);
VB_PUBLIC bool verbs_allow_disassociate_destroy;
_Static_assert(sizeof(verbs_allow_disassociate_destroy) == 1, "the size is part of the ABI");
VB_PRIVATE_SINCE_34(verbs_allow_disassociate_destroy);

static int refuse_command(const char *call)
{
	vb_explain("%s: there is no kernel driver behind the device", call);
	return vb_return_errno_of(call, -EOPNOTSUPP);
}

#define IGNORE(name, since)               \
	void name(void) VB_PRIVATE(name); \
	VB_PUBLIC void name(void)         \
	{                                 \
	}                                 \
	VB_PRIVATE_SINCE_##since(name)

#define REFUSE(name, since)                   \
	int name(void) VB_PRIVATE(name);      \
	VB_PUBLIC int name(void)              \
	{                                     \
		return refuse_command(#name); \
	}                                     \
	VB_PRIVATE_SINCE_##since(name)

#define REFUSE_POINTER(name, since)        \
	void *name(void) VB_PRIVATE(name); \
	VB_PUBLIC void *name(void)         \
	{                                  \
		refuse_command(#name);     \
		return NULL;               \
	}                                  \
	VB_PRIVATE_SINCE_##since(name)

/* The constructor of every provider calls one, with its table of operations. */
#define REGISTER(node)                                    \
	void verbs_register_driver_##node(void);          \
	VB_PUBLIC void verbs_register_driver_##node(void) \
	{                                                 \
	}                                                 \
	_Static_assert(1, "takes the semicolon")

REGISTER(34);
REGISTER(57);
REGISTER(59);
REGISTER(64);
REGISTER(65);

IGNORE(verbs_set_ops, 34);
IGNORE(verbs_init_cq, 34);
IGNORE(verbs_uninit_context, 34);

REFUSE_POINTER(_verbs_init_and_alloc_context, 34);
REFUSE_POINTER(verbs_open_device, 34);

REFUSE(execute_ioctl, 34);

REFUSE(ibv_cmd_get_context, 34);
REFUSE(ibv_cmd_query_context, 34);
REFUSE(ibv_cmd_query_device_any, 34);
REFUSE(ibv_cmd_query_port, 34);
REFUSE(ibv_cmd_query_port_speed, 59);

REFUSE(ibv_cmd_alloc_pd, 34);
REFUSE(ibv_cmd_dealloc_pd, 34);
REFUSE(ibv_cmd_open_xrcd, 34);
REFUSE(ibv_cmd_close_xrcd, 34);

REFUSE(ibv_cmd_reg_mr, 34);
REFUSE(ibv_cmd_reg_mr_ex, 59);
REFUSE(ibv_cmd_reg_dmabuf_mr, 34);
REFUSE(ibv_cmd_rereg_mr, 34);
REFUSE(ibv_cmd_dereg_mr, 34);
REFUSE(ibv_cmd_query_mr, 34);
REFUSE(ibv_cmd_advise_mr, 34);
REFUSE(ibv_cmd_alloc_mw, 34);
REFUSE(ibv_cmd_dealloc_mw, 34);
REFUSE(ibv_cmd_alloc_dm, 34);
REFUSE(ibv_cmd_reg_dm_mr, 34);
REFUSE(ibv_cmd_free_dm, 34);
REFUSE(ibv_cmd_export_dmabuf_fd, 59);
REFUSE(ibv_cmd_alloc_dmah, 59);
REFUSE(ibv_cmd_free_dmah, 59);

REFUSE_POINTER(ibv_dmabuf_heap_cc_shared_init, 64);
REFUSE_POINTER(ibv_dmabuf_heap_alloc, 64);
IGNORE(ibv_dmabuf_heap_destroy, 64);
IGNORE(ibv_dmabuf_heap_free, 64);

REFUSE(ibv_cmd_create_cq, 34);
REFUSE(ibv_cmd_create_cq_ex, 34);
REFUSE(ibv_cmd_create_cq_ex2, 34); /* since version 53 */
REFUSE(ibv_cmd_modify_cq, 34);
REFUSE(ibv_cmd_resize_cq, 34);
REFUSE(ibv_cmd_req_notify_cq, 34);
REFUSE(ibv_cmd_destroy_cq, 34);

REFUSE(ibv_cmd_create_srq, 34);
REFUSE(ibv_cmd_create_srq_ex, 34);
REFUSE(ibv_cmd_modify_srq, 34);
REFUSE(ibv_cmd_query_srq, 34);
REFUSE(ibv_cmd_destroy_srq, 34);

REFUSE(ibv_cmd_create_qp, 34);
REFUSE(ibv_cmd_create_qp_ex, 34);
REFUSE(ibv_cmd_create_qp_ex2, 34);
REFUSE(ibv_cmd_open_qp, 34);
REFUSE(ibv_cmd_modify_qp, 34);
REFUSE(ibv_cmd_modify_qp_ex, 34);
REFUSE(ibv_cmd_query_qp, 34);
REFUSE(ibv_cmd_destroy_qp, 34);
REFUSE(ibv_cmd_attach_mcast, 34);
REFUSE(ibv_cmd_detach_mcast, 34);

REFUSE(ibv_cmd_create_ah, 34);
REFUSE(ibv_cmd_destroy_ah, 34);

REFUSE(ibv_cmd_create_wq, 34);
REFUSE(ibv_cmd_modify_wq, 34);
REFUSE(ibv_cmd_destroy_wq, 34);
REFUSE(ibv_cmd_create_rwq_ind_table, 34);
REFUSE(ibv_cmd_destroy_rwq_ind_table, 34);

REFUSE(ibv_cmd_create_flow, 34);
REFUSE(ibv_cmd_destroy_flow, 34);
REFUSE(ibv_cmd_create_flow_action_esp, 34);
REFUSE(ibv_cmd_modify_flow_action_esp, 34);
REFUSE(ibv_cmd_destroy_flow_action, 34);

REFUSE(ibv_cmd_create_counters, 34);
REFUSE(ibv_cmd_read_counters, 34);
REFUSE(ibv_cmd_destroy_counters, 34);

REFUSE(ibv_cmd_query_comp_cntr_caps, 65);
REFUSE(ibv_cmd_create_comp_cntr, 65);
REFUSE(ibv_cmd_destroy_comp_cntr, 65);
REFUSE(ibv_cmd_qp_attach_comp_cntr, 65);
REFUSE(ibv_cmd_read_comp_cntr, 65);
REFUSE(ibv_cmd_read_err_comp_cntr, 65);
REFUSE(ibv_cmd_set_comp_cntr, 65);
REFUSE(ibv_cmd_set_err_comp_cntr, 65);
REFUSE(ibv_cmd_inc_comp_cntr, 65);
REFUSE(ibv_cmd_inc_err_comp_cntr, 65);

/* A positive number would mean that many completions. */
int ibv_cmd_poll_cq(void) VB_PRIVATE(ibv_cmd_poll_cq);
VB_PUBLIC int ibv_cmd_poll_cq(void)
{
	refuse_command("ibv_cmd_poll_cq");
	return -1;
}
VB_PRIVATE_SINCE_34(ibv_cmd_poll_cq);

/* The caller reads bad_wr after a failure. */
#define REFUSE_POST(name, object, request)                                                    \
	int name(struct object *queue, struct request *wr, struct request **bad_wr)           \
		VB_PRIVATE(name);                                                             \
	VB_PUBLIC int name(struct object *queue, struct request *wr, struct request **bad_wr) \
	{                                                                                     \
		*bad_wr = wr;                                                                 \
		return refuse_command(#name);                                                 \
	}                                                                                     \
	VB_PRIVATE_SINCE_34(name)

REFUSE_POST(ibv_cmd_post_send, ibv_qp, ibv_send_wr);
REFUSE_POST(ibv_cmd_post_recv, ibv_qp, ibv_recv_wr);
REFUSE_POST(ibv_cmd_post_srq_recv, ibv_srq, ibv_recv_wr);

/* The number of attributes of a command and of the commands linked to it; none is ever linked. */
unsigned __ioctl_final_num_attrs(unsigned num_attrs, void *link)
	VB_PRIVATE(__ioctl_final_num_attrs);
VB_PUBLIC unsigned __ioctl_final_num_attrs(unsigned num_attrs, void *link)
{
	return num_attrs;
}
VB_PRIVATE_SINCE_34(__ioctl_final_num_attrs);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index, int *type)
	VB_PRIVATE(ibv_query_gid_type);
VB_PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index,
				 int *type)
{
	VB_NO_CANCEL;

	return vb_verbs_gid_type(context, port_num, index, type);
}
VB_PRIVATE_SINCE_34(ibv_query_gid_type);
