/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/atomic.h"
#include "nic/odp.h"

#include <errno.h>
#include <sys/uio.h>

static uint64_t result_of(const struct vb_atomic *op, uint64_t old)
{
	if (op->write)
		return op->swap;
	if (!op->compare_swap)
		return old + op->compare_add;
	return old == op->compare_add ? op->swap : old;
}

static int apply_there(struct vb_peer *target, uint64_t address, const struct vb_atomic *op,
		       uint64_t *old)
{
	uint64_t value;
	struct iovec here = { old, 8 }, there = { (void *)(uintptr_t)address, 8 };

	if (process_vm_readv(target->tid, &here, 1, &there, 1, 0) != 8)
		return errno == ESRCH ? -ESRCH : -EFAULT;
	value = result_of(op, *old);
	if (value == *old)
		return 0;
	here.iov_base = &value;
	if (process_vm_writev(target->tid, &here, 1, &there, 1, 0) != 8)
		return errno == ESRCH ? -ESRCH : -EFAULT;
	return 0;
}

/* Within the process the CPU's own atomics: then it is atomic against its threads as well. */
static int apply_here(uint64_t address, const struct vb_atomic *op, uint64_t *old)
{
	_Atomic uint64_t *word = (void *)(uintptr_t)address;

	*old = atomic_load(word);
	while (!atomic_compare_exchange_weak(word, old, result_of(op, *old)))
		;
	return 0;
}

int vb_atomic_apply(struct vb_peer *target, uint64_t address, const struct vb_atomic *op,
		    uint64_t *old)
{
	int err = pthread_mutex_trylock(&target->head->atomics);

	/* Its holder died: with or without having written, the 8 bytes are whole. */
	if (err == EOWNERDEAD)
		err = pthread_mutex_consistent(&target->head->atomics);
	if (err)
		return -EAGAIN;
	err = target->self && !vb_odp_in_use() ? apply_here(address, op, old) :
						 apply_there(target, address, op, old);
	pthread_mutex_unlock(&target->head->atomics);
	return err;
}
