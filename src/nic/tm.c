/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/tm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "nic/fact.h"
#include "nic/qp.h"

enum { INDEX_BITS = 16, SYNC_DISTANCE = 0x4000 };

/* --- creating --- */

static int check_cap(const struct ibv_tm_cap *cap)
{
	const uint32_t tags = vb_fact_u32(VB_FACT_TM_MAX_NUM_TAGS);
	const uint32_t ops = vb_fact_u32(VB_FACT_TM_MAX_OPS);

	if (!tags) {
		vb_explain("ibv_create_srq_ex: the device does not match tags");
		return -EOPNOTSUPP;
	}
	if (cap->max_num_tags >= 1 && cap->max_num_tags <= tags && cap->max_ops >= 1 &&
	    cap->max_ops <= ops)
		return 0;
	vb_explain("ibv_create_srq_ex: max_num_tags %u must be 1 to %u, max_ops %u 1 to %u",
		   cap->max_num_tags, tags, cap->max_ops, ops);
	return -EINVAL;
}

static uint32_t completions_max(const struct vb_tm *tm)
{
	return tm->srq->rq.depth + tm->op_max + 2 * tm->tag_max;
}

int vb_tm_create(struct vb_srq *srq, struct vb_cq *cq, const struct ibv_tm_cap *cap)
{
	int err = check_cap(cap);
	struct vb_tm *tm = err ? NULL : calloc(1, sizeof(*tm));

	if (!tm)
		return err ? err : -ENOMEM;
	tm->table = calloc(cap->max_num_tags, sizeof(*tm->table));
	if (!tm->table) {
		free(tm);
		return -ENOMEM;
	}
	tm->srq = srq;
	tm->tag_max = cap->max_num_tags;
	tm->op_max = cap->max_ops;
	vb_list_init(&tm->tags);
	vb_list_init(&tm->spare);
	for (uint32_t i = 0; i < tm->tag_max; i++) {
		tm->table[i].handle = i;
		vb_list_append(&tm->spare, &tm->table[i].node);
	}
	vb_list_init(&tm->loose.nodes);
	tm->queue = (struct vb_cq_queue){ .kind = VB_CQ_LOOSE,
					  .loose = &tm->loose,
					  .depth = completions_max(tm) };
	pthread_mutex_lock(&cq->nic->lock);
	err = vb_cq_attach(cq, &tm->queue);
	pthread_mutex_unlock(&cq->nic->lock);
	if (err) {
		free(tm->table);
		free(tm);
		return err;
	}
	srq->tm = tm;
	return 0;
}

void vb_tm_destroy(struct vb_srq *srq)
{
	struct vb_tm *tm = srq->tm;

	if (!tm)
		return;
	if (srq->rq.nic == vb_nic_current()) { /* the CQ of a child's copy may be gone */
		pthread_mutex_lock(&srq->rq.nic->lock);
		vb_cq_detach(&tm->queue);
		pthread_mutex_unlock(&srq->rq.nic->lock);
	}
	vb_loose_free(&tm->loose);
	free(tm->table);
	free(tm);
	srq->tm = NULL;
}

void vb_tm_resized(struct vb_tm *tm)
{
	vb_cq_queue_resized(&tm->queue, completions_max(tm));
}

/* --- completions; under tm->lock, so that they come in the order of their operations --- */

static struct vb_wc_node *node_of(const struct ibv_wc *wc)
{
	struct vb_wc_node *node = calloc(1, sizeof(*node));

	if (node)
		node->wc = *wc;
	return node;
}

static bool push_completion(struct vb_tm *tm, const struct ibv_wc *wc,
			    const struct ibv_wc_tm_info *info, bool solicited)
{
	struct vb_wc_node *node = node_of(wc);

	if (!node)
		return false;
	if (info)
		node->tm = *info;
	return vb_cq_push(&tm->queue, node, solicited || wc->status != IBV_WC_SUCCESS);
}

/* --- operations on the list --- */

/* The tag gets another handle: an operation that still names the old handle comes too late. */
static void tag_free(struct vb_tm *tm, struct vb_tag *tag)
{
	vb_list_remove(&tag->node);
	tag->state = VB_TAG_FREE;
	tag->missed = false;
	tag->handle += 1u << INDEX_BITS;
	vb_list_append(&tm->spare, &tag->node);
}

static bool in_phase(const struct vb_tm *tm)
{
	return tm->counted == tm->unexpected;
}

static void synchronize(struct vb_tm *tm, uint32_t unexpected_count)
{
	tm->counted = (uint16_t)unexpected_count;
	if (!in_phase(tm))
		return;
	vb_list_for(tag, &tm->tags, struct vb_tag, node)
		if (tag->state == VB_TAG_IDLE)
			tag->state = VB_TAG_LISTED;
}

static int tag_add(struct vb_tm *tm, struct ibv_ops_wr *op)
{
	struct vb_tag *tag;
	uint64_t length = 0;

	if (op->tm.add.num_sge < 0 || (unsigned)op->tm.add.num_sge > vb_fact(VB_FACT_TM_MAX_SGE))
		return -EINVAL;
	if (vb_list_empty(&tm->spare))
		return -ENOMEM;
	tag = vb_container(tm->spare.next, struct vb_tag, node);
	vb_list_remove(&tag->node);
	tag->sge_count = (uint32_t)op->tm.add.num_sge;
	for (uint32_t i = 0; i < tag->sge_count; i++) {
		tag->sge[i] = op->tm.add.sg_list[i];
		length += tag->sge[i].length;
	}
	tag->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	tag->recv_wr_id = op->tm.add.recv_wr_id;
	tag->tag = op->tm.add.tag;
	tag->mask = op->tm.add.mask;
	tag->state = in_phase(tm) ? VB_TAG_LISTED : VB_TAG_IDLE;
	vb_list_append(&tm->tags, &tag->node);
	op->tm.handle = tag->handle;
	return 0;
}

/* -ENOENT: a message has the tag, or had it; -EINVAL: no tag ever had this handle. */
static int tag_remove(struct vb_tm *tm, uint32_t handle)
{
	uint32_t index = handle & ((1u << INDEX_BITS) - 1);
	struct vb_tag *tag = index < tm->tag_max ? &tm->table[index] : NULL;

	if (!tag || (tag->handle == handle && tag->state == VB_TAG_FREE))
		return -EINVAL;
	if (tag->handle != handle)
		return -ENOENT;
	if (tag->state == VB_TAG_TAKEN || tag->state == VB_TAG_READING) {
		tag->missed = true;
		return -ENOENT;
	}
	tag_free(tm, tag);
	return 0;
}

static const enum ibv_wc_opcode wc_opcodes[] = {
	[IBV_WR_TAG_ADD] = IBV_WC_TM_ADD,
	[IBV_WR_TAG_DEL] = IBV_WC_TM_DEL,
	[IBV_WR_TAG_SYNC] = IBV_WC_TM_SYNC,
};

static bool is_known_op(const struct ibv_ops_wr *op)
{
	return (unsigned)op->opcode < sizeof(wc_opcodes) / sizeof(*wc_opcodes) &&
	       !(op->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC));
}

static int op_apply(struct vb_tm *tm, struct ibv_ops_wr *op, enum ibv_wc_status *status)
{
	int err = 0;

	if (op->opcode == IBV_WR_TAG_ADD)
		err = tag_add(tm, op);
	else if (op->opcode == IBV_WR_TAG_DEL)
		err = tag_remove(tm, op->tm.handle);
	*status = err == -ENOENT ? IBV_WC_TM_ERR : IBV_WC_SUCCESS;
	return err == -ENOENT ? 0 : err;
}

static void op_complete(struct vb_tm *tm, const struct ibv_ops_wr *op, struct vb_wc_node *node,
			enum ibv_wc_status status)
{
	if (status != IBV_WC_SUCCESS)
		vb_explain_work("SRQ operation wr_id %llu: tag handle 0x%x is not on the list any "
				"more: a message has matched it",
				(unsigned long long)op->wr_id, op->tm.handle);
	node->wc.status = status;
	node->wc.wc_flags = in_phase(tm) ? 0 : IBV_WC_TM_SYNC_REQ;
	node->polled = &tm->ops_polled;
	node->polled_to = tm->ops;
	if (op->flags & IBV_OPS_SIGNALED || status != IBV_WC_SUCCESS)
		vb_cq_push(&tm->queue, node, status != IBV_WC_SUCCESS);
	else
		free(node);
}

static int op_post(struct vb_tm *tm, struct ibv_ops_wr *op, struct vb_wc_node *node)
{
	enum ibv_wc_status status;
	int err;

	if (tm->ops - atomic_load(&tm->ops_polled) >= tm->op_max)
		return -ENOMEM;
	if (op->flags & IBV_OPS_TM_SYNC)
		synchronize(tm, op->tm.unexpected_cnt);
	err = op_apply(tm, op, &status);
	if (err)
		return err;
	tm->ops++;
	op_complete(tm, op, node, status);
	return 0;
}

int vb_tm_post(struct vb_tm *tm, struct ibv_ops_wr *op)
{
	const struct ibv_wc wc = { .wr_id = op->wr_id,
				   .opcode = is_known_op(op) ? wc_opcodes[op->opcode] : 0 };
	struct vb_wc_node *node = is_known_op(op) ? node_of(&wc) : NULL;
	int err;

	if (!node)
		return is_known_op(op) ? -ENOMEM : -EINVAL;
	vb_spin_lock(&tm->lock);
	err = op_post(tm, op, node);
	vb_spin_unlock(&tm->lock);
	if (err)
		free(node);
	return err;
}

/* --- messages --- */

struct vb_tag *vb_tm_match(struct vb_tm *tm, uint64_t value)
{
	struct vb_tag *found = NULL;

	vb_spin_lock(&tm->lock);
	vb_list_for(tag, &tm->tags, struct vb_tag, node) {
		if (tag->state != VB_TAG_LISTED || (value & tag->mask) != tag->tag)
			continue;
		tag->state = VB_TAG_TAKEN;
		found = tag;
		break;
	}
	vb_spin_unlock(&tm->lock);
	return found;
}

void vb_tm_unexpected(struct vb_tm *tm)
{
	vb_spin_lock(&tm->lock);
	tm->unexpected++;
	vb_spin_unlock(&tm->lock);
}

void vb_tm_unexpected_undo(struct vb_tm *tm)
{
	vb_spin_lock(&tm->lock);
	tm->unexpected--;
	synchronize(tm, tm->counted); /* the counts may be equal again */
	vb_spin_unlock(&tm->lock);
}

void vb_tm_give_back(struct vb_tm *tm, struct vb_tag *tag)
{
	const struct ibv_wc wc = { .wr_id = tag->recv_wr_id,
				   .opcode = IBV_WC_TM_RECV,
				   .status = IBV_WC_WR_FLUSH_ERR };

	vb_spin_lock(&tm->lock);
	if (tag->missed) {
		tag_free(tm, tag);
		push_completion(tm, &wc, NULL, true);
	} else {
		tag->state = VB_TAG_LISTED;
	}
	vb_spin_unlock(&tm->lock);
}

static struct ibv_wc wc_of(const struct vb_tag *tag, const struct vb_tm_message *message)
{
	return (struct ibv_wc){
		.wr_id = tag->recv_wr_id,
		.opcode = IBV_WC_TM_RECV,
		.byte_len = message->length,
		.imm_data = message->imm,
		.qp_num = message->qpn,
		.src_qp = message->src_qpn,
		.wc_flags = message->wc_flags,
	};
}

bool vb_tm_received(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message,
		    enum ibv_wc_status status, uint32_t reason)
{
	const struct ibv_wc_tm_info info = { .tag = message->tag, .priv = message->app_ctx };
	struct ibv_wc wc = wc_of(tag, message);
	bool ok;

	wc.status = status;
	wc.vendor_err = reason;
	vb_spin_lock(&tm->lock);
	tag_free(tm, tag);
	ok = push_completion(tm, &wc, &info, message->solicited);
	vb_spin_unlock(&tm->lock);
	return ok;
}

bool vb_tm_matched(struct vb_tm *tm, struct vb_tag *tag, const struct vb_tm_message *message)
{
	const struct ibv_wc_tm_info info = { .tag = message->tag, .priv = message->app_ctx };
	const struct ibv_wc wc = wc_of(tag, message);
	bool ok;

	vb_spin_lock(&tm->lock);
	tag->state = VB_TAG_READING;
	ok = push_completion(tm, &wc, &info, message->solicited);
	vb_spin_unlock(&tm->lock);
	return ok;
}

bool vb_tm_plain(struct vb_tm *tm, uint32_t index, struct ibv_wc *wc, bool solicited)
{
	struct vb_rq *rq = &tm->srq->rq;
	bool ok;

	vb_spin_lock(&rq->drain_lock);
	wc->wr_id = vb_rq_twin(rq, index)->wr_id;
	vb_rq_consume(rq, NULL, index);
	vb_spin_unlock(&rq->drain_lock);
	vb_spin_lock(&tm->lock);
	if ((uint16_t)(tm->unexpected - tm->counted) > SYNC_DISTANCE &&
	    wc->opcode == IBV_WC_TM_RECV)
		wc->wc_flags |= IBV_WC_TM_SYNC_REQ;
	ok = push_completion(tm, wc, NULL, solicited);
	vb_spin_unlock(&tm->lock);
	return ok;
}
