/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/atomic.h"

#include <errno.h>
#include <string.h>
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

static int copy_result(ssize_t copied, size_t length)
{
	return copied == (ssize_t)length ? 0 : copied < 0 ? -errno : -EFAULT;
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

/* The bytes of the target before and after: value is NULL for a read. */
static int move_there(struct vb_peer *target, uint64_t address, void *old, void *value,
		      size_t length)
{
	struct iovec here = { value ? value : old, length };
	struct iovec there = { (void *)(uintptr_t)address, length };

	if (!value)
		return copy_result(process_vm_readv(target->tid, &here, 1, &there, 1, 0), length);
	vb_tell_filled(value, length);
	/* Behind the bytes of operations before; pairs as the fence in vb_copy_plain (copy.c). */
	atomic_thread_fence(memory_order_release);
	return copy_result(process_vm_writev(target->tid, &here, 1, &there, 1, 0), length);
}

static int apply_there(struct vb_peer *target, uint64_t address, const struct vb_atomic *op,
		       uint64_t *old)
{
	int err = move_there(target, address, old, NULL, sizeof(*old));
	uint64_t value;

	if (err)
		return err;
	if (vb_adversary_on())
		let_time_pass(address);
	value = atomic_result(op, *old);
	return value == *old ? 0 : move_there(target, address, old, &value, sizeof(value));
}

static int masked_there(struct vb_peer *target, uint64_t address, const struct vb_masked *op,
			uint8_t *old)
{
	int err = move_there(target, address, old, NULL, op->width);
	uint8_t value[VB_MASKED_BYTES_MAX];

	if (err)
		return err;
	if (vb_adversary_on())
		let_time_pass(address);
	vb_masked_result(op, old, value);
	if (!memcmp(old, value, op->width))
		return 0;
	return move_there(target, address, old, value, op->width);
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

/* Is the word as in old? Then it becomes value; else old becomes the word. */
static bool word_exchange(void *at, unsigned width, uint8_t *old, const uint8_t *value)
{
	uint64_t before = 0, after = 0;
	bool done;

	memcpy(&before, old, width);
	memcpy(&after, value, width);
	switch (width) {
	case 1:
		done = __atomic_compare_exchange_n((uint8_t *)at, (uint8_t *)&before,
						   (uint8_t)after, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST);
		break;
	case 2:
		done = __atomic_compare_exchange_n((uint16_t *)at, (uint16_t *)&before,
						   (uint16_t)after, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST);
		break;
	case 4:
		done = __atomic_compare_exchange_n((uint32_t *)at, (uint32_t *)&before,
						   (uint32_t)after, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST);
		break;
	default:
		done = __atomic_compare_exchange_n((uint64_t *)at, &before, after, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	memcpy(old, &before, width);
	return done;
}

/* Wider than a word: atomic against other RDMA atomics only, as the device promises. */
static int masked_here(void *at, const struct vb_masked *op, uint8_t *old)
{
	uint8_t value[VB_MASKED_BYTES_MAX];

	memcpy(old, at, op->width);
	do
		vb_masked_result(op, old, value);
	while (op->width <= sizeof(uint64_t) && !word_exchange(at, op->width, old, value));
	if (op->width > sizeof(uint64_t))
		memcpy(at, value, op->width);
	return 0;
}

/* --- the lock of atomics, in the lent part of the target --- */

static bool lock_try(struct vb_peer *target)
{
	uint32_t expected = 0;

	return !meets_another() && atomic_compare_exchange_strong(&target->lent->atomics, &expected,
								  1u + target->id_there);
}

static void lock_release(struct vb_peer *target)
{
	uint32_t mine = 1u + target->id_there;

	atomic_compare_exchange_strong(&target->lent->atomics, &mine, 0);
}

/* The target's bytes, where this process can load and store them itself; NULL: it cannot. */
static void *mapped_at(const struct vb_peer *target, uint64_t address, void *mapped)
{
	return target->self && !vb_odp_in_use() ? (void *)(uintptr_t)address : mapped;
}

int vb_atomic_apply(struct vb_peer *target, uint64_t address, void *mapped,
		    const struct vb_atomic *op, uint64_t *old)
{
	int err;

	mapped = mapped_at(target, address, mapped);
	if (!lock_try(target))
		return -EAGAIN;
	err = mapped ? apply_here(mapped, op, old) : apply_there(target, address, op, old);
	lock_release(target);
	return err;
}

int vb_masked_apply(struct vb_peer *target, uint64_t address, void *mapped,
		    const struct vb_masked *op, uint8_t *old)
{
	int err;

	mapped = mapped_at(target, address, mapped);
	if (!lock_try(target))
		return -EAGAIN;
	err = mapped ? masked_here(mapped, op, old) : masked_there(target, address, op, old);
	lock_release(target);
	return err;
}
