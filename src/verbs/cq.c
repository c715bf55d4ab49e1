/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/cq.h"

#include <sched.h>

#include "base/adversary.h"
#include "base/annotate.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/symver.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "nic/given.h"
#include "nic/profile.h"
#include "path/raw/raw.h"
#include "system/forward.h"
#include "verbs/adversary.h"
#include "verbs/ops.h"
#include "verbs/stale.h"

VB_PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_create_comp_channel, (context));
	VB_NO_CANCEL;
	struct vb_channel *channel;
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_comp_channel");

	if (!err)
		err = vb_nic_get() ? vb_channel_create(context, &channel) : -errno;
	if (err)
		return vb_return_null(err);
	err = vb_given_add(VB_GIVEN_CHANNEL, channel);
	if (err)
		vb_channel_destroy(channel);
	return err ? vb_return_null(err) : &channel->ibv;
}

VB_PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	VB_SYSTEM_PASS(channel, ibv_destroy_comp_channel, (channel));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_CHANNEL, channel, "ibv_destroy_comp_channel");

	if (!err)
		err = vb_given_ended(VB_GIVEN_CHANNEL, channel,
				     vb_channel_destroy(vb_channel(channel)));
	return vb_return_errno(err);
}

static int check_vector(const struct ibv_context *context, int comp_vector)
{
	if (comp_vector >= 0 && comp_vector < context->num_comp_vectors)
		return 0;
	vb_explain("ibv_create_cq: comp_vector %d must be below %d (num_comp_vectors)", comp_vector,
		   context->num_comp_vectors);
	return -EINVAL;
}

int vb_verbs_make_cq(struct ibv_context *context, const struct vb_cq_spec *spec, int comp_vector,
		     struct vb_cq **cq)
{
	int err = vb_given_check(VB_GIVEN_CONTEXT, context, "ibv_create_cq");

	if (!err)
		err = check_vector(context, comp_vector);
	if (!err && spec->channel)
		err = vb_given_check_in(context, VB_GIVEN_CHANNEL, spec->channel, "ibv_create_cq");
	if (!err && spec->pd)
		err = vb_given_check_in(context, VB_GIVEN_PD, spec->pd, "ibv_create_cq_ex");
	if (!err && spec->pd)
		err = vb_pd_adopt(spec->pd);
	if (!err)
		err = vb_cq_create(context, spec, cq);
	if (err)
		return err;
	(*cq)->ibv.handle = vb_given_number();
	err = vb_given_add(VB_GIVEN_CQ, *cq);
	if (err)
		vb_cq_destroy(*cq);
	return err;
}

VB_PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	VB_NO_CANCEL;
	if (vb_system_has_context(context))
		return vb_system_check_part(channel, "completion channel", "ibv_create_cq")
			       ? vb_return_null(-EINVAL)
			       : vb_system_ibv_create_cq(context, cqe, cq_context, channel,
							 comp_vector);
	const struct vb_cq_spec spec = {
		.cqe = cqe,
		.cq_context = cq_context,
		.channel = channel ? vb_channel(channel) : NULL,
	};
	struct vb_cq *cq;
	int err = vb_verbs_make_cq(context, &spec, comp_vector, &cq);

	if (!err && vb_adversary_on())
		vb_adversary_take_cq(cq, false);
	return err ? vb_return_null(err) : &cq->ibv;
}

VB_PUBLIC int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	VB_SYSTEM_PASS(cq, ibv_resize_cq, (cq, cqe));
	VB_NO_CANCEL;
	int err = vb_given_check(VB_GIVEN_CQ, cq, "ibv_resize_cq");

	if (!err)
		err = vb_profile_check_verb(VB_VERB_RESIZE_CQ, "ibv_resize_cq");
	if (!err)
		err = vb_stale(vb_cq(cq)->nic, "ibv_resize_cq");
	return vb_return_errno(err ? err : vb_cq_resize(vb_cq(cq), cqe));
}

VB_PUBLIC int ibv_destroy_cq(struct ibv_cq *cq)
{
	VB_SYSTEM_PASS(cq, ibv_destroy_cq, (cq));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_CQ, cq, "ibv_destroy_cq");

	if (!err)
		err = vb_given_ended(VB_GIVEN_CQ, cq, vb_cq_destroy(vb_cq(cq)));
	return vb_return_errno(err);
}

VB_PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			       void **cq_context)
{
	VB_SYSTEM_PASS(channel, ibv_get_cq_event, (channel, cq, cq_context));
	VB_CANCEL_POINT;
	struct vb_cq *found;
	int err = vb_stale(vb_channel(channel)->nic, "ibv_get_cq_event");

	if (!err)
		err = vb_channel_take(vb_channel(channel), &found);
	if (err)
		return vb_return_minus_one(err);
	*cq = &found->ibv;
	*cq_context = found->ibv.cq_context;
	vb_tell_filled(cq, sizeof(*cq));
	vb_tell_filled(cq_context, sizeof(*cq_context));
	vb_tell_acquire(found);
	vb_given_tell_all();
	return 0;
}

VB_PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	VB_SYSTEM_PASS_VOID(cq, ibv_ack_cq_events, (cq, count));
	VB_NO_CANCEL;

	vb_tell_release(cq);
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
	vb_tell_returns();
}

int vb_ops_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	int err = vb_stale(vb_cq(cq)->nic, "ibv_req_notify_cq");

	if (err)
		return vb_return_errno(err);
	vb_tell_release(cq);
	/* The caller is about to sleep. */
	vb_wire_watch(vb_cq(cq)->nic, vb_engine_lanes(vb_cq(cq)));
	return vb_cq_req_notify(vb_cq(cq), solicited_only);
}

enum { WIRE_POLLS = 32 }; /* a poll of the wire counts as so many */

/* All of the steps, whether one finds something or not: frames may come all the time. */
__attribute__((noinline)) static bool lend_both_hands(struct vb_cq *cq, bool yields)
{
	bool took_time = yields;

	if (yields)
		sched_yield();
	if (vb_raw_listens()) {
		vb_raw_poll_ports();
		took_time = true;
	}
	return vb_engine_poll(cq) || took_time;
}

/*
 * A thread that polls in a loop may wait for a process, or a thread of its own process, that needs
 * this very CPU. So others may run after some 20 us without a completion. With a CPU for each this
 * costs next to nothing.
 */
bool vb_cq_lend_a_hand(struct vb_cq *cq)
{
	const uint32_t before = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed);
	const uint32_t lanes = vb_engine_lanes(cq);
	const uint32_t polls = before + (lanes ? WIRE_POLLS : 1);
	const bool yields = (before ^ polls) >= VB_POLLS_PER_YIELD;

	atomic_store_explicit(&cq->empty_polls, polls, memory_order_relaxed);
	if (__builtin_expect(!yields && !lanes && !vb_raw_listens() && vb_engine_idle(cq->nic), 1))
		return false;
	return lend_both_hands(cq, yields);
}

/* Out of line: errno has a cost even where it is not set. */
__attribute__((cold, noinline)) static int fail_poll(int err)
{
	return vb_return_negative_of("ibv_poll_cq", err);
}

__attribute__((cold, noinline)) static int refuse_poll(const struct vb_cq *cq, int count)
{
	int err = vb_stale(cq->nic, "ibv_poll_cq");

	if (!err && !count)
		return 0;
	if (!err)
		vb_explain("ibv_poll_cq: room for %d completions", count);
	return fail_poll(err ? err : -EINVAL);
}

int vb_ops_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct vb_cq *cq = vb_cq(ibv);
	int got;

	if (__builtin_expect(cq->nic != vb_nic_current() || count <= 0, 0))
		return refuse_poll(cq, count);
	got = vb_cq_poll(cq, count, wc);
	if (!got) {
		if (!vb_cq_lend_a_hand(cq))
			return 0;
		/* An event that was raised meanwhile tells of completions after the first look. */
		got = vb_cq_poll(cq, count, wc);
		return __builtin_expect(got < 0, 0) ? fail_poll(got) : got;
	}
	return __builtin_expect(got < 0, 0) ? fail_poll(got) : vb_engine_found(cq, got);
}

static int check_moderation(const struct ibv_modify_cq_attr *attr)
{
	const uint32_t count = vb_fact_u32(VB_FACT_MAX_CQ_COUNT);
	const uint32_t period = vb_fact_u32(VB_FACT_MAX_CQ_PERIOD);

	if (attr->moderate.cq_count <= count && attr->moderate.cq_period <= period)
		return 0;
	vb_explain("ibv_modify_cq: cq_count %u and cq_period %u may be up to %u and %u",
		   attr->moderate.cq_count, attr->moderate.cq_period, count, period);
	return -EINVAL;
}

int vb_ops_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	VB_NO_CANCEL;
	struct vb_cq *cq = vb_cq(ibv);
	int err = vb_given_check(VB_GIVEN_CQ, ibv, "ibv_modify_cq");

	if (!err)
		err = vb_stale(cq->nic, "ibv_modify_cq");
	if (!err && attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE) {
		vb_explain("ibv_modify_cq: attr_mask 0x%x: only moderation can be changed",
			   attr->attr_mask);
		err = -EOPNOTSUPP;
	}
	if (!err && attr->attr_mask & IBV_CQ_ATTR_MODERATE)
		err = check_moderation(attr);
	if (!err && attr->attr_mask & IBV_CQ_ATTR_MODERATE)
		vb_cq_moderate(cq, attr->moderate.cq_count, attr->moderate.cq_period);
	return vb_return_errno(err);
}
