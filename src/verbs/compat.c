/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of IBVERBS_1.0, for programs linked before 2007. Their structs had another layout than
 * those of today's headers: to pass the arguments on would corrupt memory. So every call fails by
 * the convention of its man page. Such a program stops at its first call, with an empty list of
 * devices. No program in use imports these names; they exist to complete the export list.
 *
 * The functions take no parameters: the caller owns its argument registers and stack, and there is
 * no header for the old types.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/symver.h"

static void refuse(const char *call)
{
	vb_explain("%s: the program was linked before 2007, against IBVERBS_1.0: link it again",
		   call);
	errno = ENOSYS;
}

#define COMPAT(type, name, failure)            \
	VB_PUBLIC type vb_compat_##name(void); \
	VB_PUBLIC type vb_compat_##name(void)  \
	{                                      \
		refuse(#name);                 \
		return failure;                \
	}                                      \
	VB_VERSION(vb_compat_##name, #name "@IBVERBS_1.0")

#define COMPAT_POINTER(name) COMPAT(void *, name, NULL)
#define COMPAT_ERRNO(name)   COMPAT(int, name, ENOSYS)
#define COMPAT_MINUS_1(name) COMPAT(int, name, -1)

#define COMPAT_VOID(name, version)             \
	VB_PUBLIC void vb_compat_##name(void); \
	VB_PUBLIC void vb_compat_##name(void)  \
	{                                      \
	}                                      \
	VB_VERSION(vb_compat_##name, #name "@" version)

COMPAT_POINTER(ibv_get_device_list);
COMPAT_POINTER(ibv_get_device_name);
COMPAT_POINTER(ibv_open_device);
COMPAT_POINTER(ibv_alloc_pd);
COMPAT_POINTER(ibv_reg_mr);
COMPAT_POINTER(ibv_create_cq);
COMPAT_POINTER(ibv_create_srq);
COMPAT_POINTER(ibv_create_qp);
COMPAT_POINTER(ibv_create_ah);

COMPAT(uint64_t, ibv_get_device_guid, 0);

COMPAT_ERRNO(ibv_query_device);
COMPAT_ERRNO(ibv_query_port);
COMPAT_ERRNO(ibv_dealloc_pd);
COMPAT_ERRNO(ibv_dereg_mr);
COMPAT_ERRNO(ibv_resize_cq);
COMPAT_ERRNO(ibv_destroy_cq);
COMPAT_ERRNO(ibv_modify_srq);
COMPAT_ERRNO(ibv_query_srq);
COMPAT_ERRNO(ibv_destroy_srq);
COMPAT_ERRNO(ibv_query_qp);
COMPAT_ERRNO(ibv_modify_qp);
COMPAT_ERRNO(ibv_destroy_qp);
COMPAT_ERRNO(ibv_destroy_ah);
COMPAT_ERRNO(ibv_attach_mcast);
COMPAT_ERRNO(ibv_detach_mcast);

COMPAT_MINUS_1(ibv_close_device);
COMPAT_MINUS_1(ibv_query_gid);
COMPAT_MINUS_1(ibv_query_pkey);
COMPAT_MINUS_1(ibv_get_async_event);
COMPAT_MINUS_1(ibv_get_cq_event);

COMPAT_VOID(ibv_free_device_list, "IBVERBS_1.0");
COMPAT_VOID(ibv_ack_async_event, "IBVERBS_1.0");
COMPAT_VOID(ibv_ack_cq_events, "IBVERBS_1.0");

/* Providers of that age registered themselves here; there is nothing to register with. */
COMPAT_VOID(ibv_register_driver, "IBVERBS_1.1");
