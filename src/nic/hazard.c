/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/hazard.h"
#include "base/clock.h"
#include "base/message.h"
#include "nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

__thread struct vb_thread *vb_thread_self __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void thread_exit(void *arg)
{
	struct vb_thread *thread = arg;

	if (thread->nic == vb_nic_current()) {
		vb_hazard_leave(thread);
		vb_nic_hazard_free(thread->nic, thread->cell);
		if (thread->second)
			vb_nic_hazard_free(thread->nic, thread->second_cell);
	}
	free(thread);
	vb_thread_self = NULL;
}

static void exit_key_make(void)
{
	pthread_key_create(&exit_key, thread_exit);
}

struct vb_thread *vb_thread_make(void)
{
	struct vb_nic *nic = vb_nic_current();
	struct vb_thread *thread = nic ? calloc(1, sizeof(*thread)) : NULL;

	if (!thread)
		return NULL;
	thread->nic = nic;
	thread->hazard = vb_nic_hazard_alloc(nic, &thread->cell);
	if (!thread->hazard) {
		free(thread);
		return NULL;
	}
	/* A cell may have had another thread before: sequences go on. */
	thread->sequence = atomic_load(thread->hazard) >> 16;
	pthread_once(&exit_once, exit_key_make);
	pthread_setspecific(exit_key, thread);
	vb_thread_self = thread;
	return thread;
}

void vb_thread_forget(void)
{
	struct vb_thread *thread = vb_thread_self;

	if (!thread)
		return;
	vb_thread_self = NULL;
	pthread_setspecific(exit_key, NULL);
	free(thread);
}

bool vb_hazard_enter_second(struct vb_thread *thread, uint32_t slot)
{
	if (!thread->second) {
		thread->second = vb_nic_hazard_alloc(thread->nic, &thread->second_cell);
		if (!thread->second)
			return false;
		thread->second_sequence = atomic_load(thread->second) >> 16;
	}
	thread->inside_second = true;
	/* Full fence, as in vb_hazard_enter. */
	atomic_exchange(thread->second, ++thread->second_sequence << 16 | slot);
	return true;
}

void vb_hazard_leave_second(struct vb_thread *thread)
{
	thread->inside_second = false;
	atomic_store_explicit(thread->second, thread->second_sequence << 16, memory_order_release);
}

static void wait_add(struct vb_grace *grace, struct vb_peer *peer, _Atomic uint64_t *cell,
		     uint64_t word)
{
	struct vb_grace_wait *more = realloc(grace->waits, (grace->count + 1) * sizeof(*more));

	if (!more) {
		grace->failed = true;
		return;
	}
	vb_peer_get(peer);
	more[grace->count++] = (struct vb_grace_wait){ peer, cell, word };
	grace->waits = more;
}

/* The words of one process's threads that name this one. */
static void wait_for_threads_of(struct vb_grace *grace, struct vb_peer *peer, uint32_t slot, bool any)
{
	uint32_t count = atomic_load_explicit(&peer->head->hazard_count, memory_order_acquire);
	const struct vb_thread *self = vb_thread_self;

	for (uint32_t i = 0; i < count && i < VB_HAZARD_PAGES * VB_HAZARD_PAGE; i++) {
		uint64_t offset = atomic_load(&peer->head->hazard_pages[i / VB_HAZARD_PAGE]);
		struct vb_hazard_cell *page =
			offset ? vb_peer_at(peer, offset, VB_HAZARD_PAGE * sizeof(*page)) : NULL;
		_Atomic uint64_t *cell = page ? &page[i % VB_HAZARD_PAGE].word : NULL;
		uint64_t word = cell ? atomic_load(cell) : 0;
		uint32_t named = word & 0xffff;

		/* What this very thread is inside of does not end while it waits. */
		if (self && (cell == self->hazard || cell == self->second))
			continue;
		if (named && (any || named == slot))
			wait_add(grace, peer, cell, word);
	}
}

void vb_grace_begin(struct vb_nic *nic, struct vb_grace *grace, bool own_too)
{
	uint32_t slot = nic->seg.head->slot;

	*grace = (struct vb_grace){ 0 };
	/* The change of state comes before any look at a hazard; pairs with vb_hazard_enter. */
	atomic_thread_fence(memory_order_seq_cst);
	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (peer->head && vb_peer_alive(peer))
			wait_for_threads_of(grace, peer, slot, peer->self && own_too);
	}
	vb_spin_unlock(&nic->peers_lock);
}

bool vb_grace_over(struct vb_grace *grace)
{
	while (grace->count) {
		struct vb_grace_wait *wait = &grace->waits[grace->count - 1];

		if (atomic_load(wait->cell) == wait->word && vb_peer_alive(wait->peer))
			return false;
		vb_peer_put(wait->peer);
		grace->count--;
	}
	free(grace->waits);
	grace->waits = NULL;
	return !grace->failed;
}

void vb_grace_drop(struct vb_grace *grace)
{
	while (grace->count)
		vb_peer_put(grace->waits[--grace->count].peer);
	free(grace->waits);
	grace->waits = NULL;
}

int vb_grace_wait(struct vb_grace *grace, unsigned timeout_ms, uint32_t *slot)
{
	uint64_t end_ns = vb_now_ns() + timeout_ms * 1000000ull;

	for (unsigned turn = 0; !vb_grace_over(grace); turn++) {
		if (turn < 1000) {
			vb_cpu_relax();
			continue;
		}
		if (vb_now_ns() > end_ns) {
			*slot = grace->count ? grace->waits[grace->count - 1].peer->slot : 0;
			return -ETIMEDOUT;
		}
		vb_sleep_ns(50000); /* a post that ends a window waits here: no cancellation point */
	}
	return 0;
}

int vb_grace_pass(struct vb_nic *nic, uint32_t *slot)
{
	struct vb_grace grace;
	int err;

	vb_grace_begin(nic, &grace, true);
	err = vb_grace_wait(&grace, VB_STUCK_PEER_MS, slot);
	if (err)
		vb_grace_drop(&grace);
	return err;
}
