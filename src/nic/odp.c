/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/odp.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shards.h"
#include "nic/fact.h"
#include "shm/key.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096 };

/* --- registering --- */

int vb_odp_check(void)
{
	const struct vb_nic *nic = vb_nic_current();

	if (!vb_fact_has(VB_FACT_ODP_GENERAL, IBV_ODP_SUPPORT)) {
		vb_explain("memory region: the device has no on-demand paging");
		return -EOPNOTSUPP;
	}
	if (!nic || !nic->untouchable)
		return 0;
	vb_explain("memory region: on-demand paging needs process_vm_readv, which a system "
		   "call filter forbids here");
	return -EOPNOTSUPP;
}

int vb_odp_check_implicit(const struct vb_mr_spec *spec)
{
	if (!vb_fact_has(VB_FACT_ODP_GENERAL, IBV_ODP_SUPPORT_IMPLICIT)) {
		vb_explain("memory region: the device has no implicit on-demand regions");
		return -EOPNOTSUPP;
	}
	if (!spec->iova && !(spec->access & IBV_ACCESS_HUGETLB))
		return vb_odp_check();
	vb_explain("memory region: an implicit region begins at address 0 and has no page size");
	return -EINVAL;
}

void vb_odp_count(struct vb_nic *nic, unsigned before, unsigned after)
{
	int by = !!(after & IBV_ACCESS_ON_DEMAND) - !!(before & IBV_ACCESS_ON_DEMAND);

	if (by)
		atomic_fetch_add(&nic->on_demand, (uint32_t)by);
}

/* --- copying --- */

/* The id of the calling thread: the id of the process ends when main() calls pthread_exit. */
static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* The kernel does not copy the pages of some dma-bufs. They stay as long as their region. */
static bool needs_own_hands(const void *at, size_t length)
{
	struct vb_nic *nic = vb_nic_current();

	return nic && nic->own_hands && vb_mr_mapping_covers(nic, (uintptr_t)at, length);
}

static bool read_piece(void *to, const void *from, size_t length)
{
	struct iovec here = { to, length }, there = { (void *)from, length };

	if (!length || process_vm_readv(own_tid(), &here, 1, &there, 1, 0) == (ssize_t)length)
		return true;
	if (!needs_own_hands(from, length))
		return false;
	memcpy(to, from, length);
	return true;
}

static bool write_piece(void *to, const void *from, size_t length)
{
	struct iovec here = { (void *)from, length }, there = { to, length };

	vb_tell_filled(from, length);
	if (!length || process_vm_writev(own_tid(), &here, 1, &there, 1, 0) == (ssize_t)length)
		return true;
	if (!needs_own_hands(to, length))
		return false;
	memcpy(to, from, length);
	return true;
}

bool vb_odp_read(void *to, const void *from, size_t length)
{
	struct vb_shards shards;
	struct vb_shard shard;

	if (!vb_shards_begin(&shards, VB_DEED_READ_SHARDS, (uintptr_t)from, length))
		return read_piece(to, from, length);
	while (vb_shards_next(&shards, &shard))
		if (!read_piece((char *)to + shard.at, (const char *)from + shard.at, shard.length))
			return false;
	return true;
}

bool vb_odp_write(void *to, const void *from, size_t length)
{
	struct vb_shards shards;
	struct vb_shard shard;

	if (!vb_shards_begin(&shards, VB_DEED_WRITE_SHARDS, (uintptr_t)to, length))
		return write_piece(to, from, length);
	while (vb_shards_next(&shards, &shard))
		if (!write_piece((char *)to + shard.at, (const char *)from + shard.at,
				 shard.length))
			return false;
	return true;
}

/* --- making pages present --- */

/* For kernels without MADV_POPULATE: reads one byte of each page through the kernel. */
static int probe_by_reading(uint64_t addr, uint64_t length)
{
	for (uint64_t page = addr & ~(PAGE - 1ull); page < addr + length; page += PAGE) {
		char byte;

		if (!vb_odp_read(&byte, (void *)(uintptr_t)(page < addr ? addr : page), 1))
			return -EFAULT;
	}
	return 0;
}

int vb_odp_make_present(uint64_t addr, uint64_t length, bool write)
{
	uint64_t start = addr & ~(PAGE - 1ull), end = (addr + length + PAGE - 1) & ~(PAGE - 1ull);
	int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, result;

	if (!length)
		return 0;
	if (addr + length < addr || end < start)
		return -EFAULT;
	do
		result = madvise((void *)(uintptr_t)start, end - start, advice);
	while (result && (errno == EINTR || errno == EAGAIN));
	if (!result || needs_own_hands((void *)(uintptr_t)addr, length))
		return 0;
	/* EINVAL: a mapping without the right; or, if 0 bytes fail as well, an old kernel. */
	return errno == EINVAL && madvise((void *)(uintptr_t)start, 0, advice)
		       ? probe_by_reading(addr, length)
		       : -EFAULT;
}

/* --- advice --- */

/* NO_FAULT fetches nothing, but notices ranges that are not mapped. */
static int look_only(uint64_t addr, uint64_t length)
{
	enum { STEP = 256 };
	uint64_t end = addr + length;
	unsigned char present[STEP];

	for (uint64_t at = addr & ~(PAGE - 1ull); at < end; at += STEP * PAGE) {
		uint64_t rest = end - at;

		if (mincore((void *)(uintptr_t)at, rest < STEP * PAGE ? rest : STEP * PAGE,
			    present))
			return -EFAULT;
	}
	return 0;
}

static bool is_window(const struct vb_nic *nic, uint32_t key)
{
	const struct vb_key_entry *entry = vb_peer_key(nic->self, key, true);

	return entry && entry->kind != VB_KEY_REGION;
}

/* Among the lkeys of on-demand regions there is none of another region, whatever its PD. */
static int region_of(const struct vb_pd *pd, enum ibv_advise_mr_advice advice,
		     const struct ibv_sge *sge, struct vb_mr **out)
{
	struct vb_mr *mr = vb_mr_by_lkey(pd->nic, sge->lkey);

	*out = mr;
	if (!mr)
		return is_window(pd->nic, sge->lkey) ? -EINVAL : -ENOENT;
	if (!vb_mr_on_demand(mr))
		return -ENOENT;
	if (!vb_pd_same(mr->pd, pd))
		return -EPERM;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return -EPERM;
	if (sge->addr < mr->iova || sge->addr - mr->iova > mr->length ||
	    sge->length > mr->length - (sge->addr - mr->iova))
		return -EFAULT;
	return 0;
}

static int prefetch(const struct vb_mr *mr, enum ibv_advise_mr_advice advice,
		    const struct ibv_sge *sge)
{
	uint64_t addr = mr->addr + (sge->addr - mr->iova);

	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return look_only(addr, sge->length);
	return vb_odp_make_present(addr, sge->length,
				   advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

static int check_advice(enum ibv_advise_mr_advice advice, uint32_t flags, uint32_t count)
{
	if ((unsigned)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
		vb_explain("ibv_advise_mr: advice %u is not supported", (unsigned)advice);
		return -EOPNOTSUPP;
	}
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !count) {
		vb_explain("ibv_advise_mr: %s", count ? "flags have bits without a meaning"
						      : "there are no ranges to advise on");
		return -EINVAL;
	}
	return 0;
}

/* Checks all elements before it fetches any. Without FLUSH a failed prefetch is no error. */
int vb_odp_advise(struct vb_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  const struct ibv_sge *sge, uint32_t count)
{
	bool flush = flags & IBV_ADVISE_MR_FLAG_FLUSH;
	int err = check_advice(advice, flags, count);
	struct vb_mr *mr;

	for (uint32_t i = 0; !err && i < count; i++) {
		err = region_of(pd, advice, &sge[i], &mr);
		if (err)
			vb_explain(
				"ibv_advise_mr: element %u, lkey 0x%x: not an on-demand region of "
				"the PD that covers it, or not writable",
				i, sge[i].lkey);
	}
	for (uint32_t i = 0; !err && i < count; i++) {
		err = region_of(pd, advice, &sge[i], &mr);
		if (!err)
			err = prefetch(mr, advice, &sge[i]);
		if (!flush)
			err = 0;
		else if (err)
			vb_explain("ibv_advise_mr: element %u, lkey 0x%x: not all of %u bytes at "
				   "0x%llx are mapped there with the right that is needed",
				   i, sge[i].lkey, sge[i].length, (unsigned long long)sge[i].addr);
	}
	return err;
}
