/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's librdmacm: loading it, and the steps around each call. */
#include "rdmacm/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/result.h"

static struct vb_cma_system_calls calls;
static bool there; /* load writes it once */

static void load(void)
{
	void *library = vb_cma_engine()->system_beside("librdmacm.so.1");

	if (!library)
		return;
#define FIND(type, name, params) *(void **)&calls.name = dlsym(library, #name);
	VB_CMA_SYSTEM_CALLS(FIND)
#undef FIND
	there = calls.rdma_create_id && calls.rdma_create_event_channel && calls.rdma_bind_addr &&
		calls.rdma_get_cm_event;
}

const struct vb_cma_system_calls *vb_cma_system(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!vb_cma_engine()->system_load())
		return NULL;
	pthread_once(&once, load);
	return there ? &calls : NULL;
}

/* --- the shadow's fields --- */

/* Members that programs, and the inline functions of rdma_verbs.h, may set. */
/* clang-format off */
#define SET_BY_PROGRAMS(X) \
	X(qp) X(pd) X(srq) X(send_cq_channel) X(send_cq) X(recv_cq_channel) X(recv_cq)
/* clang-format on */

static void push(const struct vb_cma_id *id)
{
#define PUSH(member) id->shadow->member = id->id.member;
	SET_BY_PROGRAMS(PUSH)
#undef PUSH
}

/* The path records stay the shadow's. */
static void pull(struct vb_cma_id *id)
{
	const struct rdma_cm_id *shadow = id->shadow;

	if (shadow->verbs && shadow->verbs != id->id.verbs)
		(void)vb_cma_engine()->system_learn(shadow->verbs);
	id->id.verbs = shadow->verbs;
	id->id.route = shadow->route;
	id->id.port_num = shadow->port_num;
	id->id.ps = shadow->ps;
	id->id.qp_type = shadow->qp_type;
#define PULL(member) id->id.member = shadow->member;
	SET_BY_PROGRAMS(PULL)
#undef PULL
}

bool vb_cma_system_begin(struct vb_cma_id *id, const void *function, const char *call)
{
	if (vb_cma_stale(id->generation, call)) {
		(void)vb_return_minus_one_of(call, -EINVAL);
		return false;
	}
	if (!function) {
		vb_explain("%s: the system's librdmacm has no such call, and the identifier is "
			   "one of the system's device",
			   call);
		(void)vb_return_minus_one_of(call, -EOPNOTSUPP);
		return false;
	}
	push(id);
	vb_cma_engine()->system_enter();
	return true;
}

int vb_cma_system_end(struct vb_cma_id *id, int result, const char *call)
{
	const int err = result ? vb_cma_engine()->system_errno() : 0;

	pull(id);
	if (!result)
		return 0;
	vb_explain("%s: the system's librdmacm answers: %s", call, strerror(err));
	return vb_return_minus_one_of(call, -err);
}

int vb_cma_system_check_part(const void *part, const char *what, const char *call)
{
	if (!part || vb_cma_engine()->system_object(part))
		return 0;
	vb_explain("%s: the %s is not one of the system's device, and the identifier is", call,
		   what);
	return -EINVAL;
}

/* --- devices --- */

static struct ibv_context **devices; /* open_devices writes them once */
static int device_count;

static void open_devices(void)
{
	vb_cma_engine()->system_enter();
	devices = calls.rdma_get_devices(&device_count);
	if (!devices)
		device_count = 0;
	for (int i = 0; i < device_count; i++)
		(void)vb_cma_engine()->system_learn(devices[i]);
}

struct ibv_context **vb_cma_system_devices(int *count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	*count = 0;
	if (!vb_cma_system() || !calls.rdma_get_devices)
		return NULL;
	pthread_once(&once, open_devices);
	*count = device_count;
	return devices;
}
