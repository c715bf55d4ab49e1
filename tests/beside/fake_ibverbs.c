/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libibverbs.so.1 as the system might have it, with one device and a provider. It has no
 * ibv_reg_mr_ex and no ibv_query_port_speed, as an older rdma-core. Its objects are on its own
 * heap, and its errors are in its own errno.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct fake_device fake = { .ibv = { .name = "fake0",
					    .dev_name = "uverbs0",
					    .node_type = IBV_NODE_CA,
					    .transport_type = IBV_TRANSPORT_IB } };

/* --- what its provider calls --- */

void verbs_register_driver_34(const void *ops);
int ibv_cmd_get_context(void);

void verbs_register_driver_34(const void *ops)
{
	(void)ops;
	fake.registered++;
}

int ibv_cmd_get_context(void)
{
	return ++fake.commands;
}

static void load_provider(void)
{
	void (*begin)(void);
	char path[4096];
	Dl_info self;
	void *provider;

	dladdr(&fake, &self);
	snprintf(path, sizeof(path), "%.*s/fake.provider",
		 (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
	provider = dlopen(path, RTLD_NOW);
	begin = provider ? (void (*)(void))dlsym(provider, "fake_begin") : NULL;
	if (begin)
		begin();
}

/* --- devices --- */

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!fake.registered)
		load_provider();
	fake.lists++;
	list[0] = &fake.ibv;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	fake.lists--;
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device == &fake.ibv ? FAKE_GUID : 0;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return device == &fake.ibv ? FAKE_INDEX : -1;
}

int ibv_fork_init(void)
{
	fake.forks++;
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fake.forks ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

/* --- the provider's table --- */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = wr;
	return FAKE_POSTED;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	wc->wr_id = (uintptr_t)cq;
	return 1;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	errno = FAKE_ERRNO;
	return NULL;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	errno = FAKE_ERRNO;
	return NULL;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *verbs = calloc(1, sizeof(*verbs));

	verbs->sz = sizeof(*verbs);
	verbs->create_cq_ex = create_cq_ex;
	verbs->create_qp_ex = create_qp_ex;
	verbs->context.device = device;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->context.num_comp_vectors = 1;
	verbs->context.ops.post_send = post_send;
	verbs->context.ops.poll_cq = poll_cq;
	verbs->context.ops.alloc_mw = alloc_mw;
	fake.contexts++;
	return &verbs->context;
}

struct ibv_context *ibv_import_device(int fd)
{
	if (fd == FAKE_FD)
		return ibv_open_device(&fake.ibv);
	errno = FAKE_ERRNO;
	return NULL;
}

int ibv_close_device(struct ibv_context *context)
{
	fake.contexts--;
	free(verbs_get_ctx(context));
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_qp = FAKE_ODD;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	memset(gid, index, sizeof(*gid));
	if (index != FAKE_ODD)
		return 0;
	errno = FAKE_ERRNO;
	return -1;
}

/* <ctype.h> has tables for each thread. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	fake.letters = 0;
	for (const char *name = fake.ibv.name; *name; name++)
		fake.letters += isalpha((unsigned char)*name) != 0;
	*pkey = 0xffff;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t room, uint32_t flags, size_t size)
{
	return -FAKE_ERRNO;
}

/* --- objects --- */

#define MAKE(type, count)                             \
	struct type *made = calloc(1, sizeof(*made)); \
	fake.count++

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	MAKE(ibv_pd, pds);

	made->context = context;
	return made;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	fake.pds--;
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (length == FAKE_ODD) {
		errno = FAKE_ERRNO;
		return NULL;
	}
	MAKE(ibv_mr, mrs);
	made->context = pd->context;
	made->pd = pd;
	made->addr = addr;
	made->length = length;
	return made;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	fake.mrs--;
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	MAKE(ibv_comp_channel, channels);

	made->context = context;
	return made;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	fake.channels--;
	free(channel);
	return 0;
}

static struct ibv_cq *last_cq;

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	MAKE(ibv_cq, cqs);

	made->context = context;
	made->cq_context = arg;
	made->channel = channel;
	last_cq = made;
	return made;
}

/* The kernel's errors are positive here. */
int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return FAKE_ERRNO;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	fake.cqs--;
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg)
{
	*cq = last_cq;
	*arg = last_cq->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	fake.cq_acks += (int)count;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	event->event_type = IBV_EVENT_CQ_ERR;
	event->element.cq = last_cq;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	fake.acks++;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	MAKE(ibv_qp, qps);

	made->context = pd->context;
	made->pd = pd;
	made->send_cq = attr->send_cq;
	return made;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	fake.qps--;
	free(qp);
	return 0;
}
