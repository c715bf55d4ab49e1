/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private node, through which provider libraries (libmlx5, libefa and others) use libibverbs.
 * Programs pull providers in by name, for calls that only their own NICs answer. A provider is
 * linked so that every symbol must resolve when it is loaded. While loading it registers itself.
 * Nothing further is called, because no device here belongs to a provider: all commands to the
 * kernel return EOPNOTSUPP.
 *
 * No installed header declares these functions. Functions that only refuse take no parameters: the
 * caller owns its argument registers and stack. ibv_query_gid_type, the one name of this node that
 * ordinary programs use, lives with the devices; ibv_wr_opcode_str with the strings.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/symver.h"

/* Providers read one byte: may a context be torn down after its device went away? */
extern bool verbs_allow_disassociate_destroy;
VB_PUBLIC bool verbs_allow_disassociate_destroy;
_Static_assert(sizeof(verbs_allow_disassociate_destroy) == 1, "the size is part of the ABI");

#define IGNORE(name)              \
	void name(void);          \
	VB_PUBLIC void name(void) \
	{                         \
	}                         \
	_Static_assert(1, "takes the semicolon")

#define REFUSE(name)                \
	int name(void);             \
	VB_PUBLIC int name(void)    \
	{                           \
		errno = EOPNOTSUPP; \
		return EOPNOTSUPP;  \
	}                           \
	_Static_assert(1, "takes the semicolon")

#define REFUSE_POINTER(name)        \
	void *name(void);           \
	VB_PUBLIC void *name(void)  \
	{                           \
		errno = EOPNOTSUPP; \
		return NULL;        \
	}                           \
	_Static_assert(1, "takes the semicolon")

/* The constructor of every provider calls it, with its table of operations. */
IGNORE(verbs_register_driver_34);
IGNORE(verbs_set_ops);
IGNORE(verbs_init_cq);
IGNORE(verbs_uninit_context);

REFUSE_POINTER(_verbs_init_and_alloc_context);
REFUSE_POINTER(verbs_open_device);

REFUSE(execute_ioctl);

REFUSE(ibv_cmd_get_context);
REFUSE(ibv_cmd_query_context);
REFUSE(ibv_cmd_query_device_any);
REFUSE(ibv_cmd_query_port);

REFUSE(ibv_cmd_alloc_pd);
REFUSE(ibv_cmd_dealloc_pd);
REFUSE(ibv_cmd_open_xrcd);
REFUSE(ibv_cmd_close_xrcd);

REFUSE(ibv_cmd_reg_mr);
REFUSE(ibv_cmd_reg_dmabuf_mr);
REFUSE(ibv_cmd_rereg_mr);
REFUSE(ibv_cmd_dereg_mr);
REFUSE(ibv_cmd_query_mr);
REFUSE(ibv_cmd_advise_mr);
REFUSE(ibv_cmd_alloc_mw);
REFUSE(ibv_cmd_dealloc_mw);
REFUSE(ibv_cmd_alloc_dm);
REFUSE(ibv_cmd_reg_dm_mr);
REFUSE(ibv_cmd_free_dm);

REFUSE(ibv_cmd_create_cq);
REFUSE(ibv_cmd_create_cq_ex);
REFUSE(ibv_cmd_create_cq_ex2); /* since version 53 */
REFUSE(ibv_cmd_modify_cq);
REFUSE(ibv_cmd_resize_cq);
REFUSE(ibv_cmd_req_notify_cq);
REFUSE(ibv_cmd_destroy_cq);

REFUSE(ibv_cmd_create_srq);
REFUSE(ibv_cmd_create_srq_ex);
REFUSE(ibv_cmd_modify_srq);
REFUSE(ibv_cmd_query_srq);
REFUSE(ibv_cmd_destroy_srq);

REFUSE(ibv_cmd_create_qp);
REFUSE(ibv_cmd_create_qp_ex);
REFUSE(ibv_cmd_create_qp_ex2);
REFUSE(ibv_cmd_open_qp);
REFUSE(ibv_cmd_modify_qp);
REFUSE(ibv_cmd_modify_qp_ex);
REFUSE(ibv_cmd_query_qp);
REFUSE(ibv_cmd_destroy_qp);
REFUSE(ibv_cmd_attach_mcast);
REFUSE(ibv_cmd_detach_mcast);

REFUSE(ibv_cmd_create_ah);
REFUSE(ibv_cmd_destroy_ah);

REFUSE(ibv_cmd_create_wq);
REFUSE(ibv_cmd_modify_wq);
REFUSE(ibv_cmd_destroy_wq);
REFUSE(ibv_cmd_create_rwq_ind_table);
REFUSE(ibv_cmd_destroy_rwq_ind_table);

REFUSE(ibv_cmd_create_flow);
REFUSE(ibv_cmd_destroy_flow);
REFUSE(ibv_cmd_create_flow_action_esp);
REFUSE(ibv_cmd_modify_flow_action_esp);
REFUSE(ibv_cmd_destroy_flow_action);

REFUSE(ibv_cmd_create_counters);
REFUSE(ibv_cmd_read_counters);
REFUSE(ibv_cmd_destroy_counters);

/* A positive number would mean that many completions. */
int ibv_cmd_poll_cq(void);
VB_PUBLIC int ibv_cmd_poll_cq(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

/* The caller reads bad_wr after a failure. */
#define REFUSE_POST(name, object, request)                                                    \
	int name(struct object *queue, struct request *wr, struct request **bad_wr);          \
	VB_PUBLIC int name(struct object *queue, struct request *wr, struct request **bad_wr) \
	{                                                                                     \
		*bad_wr = wr;                                                                 \
		errno = EOPNOTSUPP;                                                           \
		return EOPNOTSUPP;                                                            \
	}                                                                                     \
	_Static_assert(1, "takes the semicolon")

REFUSE_POST(ibv_cmd_post_send, ibv_qp, ibv_send_wr);
REFUSE_POST(ibv_cmd_post_recv, ibv_qp, ibv_recv_wr);
REFUSE_POST(ibv_cmd_post_srq_recv, ibv_srq, ibv_recv_wr);

/* The number of attributes of a command and of the commands linked to it; none is ever linked. */
unsigned __ioctl_final_num_attrs(unsigned num_attrs, void *link);
VB_PUBLIC unsigned __ioctl_final_num_attrs(unsigned num_attrs, void *link)
{
	return num_attrs;
}
