/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of NETLINK_RDMA about objects: those of the processes that answer this one, which are
 * the user's own, for root all. A kernel numbers the objects of a device. Here numbers of PDs, CQs
 * and MRs are those of their process, and the number of a context is the slot of its process.
 */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <unistd.h>

#include "engine/attach/ask.h"
#include "sysfs/nl_answer.h"

/* An object and its process. Contexts have no record of their own. */
struct object {
	const struct vb_asked_process *process;
	const struct vb_describe_record *record; /* NULL: a context */
};

typedef void put_fn(struct vb_nl_out *out, const struct object *object,
		    const struct vb_nl_request *request);

static put_fn put_qp, put_cq, put_mr, put_pd, put_srq, put_context;

static const struct kind {
	unsigned command;
	enum vb_describe_kind kind; /* 0: contexts */
	uint16_t table, entry, id;  /* attributes */
	const char *name;           /* in the summary */
	put_fn *put;
} kinds[] = {
	{ RDMA_NLDEV_CMD_RES_PD_GET, VB_DESCRIBE_PD, RDMA_NLDEV_ATTR_RES_PD,
	  RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN, "pd", put_pd },
	{ RDMA_NLDEV_CMD_RES_CQ_GET, VB_DESCRIBE_CQ, RDMA_NLDEV_ATTR_RES_CQ,
	  RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN, "cq", put_cq },
	{ RDMA_NLDEV_CMD_RES_QP_GET, VB_DESCRIBE_QP, RDMA_NLDEV_ATTR_RES_QP,
	  RDMA_NLDEV_ATTR_RES_QP_ENTRY, RDMA_NLDEV_ATTR_RES_LQPN, "qp", put_qp },
	{ RDMA_NLDEV_CMD_RES_MR_GET, VB_DESCRIBE_MR, RDMA_NLDEV_ATTR_RES_MR,
	  RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN, "mr", put_mr },
	{ RDMA_NLDEV_CMD_RES_CTX_GET, 0, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
	  RDMA_NLDEV_ATTR_RES_CTXN, "ctx", put_context },
	{ RDMA_NLDEV_CMD_RES_SRQ_GET, VB_DESCRIBE_SRQ, RDMA_NLDEV_ATTR_RES_SRQ,
	  RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQN, "srq", put_srq },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* --- attributes of one object --- */

/* The process that has the object. */
static void put_owner(struct vb_nl_out *out, const struct object *object)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)object->process->pid);
}

static bool has_peer(unsigned type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

static void put_qp(struct vb_nl_out *out, const struct object *object,
		   const struct vb_nl_request *request)
{
	const struct vb_describe_record *qp = object->record;

	if (qp->state != IBV_QPS_RESET) /* before, a QP has no port */
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_LQPN, qp->id);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PDN, qp->pd);
	if (has_peer(qp->type)) {
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_RQPN, qp->dest_qpn);
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->rq_psn);
	}
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->sq_psn);
	if (has_peer(qp->type) || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV)
		vb_nl_put_u8(out, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, (uint8_t)qp->mig_state);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_RES_TYPE, qp->type);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_RES_STATE, qp->state);
	put_owner(out, object);
}

static void put_cq(struct vb_nl_out *out, const struct object *object,
		   const struct vb_nl_request *request)
{
	const struct vb_describe_record *cq = object->record;

	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CQE, cq->depth);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_USECNT, cq->users);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CQN, cq->id);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CTXN, object->process->slot);
	put_owner(out, object);
}

/* Keys are for administrators, as in the kernel. */
static void put_mr(struct vb_nl_out *out, const struct object *object,
		   const struct vb_nl_request *request)
{
	const struct vb_describe_record *mr = object->record;

	if (request->admin) {
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_RKEY, mr->rkey);
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_LKEY, mr->lkey);
	}
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_MRLEN, mr->length);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_MRN, mr->id);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PDN, mr->pd);
	put_owner(out, object);
}

static void put_pd(struct vb_nl_out *out, const struct object *object,
		   const struct vb_nl_request *request)
{
	const struct vb_describe_record *pd = object->record;

	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_USECNT, pd->users);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PDN, pd->id);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CTXN, object->process->slot);
	put_owner(out, object);
}

/* The QPs that receive from the SRQ. */
static void put_srq_qps(struct vb_nl_out *out, const struct object *object)
{
	const size_t table = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_QP);

	for (unsigned i = 0; i < object->process->answer.record_count; i++) {
		const struct vb_describe_record *qp = &object->process->records[i];
		size_t entry;

		if (qp->kind != VB_DESCRIBE_QP || qp->srq != object->record->id)
			continue;
		entry = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_LQPN, qp->id);
		vb_nl_nest_end(out, entry);
	}
	vb_nl_nest_end(out, table);
}

static void put_srq(struct vb_nl_out *out, const struct object *object,
		    const struct vb_nl_request *request)
{
	const struct vb_describe_record *srq = object->record;

	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_SRQN, srq->id);
	vb_nl_put_u8(out, RDMA_NLDEV_ATTR_RES_TYPE, srq->type);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PDN, srq->pd);
	if (srq->recv_cq)
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CQN, srq->recv_cq);
	put_srq_qps(out, object);
	put_owner(out, object);
}

static void put_context(struct vb_nl_out *out, const struct object *object,
			const struct vb_nl_request *request)
{
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_CTXN, object->process->slot);
	put_owner(out, object);
}

/* --- all objects of a device --- */

/*
 * A program without libibverbs has no objects. Its process may hold a slot, because this library
 * opens devices, but it has no thread that would answer.
 */
static int ask_all(struct vb_asked_processes *all)
{
	const struct vb_ask_filter filter = { .except = vb_adapter_in_use() ? 0 : getpid() };

	return vb_ask_processes(all, &filter);
}

static bool is_on(const struct vb_describe_record *record, const struct vb_adapter *adapter)
{
	return !strncmp(record->device, adapter->name, sizeof(record->device));
}

/* Calls each for every object of the kind, until a call does not return 0. */
struct walk {
	const struct vb_asked_processes *all;
	const struct vb_adapter *adapter;
	const struct kind *kind;
	int (*each)(const struct object *object, void *arg);
	void *arg;
};

static int walk_process(const struct walk *walk, const struct vb_asked_process *process)
{
	for (unsigned i = 0; i < process->answer.record_count; i++) {
		const struct vb_describe_record *record = &process->records[i];
		struct object object = { process, walk->kind->kind ? record : NULL };
		int result;

		if (!is_on(record, walk->adapter) ||
		    (walk->kind->kind && record->kind != walk->kind->kind))
			continue;
		result = walk->each(&object, walk->arg);
		if (result || !walk->kind->kind) /* a context shows once */
			return result;
	}
	return 0;
}

static int walk_objects(const struct walk *walk)
{
	for (unsigned i = 0; i < walk->all->count; i++) {
		int result = walk_process(walk, &walk->all->list[i]);

		if (result)
			return result;
	}
	return 0;
}

/* --- tables --- */

/* A table of objects, over as many messages as it takes. */
struct table {
	const struct vb_adapter *adapter;
	const struct vb_nl_request *request;
	const struct kind *kind;
	struct vb_nl_out *out;
	bool open;
	size_t nest;
};

static void table_open(struct table *table)
{
	vb_nl_begin(table->out, table->request, table->kind->command, NLM_F_MULTI);
	vb_nl_put_device(table->out, table->adapter);
	table->nest = vb_nl_nest_begin(table->out, table->kind->table);
	table->open = true;
}

static void table_close(struct table *table)
{
	if (!table->open)
		return;
	vb_nl_nest_end(table->out, table->nest);
	vb_nl_message_end(table->out);
	table->open = false;
}

static void add_entry(struct table *table, const struct object *object)
{
	const size_t entry = vb_nl_nest_begin(table->out, table->kind->entry);

	table->kind->put(table->out, object, table->request);
	vb_nl_nest_end(table->out, entry);
}

/* An SRQ with very many QPs fits nowhere, and ends the dump. */
static int table_add(const struct object *object, void *arg)
{
	struct table *table = arg;
	size_t before;

	if (!table->open)
		table_open(table);
	before = table->out->length;
	add_entry(table, object);
	if (!table->out->full)
		return 0;
	vb_nl_cut(table->out, before);
	table_close(table);
	vb_nl_datagram_end(table->out);
	vb_nl_datagram_begin(table->out, VB_NL_DATAGRAM_MAX);
	table_open(table);
	before = table->out->length;
	add_entry(table, object);
	if (!table->out->full)
		return 0;
	vb_nl_cut(table->out, before);
	return -EMSGSIZE;
}

static const struct kind *kind_of(const struct vb_nl_request *request)
{
	const unsigned command = vb_nl_command_of(request);

	for (int i = 0; i < KINDS; i++)
		if (kinds[i].command == command)
			return &kinds[i];
	return NULL;
}

static int dump_table(const struct vb_adapter *adapter, struct vb_nl_request *request,
		      struct vb_nl_out *out)
{
	struct table table = { adapter, request, kind_of(request), out };
	struct vb_asked_processes all;
	struct walk walk = { &all, adapter, table.kind, table_add, &table };
	int result = ask_all(&all);

	if (result)
		return result;
	result = walk_objects(&walk);
	table_close(&table);
	vb_ask_free(&all);
	return result;
}

int vb_nl_resource_dump(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, dump_table);
}

/* --- one object --- */

struct search {
	const struct kind *kind;
	uint32_t id;
	struct object found;
};

static int match_object(const struct object *object, void *arg)
{
	struct search *search = arg;

	if (search->id != (object->record ? object->record->id : object->process->slot))
		return 0;
	search->found = *object;
	return 1;
}

static void reply_object(const struct vb_adapter *adapter, struct vb_nl_request *request,
			 struct vb_nl_out *out, const struct search *search)
{
	vb_nl_begin(out, request, search->kind->command, 0);
	vb_nl_put_device(out, adapter);
	search->kind->put(out, &search->found, request);
	vb_nl_message_end(out);
}

static int get_object(const struct vb_adapter *adapter, struct vb_nl_request *request,
		      struct vb_nl_out *out)
{
	struct search search = { .kind = kind_of(request) };
	struct vb_asked_processes all;
	struct walk walk = { &all, adapter, search.kind, match_object, &search };
	int result;

	if (!vb_nl_request_has(request, search.kind->id))
		return -EINVAL;
	search.id = vb_nl_request_u32(request, search.kind->id);
	result = ask_all(&all);
	if (result)
		return result;
	result = walk_objects(&walk) ? 0 : -ENOENT;
	if (!result)
		reply_object(adapter, request, out, &search);
	vb_ask_free(&all);
	return result;
}

int vb_nl_resource_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, get_object);
}

/* --- the summary --- */

static int count_object(const struct object *object, void *arg)
{
	++*(uint64_t *)arg;
	return 0;
}

static void put_count(struct vb_nl_out *out, const char *name, uint64_t count)
{
	const size_t entry = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	vb_nl_put_string(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
	vb_nl_put_u64(out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
	vb_nl_nest_end(out, entry);
}

static int fill_summary(const struct vb_adapter *adapter, struct vb_nl_request *request,
			struct vb_nl_out *out)
{
	struct vb_asked_processes all;
	int result = ask_all(&all);
	size_t table;

	if (result)
		return result;
	table = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (int i = 0; i < KINDS; i++) {
		uint64_t count = 0;
		struct walk walk = { &all, adapter, &kinds[i], count_object, &count };

		walk_objects(&walk);
		put_count(out, kinds[i].name, count);
	}
	vb_nl_nest_end(out, table);
	vb_ask_free(&all);
	return 0;
}

static int summary_one(const struct vb_adapter *adapter, struct vb_nl_request *request,
		       struct vb_nl_out *out)
{
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_RES_GET, 0, fill_summary);
}

static int summary_each(const struct vb_adapter *adapter, struct vb_nl_request *request,
			struct vb_nl_out *out)
{
	return vb_nl_device_message(adapter, request, out, RDMA_NLDEV_CMD_RES_GET, NLM_F_MULTI,
				    fill_summary);
}

int vb_nl_summary_get(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_with_device(request, out, summary_one);
}

int vb_nl_summary_dump(struct vb_nl_request *request, struct vb_nl_out *out)
{
	return vb_nl_each_device(request, out, summary_each);
}
