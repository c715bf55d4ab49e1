/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/atomic.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/adversary.h"
#include "nic/odp.h"

enum { GAP_NS_MAX = 1000000 };

static uint64_t atomic_result(const struct vb_atomic *op, uint64_t old)
{
	if (op->write)
		return op->swap;
	if (!op->compare_swap)
		return old + op->compare_add;
	return old == op->compare_add ? op->swap : old;
}

static int copy_result(ssize_t copied)
{
	return copied == 8 ? 0 : copied < 0 ? -errno : -EFAULT;
}

/* IBV_ATOMIC_HCA: an atomic may lose what a CPU stores meanwhile. */
__attribute__((cold, noinline)) static void let_time_pass(uint64_t address)
{
	uint64_t bits;

	if (!vb_adversary_draws_next(VB_DEED_ATOMIC_GAP, 0, &bits))
		return;
	vb_adversary_note(VB_DEED_ATOMIC_GAP, 0, 0,
			  "an atomic at %p waits between its load and its store",
			  (void *)(uintptr_t)address);
	vb_adversary_pause(vb_adversary_time_ns(bits, GAP_NS_MAX));
}

/* Another atomic has the lock. */
static bool meets_another(void)
{
	uint64_t bits;

	if (!vb_adversary_on() || !vb_adversary_draws_next(VB_DEED_ATOMIC_BUSY, 0, &bits))
		return false;
	vb_adversary_note(VB_DEED_ATOMIC_BUSY, 0, 0, "an atomic waits for another one");
	return true;
}

static int apply_there(struct vb_peer *target, uint64_t address, const struct vb_atomic *op,
		       uint64_t *old)
{
	uint64_t value;
	struct iovec here = { old, 8 }, there = { (void *)(uintptr_t)address, 8 };

	int err = copy_result(process_vm_readv(target->tid, &here, 1, &there, 1, 0));

	if (err)
		return err;
	if (vb_adversary_on())
		let_time_pass(address);
	value = atomic_result(op, *old);
	if (value == *old)
		return 0;
	here.iov_base = &value;
	vb_tell_filled(&value, sizeof(value));
	/* Behind the bytes of operations before; pairs as the fence in vb_copy_plain (copy.c). */
	atomic_thread_fence(memory_order_release);
	return copy_result(process_vm_writev(target->tid, &here, 1, &there, 1, 0));
}

/* The CPU's own atomics: atomic against the program's threads as well. */
static int apply_here(void *at, const struct vb_atomic *op, uint64_t *old)
{
	_Atomic uint64_t *word = at;

	*old = atomic_load(word);
	while (!atomic_compare_exchange_weak(word, old, atomic_result(op, *old)))
		;
	return 0;
}

int vb_atomic_apply(struct vb_peer *target, uint64_t address, void *mapped,
		    const struct vb_atomic *op, uint64_t *old)
{
	_Atomic uint32_t *lock = &target->lent->atomics;
	uint32_t mine = 1u + target->id_there, expected = 0;
	int err;

	if (target->self && !vb_odp_in_use())
		mapped = (void *)(uintptr_t)address;
	if (meets_another() || !atomic_compare_exchange_strong(lock, &expected, mine))
		return -EAGAIN;
	err = mapped ? apply_here(mapped, op, old) : apply_there(target, address, op, old);
	expected = mine;
	atomic_compare_exchange_strong(lock, &expected, 0);
	return err;
}
