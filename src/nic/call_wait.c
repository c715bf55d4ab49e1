/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/call_wait.h"

#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"

/* No lock: a thread may fork while another one waits. A child of fork ignores the calls of its
 * parent. */
enum { FREE, WRITTEN, WAITS };

static struct {
	_Atomic uint32_t state; /* pairs with the load in vb_call_wait_at */
	pid_t pid;
	struct vb_call_wait wait;
} places[VB_CALL_WAITS];

int vb_call_wait_begin(const char *call, const char *for_, uint32_t object, uint32_t count)
{
	for (int i = 0; i < VB_CALL_WAITS; i++) {
		uint32_t state = FREE;

		if (!atomic_compare_exchange_strong(&places[i].state, &state, WRITTEN))
			continue;
		places[i].pid = getpid();
		places[i].wait = (struct vb_call_wait){ call, for_, object, count, vb_now_ns() };
		atomic_store(&places[i].state, WAITS);
		return i;
	}
	return -1;
}

void vb_call_wait_end(int place)
{
	if (place >= 0)
		atomic_store(&places[place].state, FREE);
}

/* The strings are constants, so a call that ends meanwhile does no harm. */
struct vb_call_wait vb_call_wait_at(int place)
{
	struct vb_call_wait wait = { 0 };

	if (atomic_load(&places[place].state) == WAITS && places[place].pid == getpid())
		wait = places[place].wait;
	return wait;
}
