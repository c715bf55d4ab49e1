/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread at a time sends, and one receives. The others wait as for bytes: a wait has a deadline
 * and is a cancellation point, which a lock is not. All of it under the lock of the rsocket.
 */
#include <errno.h>

#include "base/cancel.h"
#include "rsocket/rsocket.h"

static bool out_is_free(struct vb_rs *rs)
{
	return !rs->out.busy;
}

static bool in_is_free(struct vb_rs *rs)
{
	return !rs->in.busy;
}

struct awaited {
	struct vb_rs *rs;
	struct vb_rs_direction *direction;
};

static void wait_cancelled(void *held)
{
	struct awaited *awaited = held;

	pthread_mutex_lock(&awaited->rs->lock);
	awaited->direction->awaited--;
	pthread_mutex_unlock(&awaited->rs->lock);
}

static int wait_free(struct vb_rs *rs, struct vb_rs_direction *direction, uint64_t deadline_ns)
{
	struct awaited awaited = { rs, direction };
	struct vb_undo undo;
	int err;

	vb_undo_push(&undo, wait_cancelled, &awaited);
	direction->awaited++;
	err = vb_rs_wait(rs, direction == &rs->out ? out_is_free : in_is_free, deadline_ns);
	direction->awaited--;
	vb_undo_pop(&undo);
	return err;
}

/* A thread that copies is soon done. A call that must not block waits for that one, no other. */
static void yield_to_copy(struct vb_rs *rs, const struct vb_rs_direction *direction)
{
	while (direction->busy && !direction->asleep) {
		pthread_mutex_unlock(&rs->lock);
		sched_yield();
		pthread_mutex_lock(&rs->lock);
	}
}

int vb_rs_begin(struct vb_rs *rs, struct vb_rs_direction *direction, uint64_t deadline_ns)
{
	int err = 0;

	if (direction->busy && !deadline_ns)
		yield_to_copy(rs, direction);
	if (direction->busy)
		err = wait_free(rs, direction, deadline_ns);
	if (!err)
		direction->busy = true;
	return err;
}

void vb_rs_end(struct vb_rs *rs, struct vb_rs_direction *direction)
{
	direction->busy = direction->asleep = false;
	if (direction->awaited)
		vb_rs_notify(rs, NULL);
}

int vb_rs_wait_in(struct vb_rs *rs, struct vb_rs_direction *direction, vb_rs_test *test,
		  uint64_t deadline_ns)
{
	int err;

	direction->asleep = true;
	err = vb_rs_wait(rs, test, deadline_ns);
	direction->asleep = false;
	return err;
}

void vb_rs_undo_out(void *rs)
{
	struct vb_rs *self = rs;

	pthread_mutex_lock(&self->lock);
	vb_rs_end(self, &self->out);
	pthread_mutex_unlock(&self->lock);
}

void vb_rs_undo_in(void *rs)
{
	struct vb_rs *self = rs;

	pthread_mutex_lock(&self->lock);
	vb_rs_end(self, &self->in);
	pthread_mutex_unlock(&self->lock);
}
