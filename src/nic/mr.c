/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "nic/buf.h"
#include "nic/dm.h"
#include "nic/dmah.h"
#include "nic/fact.h"
#include "nic/key_table.h"
#include "nic/map.h"
#include "nic/mw.h"
#include "nic/odp.h"
#include "nic/rq.h"
#include "nic/tell.h"
#include "nic/umr.h"

enum {
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_FLUSH_GLOBAL,
};

int vb_mr_check_access(unsigned access)
{
	unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE; /* hints: unknown ones are ignored */
	if (access & ~(unsigned)ACCESS_KNOWN) {
		vb_explain("memory region: access flags 0x%x are not supported",
			   access & ~(unsigned)ACCESS_KNOWN);
		return -EINVAL;
	}
	if (access & remote_writes && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		vb_explain("memory region: IBV_ACCESS_REMOTE_WRITE and "
			   "IBV_ACCESS_REMOTE_ATOMIC need IBV_ACCESS_LOCAL_WRITE");
		return -EINVAL;
	}
	return 0;
}

/* A NIC pins the pages. Here they are only made present, and a bad range is refused. */
static int check_memory(const struct vb_mr_spec *spec)
{
	bool write = spec->access & IBV_ACCESS_LOCAL_WRITE;
	int err = vb_odp_make_present(spec->addr, spec->length, write);

	if (err)
		vb_explain(
			"memory region: the range 0x%llx + %llu is not %s memory of this process",
			(unsigned long long)spec->addr, (unsigned long long)spec->length,
			write ? "writable" : "readable");
	return err;
}

static int check_spec(const struct vb_mr_spec *spec)
{
	int err = vb_mr_check_access(spec->access);

	if (err || vb_odp_implicit(spec))
		return err ? err : vb_odp_check_implicit(spec);
	if (spec->length > vb_fact(VB_FACT_MAX_MR_SIZE) || spec->addr + spec->length < spec->addr ||
	    spec->iova + spec->length < spec->iova) {
		vb_explain(
			"memory region: %llu bytes at 0x%llx, iova 0x%llx: more than max_mr_size "
			"%llu, or beyond the end of the address space",
			(unsigned long long)spec->length, (unsigned long long)spec->addr,
			(unsigned long long)spec->iova,
			(unsigned long long)vb_fact(VB_FACT_MAX_MR_SIZE));
		return -EINVAL;
	}
	return spec->access & IBV_ACCESS_ON_DEMAND ? vb_odp_check() : check_memory(spec);
}

static void key_publish(struct vb_mr *mr, uint32_t word)
{
	struct vb_key_entry *entry = mr->entry;

	entry->pd = mr->pd->id;
	entry->access = mr->access;
	entry->iova = mr->iova;
	entry->length = mr->null ? UINT32_MAX : mr->length; /* as long as elements can be */
	entry->addr = mr->addr;
	entry->kind = VB_KEY_REGION;
	entry->qpn = 0;
	if (mr->indirect) {
		entry->kind = VB_KEY_INDIRECT;
		entry->addr = mr->indirect->offset;
		entry->qpn = mr->indirect->room;
	}
	/* Pairs with the load in vb_peer_key: a reader that sees the word sees the fields. */
	atomic_store(&entry->word,
		     word | VB_KEY_VALID | (mr->ibv.lkey == mr->ibv.rkey ? VB_KEY_EQUAL : 0));
	__atomic_store_n(&mr->nic->mrs[mr->index / VB_KEY_PAGE][mr->index % VB_KEY_PAGE], mr,
			 __ATOMIC_RELEASE);
}

static void set_spec(struct vb_mr *mr, const struct vb_mr_spec *spec)
{
	vb_odp_count(mr->nic, mr->access, spec->access);
	mr->access = spec->access;
	mr->addr = spec->addr;
	mr->length = spec->length;
	mr->iova = spec->access & IBV_ACCESS_ZERO_BASED ? 0 : spec->iova;
	mr->ibv.addr = mr->dm || mr->mapping || mr->indirect ? NULL : (void *)(uintptr_t)spec->addr;
	mr->ibv.length = spec->length;
	vb_tell_opened(spec->addr, spec->length, spec->access);
}

/* A null region has no rkey. */
static void keys_make(struct vb_mr *mr)
{
	const struct vb_permutation *keys = &mr->nic->seg.head->keys;
	uint32_t *tags = &mr->entry->tags;

	mr->ibv.lkey = mr->ibv.rkey = vb_key_encode(keys, mr->index, false, (uint8_t)*tags);
	if (mr->nic->distinct_keys)
		mr->ibv.rkey = vb_key_encode(keys, mr->index, true, (uint8_t)(*tags >> 8));
	else
		*tags = (*tags & ~0xff00u) | (*tags & 0xff) << 8;
	if (mr->null)
		mr->ibv.rkey = 0;
}

static int mr_make(struct vb_mr *mr, struct vb_pd *pd, const struct vb_mr_spec *spec)
{
	struct vb_nic *nic = pd->nic;

	mr->nic = nic;
	mr->pd = pd;
	set_spec(mr, spec);
	pthread_mutex_lock(&nic->lock);
	if (nic->mr_count >= vb_fact(VB_FACT_MAX_MR) || vb_key_alloc(nic, &mr->index, &mr->entry)) {
		pthread_mutex_unlock(&nic->lock);
		return -ENOMEM;
	}
	if (mr->foreign && vb_key_alias_add(nic, mr->index, mr->ibv.lkey, mr->ibv.rkey)) {
		vb_key_free(nic, mr->index);
		pthread_mutex_unlock(&nic->lock);
		return -ENOMEM;
	}
	nic->mr_count++;
	if (!mr->foreign)
		keys_make(mr);
	key_publish(mr, mr->entry->tags & 0xffff);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

int vb_mr_create(struct vb_mr *mr, struct vb_pd *pd, const struct vb_mr_spec *spec)
{
	int err = mr_make(mr, pd, spec);

	if (err) {
		vb_odp_count(pd->nic, mr->access, 0);
		free(mr);
		return err;
	}
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	atomic_fetch_add(&pd->users, 1);
	if (mr->null)
		mr->ibv.addr = NULL;
	mr->export = vb_export_get(vb_context(pd->ibv.context)->export);
	if (!mr->foreign && !mr->indirect)
		mr->ibv.handle = vb_export_mr_add(mr->export, mr);
	return 0;
}

static int region_create(struct vb_pd *pd, const struct vb_mr_spec *spec,
			 const struct vb_null *null, struct vb_mr **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->null = null;
	return vb_mr_create(*out, pd, spec);
}

int vb_mr_register(struct vb_pd *pd, const struct vb_mr_spec *spec, struct vb_mr **out)
{
	int err = check_spec(spec);

	if (!err)
		err = region_create(pd, spec, NULL, out);
	if (!err)
		vb_map_registered(*out);
	return err;
}

int vb_mr_alloc_null(struct vb_pd *pd, struct vb_mr **out)
{
	struct vb_mr_spec spec = { .length = UINT64_MAX, .access = IBV_ACCESS_LOCAL_WRITE };
	const struct vb_null *null;
	int err = vb_null_get(pd->nic, &null);

	if (err)
		return err;
	spec.addr = null->sink; /* for peers, through the key table: they only write */
	return region_create(pd, &spec, null, out);
}

static int withdraw_later(uint32_t slot)
{
	vb_explain("the process with slot %u is stopped while it copies to or from this memory; "
		   "continue or end it, then deregister again",
		   slot);
	return -EBUSY;
}

/* Afterwards nothing uses the memory any more: no peer, no thread, no poll. */
static int region_withdraw(struct vb_mr *mr)
{
	struct vb_ending ending = vb_ending_memory(mr->addr, mr->length);
	struct vb_map_leave leave;
	uint32_t slot;

	atomic_fetch_and(&mr->entry->word, ~(uint32_t)VB_KEY_VALID);
	__atomic_store_n(&mr->nic->mrs[mr->index / VB_KEY_PAGE][mr->index % VB_KEY_PAGE], NULL,
			 __ATOMIC_RELEASE);
	atomic_fetch_add(&mr->nic->mr_generation, 1);
	if (!mr->indirect)
		vb_umr_forget(mr);
	if (atomic_load(&mr->used_by_recv))
		vb_rq_forget_keys(mr->nic, mr);
	vb_map_leave_begin(mr, &leave);
	ending.severed = leave.severed;
	if (vb_grace_pass(mr->nic, &ending, &slot) < 0) {
		vb_map_leave_cancel(&leave);
		return withdraw_later(slot);
	}
	if (vb_mw_any_bound_to(mr)) { /* a thread that was inside has bound a window */
		vb_map_leave_cancel(&leave);
		key_publish(mr, atomic_load(&mr->entry->word) & 0xffff);
		vb_explain("ibv_dereg_mr: another thread has bound a memory window to the region "
			   "with lkey 0x%08x",
			   mr->ibv.lkey);
		return -EBUSY;
	}
	if (atomic_load(&mr->used_by_recv))
		vb_rq_settle(mr->nic, mr);
	if (vb_map_leave_end(mr, &leave))
		return 0;
	ending.severed = false;
	return vb_grace_pass(mr->nic, &ending, &slot) < 0 ? withdraw_later(slot) : 0;
}

/* Frees the object and all it has besides its keys. */
static void object_free(struct vb_mr *mr)
{
	if (mr->mapping)
		munmap(mr->mapping, mr->mapping_length);
	if (mr->dmah)
		atomic_fetch_sub(&mr->dmah->users, 1);
	if (mr->buf)
		vb_buf_release(mr->buf);
	vb_export_mr_forget(mr->export, mr);
	vb_export_put(mr->export);
	vb_pd_release(mr->pd, mr->nic);
	free(mr);
}

static int check_windows(const struct vb_mr *mr, const char *call)
{
	if (!vb_mw_any_bound_to(mr))
		return 0;
	vb_explain("%s: memory windows are bound to the region with lkey 0x%08x: invalidate or "
		   "unbind them first",
		   call, mr->ibv.lkey);
	return -EBUSY;
}

static int check_stays(const struct vb_mr *mr, const char *call)
{
	if (!mr->destroyed)
		return 0;
	vb_explain("%s: the region with lkey 0x%08x was deregistered through an imported object; "
		   "use ibv_unimport_mr",
		   call, mr->ibv.lkey);
	return -EINVAL;
}

int vb_mr_take_back(struct vb_mr *mr)
{
	int err = check_windows(mr, "ibv_dereg_mr");

	if (!err)
		err = region_withdraw(mr);

	if (err)
		return err;
	if (!mr->foreign && !mr->indirect)
		vb_export_mr_remove(mr->export, mr->ibv.handle);
	if (mr->indirect)
		vb_umr_withdraw(mr);
	if (mr->dm)
		vb_dm_use(mr->export, mr->dm - 1, -1);
	pthread_mutex_lock(&mr->nic->lock);
	if (mr->foreign)
		vb_key_alias_remove(mr->nic, mr->index);
	vb_key_free(mr->nic, mr->index);
	if (mr->indirect)
		vb_umr_free(mr);
	mr->nic->mr_count--;
	pthread_mutex_unlock(&mr->nic->lock);
	vb_odp_count(mr->nic, mr->access, 0);
	return 0;
}

int vb_mr_deregister(struct vb_mr *mr)
{
	int err = 0;

	if (mr->imported)
		return vb_mr_deregister_imported(mr);
	if (mr->nic == vb_nic_current())
		err = check_stays(mr, "ibv_dereg_mr");
	if (!err && mr->nic == vb_nic_current())
		err = vb_mr_take_back(mr);
	else if (!err && mr->indirect)
		vb_umr_drop(mr);
	if (!err)
		object_free(mr);
	return err;
}

/* Before the region changes: a refused call leaves it as it was. */
static int check_reregister(const struct vb_mr *mr, const struct vb_mr_spec *spec)
{
	int err = check_stays(mr, "ibv_rereg_mr");

	if (!err && mr->indirect) {
		vb_explain("ibv_rereg_mr: the memory region with lkey 0x%08x is an indirect key: a "
			   "work request of the type UMR fills it",
			   mr->ibv.lkey);
		err = -EINVAL;
	}
	if (!err)
		err = check_windows(mr, "ibv_rereg_mr");
	if (err || !mr->dm)
		return err ? err : check_spec(spec);
	if (spec->addr != mr->addr || spec->length != mr->length ||
	    !(spec->access & IBV_ACCESS_ZERO_BASED)) {
		vb_explain("ibv_rereg_mr: device memory cannot move or grow, and stays zero-based");
		return -EINVAL;
	}
	return vb_mr_check_access(spec->access);
}

int vb_mr_reregister(struct vb_mr *mr, const struct vb_mr_spec *spec, struct vb_pd *pd)
{
	int err = check_reregister(mr, spec);
	uint32_t tags = err ? 0 : atomic_load(&mr->entry->word) & 0xffff;

	if (!err)
		err = region_withdraw(mr);
	if (err)
		return err;
	if (pd && pd != mr->pd) {
		atomic_fetch_add(&pd->users, 1);
		vb_pd_release(mr->pd, mr->nic);
		mr->pd = pd;
		mr->ibv.pd = &pd->ibv;
	}
	set_spec(mr, spec);
	key_publish(mr, tags);
	vb_export_mr_update(mr->export, mr);
	return 0;
}

static struct vb_mr *mr_at(struct vb_nic *nic, uint32_t index)
{
	struct vb_mr **page = __atomic_load_n(&nic->mrs[index / VB_KEY_PAGE], __ATOMIC_ACQUIRE);

	return page ? __atomic_load_n(&page[index % VB_KEY_PAGE], __ATOMIC_ACQUIRE) : NULL;
}

static struct vb_mr *mr_by_alias(struct vb_nic *nic, uint32_t lkey)
{
	struct vb_mr *mr = NULL;
	bool rkey_only;
	uint32_t index;

	if (vb_key_find_alias(nic->seg.head, lkey, &rkey_only, &index))
		mr = mr_at(nic, index);
	return mr && mr->ibv.lkey == lkey ? mr : NULL;
}

struct vb_mr *vb_mr_by_lkey(struct vb_nic *nic, uint32_t lkey)
{
	struct vb_mr *mr = NULL;
	bool rkey_only;
	uint32_t index;

	if (vb_key_decode(&nic->seg.head->keys, lkey, &rkey_only, &index))
		mr = mr_at(nic, index);
	return mr && mr->ibv.lkey == lkey ? mr : mr_by_alias(nic, lkey);
}

static bool mapping_covers(const struct vb_mr *mr, uint64_t addr, uint64_t length)
{
	return mr->mapping && addr >= mr->addr && addr - mr->addr <= mr->length &&
	       length <= mr->length - (addr - mr->addr);
}

/* Inside a hazard: the deregistration of a region waits meanwhile. */
bool vb_mr_mapping_covers(struct vb_nic *nic, uint64_t addr, uint64_t length)
{
	struct vb_thread *thread = vb_thread_get();
	bool visit, found = false;

	if (!thread)
		return false;
	visit = vb_hazard_visit(thread, nic->seg.head->slot);
	for (uint32_t i = 0; i < nic->keys_made && !found; i++) {
		const struct vb_mr *mr = mr_at(nic, i);

		found = mr && mapping_covers(mr, addr, length);
	}
	if (visit)
		vb_hazard_leave(thread);
	return found;
}

struct vb_mr *vb_mr_lookup(struct vb_nic *nic, const struct vb_pd *pd, const struct ibv_sge *sge,
			   unsigned access)
{
	struct vb_mr *mr = vb_mr_by_lkey(nic, sge->lkey);

	if (!mr || !vb_pd_same(mr->pd, pd) || (access & ~mr->access))
		return NULL;
	if (sge->addr < mr->iova || sge->addr - mr->iova > mr->length ||
	    sge->length > mr->length - (sge->addr - mr->iova))
		return NULL;
	return mr;
}

struct vb_mr *vb_mr_cache_fill(struct vb_mr_cache *cache, struct vb_nic *nic,
			       const struct vb_pd *pd, const struct ibv_sge *sge, unsigned access)
{
	/* Read before the look-up: if the region ends meanwhile, the cache is out of date. */
	uint32_t generation = atomic_load(&nic->mr_generation);
	struct vb_mr *mr = vb_mr_lookup(nic, pd, sge, access);

	if (mr && !mr->null && !vb_mr_on_demand(mr))
		*cache = (struct vb_mr_cache){
			.lkey = sge->lkey,
			.generation = generation,
			.access = mr->access,
			.iova = mr->iova,
			.length = mr->length,
			.delta = mr->addr - mr->iova,
		};
	return mr;
}
