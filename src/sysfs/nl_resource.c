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
#include "sysfs/nl_object.h"

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

/* A listener that is bound to no device listens on all of them. */
static bool is_on(const struct vb_describe_record *record, const struct vb_adapter *adapter)
{
	if (record->kind == VB_DESCRIBE_CM_ID && !record->device[0])
		return record->state == VB_DESCRIBE_CM_LISTEN;
	return !strncmp(record->device, adapter->name, sizeof(record->device));
}

/* Calls each for every object of the kind, until a call does not return 0. */
struct walk {
	const struct vb_asked_processes *all;
	const struct vb_adapter *adapter;
	const struct vb_nl_kind *kind;
	int (*each)(const struct vb_nl_object *object, void *arg);
	void *arg;
};

static int walk_process(const struct walk *walk, const struct vb_asked_process *process)
{
	for (unsigned i = 0; i < process->answer.record_count; i++) {
		const struct vb_describe_record *record = &process->records[i];
		struct vb_nl_object object = { process, walk->kind->kind ? record : NULL };
		int result;

		if (!is_on(record, walk->adapter) || (!walk->kind->kind && !record->device[0]) ||
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
	const struct vb_nl_kind *kind;
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

static void add_entry(struct table *table, const struct vb_nl_object *object)
{
	const size_t entry = vb_nl_nest_begin(table->out, table->kind->entry);

	vb_nl_put_object(table->out, table->kind, object, table->request);
	vb_nl_nest_end(table->out, entry);
}

/* An SRQ with very many QPs fits nowhere, and ends the dump. */
static int table_add(const struct vb_nl_object *object, void *arg)
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

static int dump_table(const struct vb_adapter *adapter, struct vb_nl_request *request,
		      struct vb_nl_out *out)
{
	struct table table = { adapter, request, vb_nl_kind_of(request), out };
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
	const struct vb_nl_kind *kind;
	uint32_t id;
	struct vb_nl_object found;
};

static int match_object(const struct vb_nl_object *object, void *arg)
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
	vb_nl_put_object(out, search->kind, &search->found, request);
	vb_nl_message_end(out);
}

static int get_object(const struct vb_adapter *adapter, struct vb_nl_request *request,
		      struct vb_nl_out *out)
{
	struct search search = { .kind = vb_nl_kind_of(request) };
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

static int count_object(const struct vb_nl_object *object, void *arg)
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
	for (unsigned i = 0; i < vb_nl_kind_count; i++) {
		uint64_t count = 0;
		struct walk walk = { &all, adapter, &vb_nl_kinds[i], count_object, &count };

		walk_objects(&walk);
		put_count(out, vb_nl_kinds[i].name, count);
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
