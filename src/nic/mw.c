/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/mw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "nic/fact.h"
#include "nic/key_table.h"
#include "nic/tell.h"

enum {
	REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	REMOTE_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

/* The struct of a deallocated window, or a new one; its gone is set. Under nic->lock. */
static struct vb_mw *struct_take(struct vb_nic *nic)
{
	struct vb_mw *mw;

	if (!vb_list_empty(&nic->free_mws)) {
		mw = vb_container(nic->free_mws.next, struct vb_mw, node);
		vb_list_remove(&mw->node);
		return mw;
	}
	mw = calloc(1, sizeof(*mw));
	if (mw)
		atomic_store(&mw->gone, true);
	return mw;
}

static struct vb_mw *window_add(struct vb_nic *nic)
{
	struct vb_mw *mw = NULL;

	pthread_mutex_lock(&nic->lock);
	if (nic->mw_count < vb_fact(VB_FACT_MAX_MW))
		mw = struct_take(nic);
	if (mw && vb_key_alloc(nic, &mw->index, &mw->entry)) {
		vb_list_append(&nic->free_mws, &mw->node);
		mw = NULL;
	}
	if (mw) {
		nic->mw_count++;
		vb_list_append(&nic->mws, &mw->node);
	}
	pthread_mutex_unlock(&nic->lock);
	return mw;
}

uint32_t vb_mw_rkey(const struct vb_mw *mw, uint32_t asked)
{
	return vb_key_encode(&mw->nic->seg.head->keys, mw->index, true, (uint8_t)asked);
}

int vb_mw_alloc(struct vb_pd *pd, enum ibv_mw_type type, struct vb_mw **out)
{
	struct vb_mw *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		vb_explain("ibv_alloc_mw: type %d is neither 1 nor 2", (int)type);
		return -EINVAL;
	}
	if (!vb_fact(VB_FACT_MAX_MW) ||
	    !vb_fact_has(VB_FACT_DEVICE_CAP_FLAGS, type == IBV_MW_TYPE_1
							   ? IBV_DEVICE_MEM_WINDOW
							   : IBV_DEVICE_MEM_WINDOW_TYPE_2B)) {
		vb_explain("ibv_alloc_mw: the device has no memory windows of type %d", type);
		return -EOPNOTSUPP;
	}
	mw = window_add(pd->nic);
	if (!mw) {
		vb_explain("ibv_alloc_mw: all %u memory windows are in use, or there is no memory",
			   vb_fact_u32(VB_FACT_MAX_MW));
		return -ENOMEM;
	}
	mw->nic = pd->nic;
	mw->pd = pd;
	mw->ibv.context = pd->ibv.context;
	mw->ibv.pd = &pd->ibv;
	mw->ibv.type = type;
	mw->ibv.handle = mw->index;
	mw->ibv.rkey = vb_mw_rkey(mw, mw->entry->tags >> 8);
	mw->entry->kind = type == IBV_MW_TYPE_1 ? VB_KEY_WINDOW_1 : VB_KEY_WINDOW_2;
	mw->entry->pd = pd->id;
	mw->invalid = vb_peer_key_invalid(mw->nic->self, mw->entry);
	atomic_store(&mw->entry->word, mw->entry->tags & 0xffff); /* not VALID: not bound */
	atomic_store(&mw->gone, false);
	atomic_fetch_add(&pd->users, 1);
	*out = mw;
	return 0;
}

static bool is_bound(const struct vb_mw *mw)
{
	uint32_t word = atomic_load(&mw->entry->word);

	return word & VB_KEY_VALID && !vb_key_is_taken_back(mw->invalid, word);
}

/* Waits for threads that use or bind the window at this moment, as with a region. */
static int window_close(struct vb_mw *mw)
{
	const struct vb_ending ending = vb_ending_memory(mw->entry->addr, mw->entry->length);
	uint32_t slot;

	atomic_fetch_and(&mw->entry->word, ~(uint32_t)VB_KEY_VALID);
	if (vb_grace_pass(mw->nic, &ending, &slot) >= 0)
		return 0;
	vb_explain("ibv_dealloc_mw: the process with slot %u is stopped while it uses the window",
		   slot);
	return -EBUSY;
}

static int window_withdraw(struct vb_mw *mw)
{
	int err;

	atomic_store(&mw->gone, true);
	do /* once more if a bind that was under way has opened the window */
		err = window_close(mw);
	while (!err && is_bound(mw));
	if (err)
		atomic_store(&mw->gone, false);
	return err;
}

int vb_mw_dealloc(struct vb_mw *mw)
{
	struct vb_nic *nic = mw->nic;
	struct vb_pd *pd = mw->pd;
	int err;

	if (nic != vb_nic_current()) {
		free(mw); /* the child's copy: the child has no queued bind of it */
	} else {
		err = window_withdraw(mw);
		if (err)
			return err;
		pthread_mutex_lock(&nic->lock);
		vb_list_remove(&mw->node);
		nic->mw_count--;
		vb_key_free(nic, mw->index);
		vb_list_append(&nic->free_mws, &mw->node);
		pthread_mutex_unlock(&nic->lock);
	}
	vb_pd_release(pd, nic);
	return 0;
}

bool vb_mw_has_bound_to(const struct vb_mr *mr)
{
	bool any = false;

	vb_list_for(mw, &mr->nic->mws, struct vb_mw, node)
		any |= is_bound(mw) && mw->bound_lkey == mr->ibv.lkey;
	return any;
}

bool vb_mw_any_bound_to(const struct vb_mr *mr)
{
	bool any;

	pthread_mutex_lock(&mr->nic->lock);
	any = vb_mw_has_bound_to(mr);
	pthread_mutex_unlock(&mr->nic->lock);
	return any;
}

static bool may_bind(const struct vb_mw_bind *bind, const struct vb_mr *mr, const struct vb_pd *pd)
{
	uint64_t inside = bind->addr - mr->iova;

	return vb_pd_same(mr->pd, pd) && mr->access & IBV_ACCESS_MW_BIND &&
	       bind->addr >= mr->iova && inside <= mr->length &&
	       bind->length <= mr->length - inside &&
	       (!(bind->access & REMOTE_WRITES) || mr->access & IBV_ACCESS_LOCAL_WRITE);
}

/* Sets the new key; valid 0: unbound, or not bound yet. */
static void set_word(struct vb_mw *mw, uint32_t rkey, uint32_t valid)
{
	mw->entry->tags = (mw->entry->tags & ~0xff00u) | (rkey & 0xff) << 8;
	atomic_store(mw->invalid, 0);
	atomic_store(&mw->entry->word, (mw->entry->tags & 0xffff) | valid);
}

static bool bind_execute(const struct vb_mw_bind *bind, const struct vb_pd *pd, uint32_t qpn)
{
	struct vb_mw *mw = bind->mw;
	struct vb_key_entry *entry = mw->entry;
	struct vb_mr *mr;

	/* The struct may belong to another window by now, which has another index. */
	if (!vb_pd_same(mw->pd, pd) || (bind->rkey ^ vb_mw_rkey(mw, 0)) >> 8)
		return false;
	/* An invalidation takes a bound window back, not a bind (IBA o10-37.2.30, 40). */
	if (mw->ibv.type == IBV_MW_TYPE_2 && (is_bound(mw) || !bind->length))
		return false;
	if (!bind->length) {
		set_word(mw, bind->rkey, 0);
		return true;
	}
	mr = vb_mr_by_lkey(mw->nic, bind->lkey);
	if (!mr || !may_bind(bind, mr, pd))
		return false;
	/*
	 * Readers look at the word again after the fields; pairs with the fence in vb_rkey_check.
	 */
	set_word(mw, bind->rkey, 0);
	atomic_thread_fence(memory_order_release);
	entry->access = bind->access & REMOTE;
	entry->iova = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	entry->length = bind->length;
	entry->addr = (uintptr_t)vb_mr_ptr(mr, bind->addr);
	entry->qpn = mw->ibv.type == IBV_MW_TYPE_2 ? qpn : 0;
	atomic_store(&entry->map, atomic_load(&mr->entry->map));
	vb_tell_opened(entry->addr, entry->length, entry->access);
	atomic_store_explicit(&mw->bound_lkey, bind->lkey, memory_order_relaxed);
	set_word(mw, bind->rkey, VB_KEY_VALID);
	return true;
}

static void region_words(const struct vb_mw_bind *bind, const struct vb_mr *mr,
			 const struct vb_pd *pd, char *text, size_t size)
{
	const uint64_t inside = bind->addr - mr->iova;

	if (!vb_pd_same(mr->pd, pd))
		snprintf(text, size,
			 "the region with lkey 0x%08x belongs to PD %u, the QP to PD %u",
			 bind->lkey, mr->pd->id, pd->id);
	else if (!(mr->access & IBV_ACCESS_MW_BIND))
		snprintf(text, size,
			 "the region with lkey 0x%08x was registered without IBV_ACCESS_MW_BIND",
			 bind->lkey);
	else if (bind->addr < mr->iova || inside > mr->length || bind->length > mr->length - inside)
		snprintf(text, size,
			 "%llu bytes at 0x%llx are not inside the region with lkey 0x%08x (%llu "
			 "bytes at 0x%llx)",
			 (unsigned long long)bind->length, (unsigned long long)bind->addr,
			 bind->lkey, (unsigned long long)mr->length, (unsigned long long)mr->iova);
	else if (bind->access & REMOTE_WRITES && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		snprintf(text, size,
			 "the window is to be written, and the region with lkey 0x%08x was "
			 "registered without IBV_ACCESS_LOCAL_WRITE",
			 bind->lkey);
}

/* Inside a hazard, which keeps the region. */
static void refusal_words(const struct vb_mw_bind *bind, const struct vb_pd *pd, char *text,
			  size_t size)
{
	const struct vb_mw *mw = bind->mw;
	const struct vb_mr *mr = vb_mr_by_lkey(mw->nic, bind->lkey);

	if (atomic_load(&mw->gone) || (bind->rkey ^ vb_mw_rkey(mw, 0)) >> 8)
		snprintf(text, size, "the window was deallocated");
	else if (!vb_pd_same(mw->pd, pd))
		snprintf(text, size, "the window belongs to PD %u, the QP to PD %u", mw->pd->id,
			 pd->id);
	else if (mw->ibv.type == IBV_MW_TYPE_2 && is_bound(mw))
		snprintf(text, size,
			 "the window of type 2 is bound: an invalidation has to come first");
	else if (mw->ibv.type == IBV_MW_TYPE_2 && !bind->length)
		snprintf(text, size, "a window of type 2 is not unbound by a bind of 0 bytes");
	else if (!mr)
		snprintf(text, size, "no memory region has lkey 0x%08x", bind->lkey);
	else
		region_words(bind, mr, pd, text, size);
}

void vb_mw_words(const struct vb_mw_bind *bind, const struct vb_pd *pd, char *text, size_t size)
{
	struct vb_thread *thread = vb_thread_get();
	bool visit;

	*text = '\0';
	if (!thread)
		return;
	visit = vb_hazard_visit(thread, thread->nic->seg.head->slot);
	refusal_words(bind, pd, text, size);
	if (visit)
		vb_hazard_leave(thread);
}

bool vb_mw_bind(const struct vb_mw_bind *bind, const struct vb_pd *pd, uint32_t qpn)
{
	struct vb_thread *thread = vb_thread_get();
	bool visit, done;

	if (!thread)
		return false;
	visit = vb_hazard_visit(thread, thread->nic->seg.head->slot);
	done = !atomic_load(&bind->mw->gone) && bind_execute(bind, pd, qpn);
	if (visit)
		vb_hazard_leave(thread);
	return done;
}

/* The owner clears VALID in its word. A sender cannot: it writes the word that is not valid any
 * more. */
static bool word_take_back(struct vb_peer *target, const struct vb_key_entry *entry, uint32_t word)
{
	_Atomic uint32_t *own = (_Atomic uint32_t *)&entry->word;
	_Atomic uint32_t *invalid = vb_peer_key_invalid(target, entry);
	uint32_t before = invalid ? atomic_load(invalid) : word;

	if (before == word)
		return false;
	if (target->self)
		return atomic_compare_exchange_strong(own, &word, word & ~(uint32_t)VB_KEY_VALID);
	return atomic_compare_exchange_strong(invalid, &before, word);
}

static bool is_window_of(const struct vb_key_entry *entry, uint32_t qpn)
{
	return entry && entry->kind == VB_KEY_WINDOW_2 && entry->qpn == qpn;
}

bool vb_mw_invalidate(struct vb_peer *target, uint32_t rkey, uint32_t pd, uint32_t qpn)
{
	const struct vb_key_entry *entry = vb_peer_key(target, rkey, true);
	uint32_t word = entry ? atomic_load(&entry->word) : 0;

	return is_window_of(entry, qpn) && entry->pd == pd && vb_key_matches(word, rkey, true) &&
	       word_take_back(target, entry, word);
}

void vb_mw_settle(struct vb_nic *nic, uint32_t rkey, uint32_t qpn)
{
	const struct vb_key_entry *entry = vb_peer_key(nic->self, rkey, true);
	uint32_t word = entry ? atomic_load(&entry->word) : 0;

	if (is_window_of(entry, qpn) && vb_key_matches(word, rkey, true))
		atomic_compare_exchange_strong((_Atomic uint32_t *)&entry->word, &word,
					       word & ~(uint32_t)VB_KEY_VALID);
}
