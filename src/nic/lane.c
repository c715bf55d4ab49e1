/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/lane.h"

#include <sched.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/random.h"
#include "nic/qp.h"
#include "nic/tm.h"

static unsigned usable_cpus(void)
{
	cpu_set_t set;
	int count;

	if (sched_getaffinity(0, sizeof(set), &set))
		return VB_LANES_MAX; /* more CPUs than the set has room for */
	count = CPU_COUNT(&set);
	return count > 0 ? (unsigned)count : 1;
}

void vb_lanes_init(struct vb_nic *nic)
{
	unsigned most = vb_config_lanes();

	most = most ? most : usable_cpus();
	nic->lanes_max = most < VB_LANES_MAX ? most : VB_LANES_MAX;
	pthread_mutex_init(&nic->lanes_lock, NULL);
	nic->lane_uses[VB_LANE_FIRST].row = (uint32_t)(vb_random64() % VB_QP_ROWS);
}

/* --- rows --- */

static unsigned row_lane(const struct vb_nic *nic, unsigned row)
{
	return atomic_load_explicit(&nic->row_lanes[row], memory_order_relaxed);
}

static void row_give(struct vb_nic *nic, unsigned row, unsigned lane)
{
	atomic_store_explicit(&nic->row_lanes[row], (uint8_t)lane, memory_order_relaxed);
}

static uint32_t free_numbers(const struct vb_nic *nic, unsigned row)
{
	const struct vb_own_slot *own = &nic->slots[row / VB_QP_ROWS];

	return own->rows[row % VB_QP_ROWS].free_tail - own->rows[row % VB_QP_ROWS].free_head;
}

/*
 * The row of the lane from which the next number is taken. After all numbers of a row the next row
 * has its turn, so that a number is not used again soon.
 */
static int own_row(struct vb_nic *nic, unsigned lane)
{
	struct vb_lane_use *use = &nic->lane_uses[lane];
	const unsigned rows = nic->slot_count * VB_QP_ROWS;
	const unsigned first = use->row + (use->row_used == VB_QP_PER_ROW);

	for (unsigned i = 0; i < rows; i++) {
		const unsigned row = (first + i) % rows;

		if (row_lane(nic, row) != lane || !free_numbers(nic, row))
			continue;
		if (row != use->row || use->row_used == VB_QP_PER_ROW)
			use->row_used = 0;
		use->row = row;
		use->row_used++;
		return (int)row;
	}
	return -1;
}

/* A row without QPs, as far as possible from the one that the first lane will use next. */
static int take_row(struct vb_nic *nic, unsigned lane)
{
	const unsigned rows = nic->slot_count * VB_QP_ROWS;
	const unsigned used = nic->lane_uses[VB_LANE_FIRST].row;

	for (unsigned i = 1; i < rows; i++) {
		const unsigned row = (used + rows - i) % rows;

		if (row_lane(nic, row) != VB_LANE_FIRST || free_numbers(nic, row) != VB_QP_PER_ROW)
			continue;
		row_give(nic, row, lane);
		return own_row(nic, lane);
	}
	return -1;
}

int vb_lane_row(struct vb_nic *nic, unsigned lane)
{
	int row = own_row(nic, lane);

	if (row < 0 && lane != VB_LANE_FIRST)
		row = take_row(nic, lane);
	return row < 0 && lane != VB_LANE_FIRST ? own_row(nic, VB_LANE_FIRST) : row;
}

int vb_lane_any_row(const struct vb_nic *nic)
{
	for (unsigned row = 0; row < nic->slot_count * VB_QP_ROWS; row++)
		if (free_numbers(nic, row))
			return (int)row;
	return -1;
}

static int slot_position(const struct vb_nic *nic, uint32_t slot)
{
	const struct vb_segment_head *head = nic->seg.head;

	for (int i = 0; slot && i < VB_OWN_SLOTS; i++) {
		uint32_t own = atomic_load_explicit(&head->own_slots[i], memory_order_acquire);

		if (own == slot)
			return i;
		if (!own)
			break;
	}
	return -1;
}

int vb_lane_of_qpn(const struct vb_nic *nic, uint32_t qpn)
{
	const int position = slot_position(nic, qpn >> VB_QP_INDEX_BITS);

	return position < 0 ? -1
			    : (int)row_lane(nic, (unsigned)position * VB_QP_ROWS +
							 qpn % VB_QP_PER_SLOT / VB_QP_PER_ROW);
}

unsigned vb_lane_rows(const struct vb_nic *nic, unsigned lane, uint32_t *rows, unsigned most)
{
	unsigned count = 0;

	for (unsigned i = 0; i < VB_OWN_SLOTS * VB_QP_ROWS && count < most; i++) {
		const uint32_t slot = atomic_load_explicit(
			&nic->seg.head->own_slots[i / VB_QP_ROWS], memory_order_acquire);

		if (slot && row_lane(nic, i) == lane)
			rows[count++] = slot * VB_QP_ROWS + i % VB_QP_ROWS;
	}
	return count;
}

/* --- QPs --- */

/*
 * XRC_RECV QPs, and those that match tags, receive into the CQs of SRQs. All messages for one list
 * of tags are matched in one lane. Frames of raw packet QPs go by no lane.
 */
static bool follows_cq(const struct vb_qp *qp)
{
	return qp->type != IBV_QPT_XRC_RECV && qp->type != IBV_QPT_RAW_PACKET &&
	       !(qp->srq && qp->srq->tm);
}

unsigned vb_lane_choose(const struct vb_qp *qp)
{
	const struct vb_nic *nic = qp->nic;
	unsigned best = VB_LANE_FIRST;

	if (!follows_cq(qp))
		return VB_LANE_FIRST;
	if (qp->recv_cq->lane_qps)
		return qp->recv_cq->lane;
	for (unsigned i = 1; i < nic->lanes_max; i++)
		if (nic->lane_uses[i].qps < nic->lane_uses[best].qps)
			best = i;
	return best;
}

/* Polls of these CQs bring the lane on. */
static void show_lane(const struct vb_qp *qp, unsigned lane)
{
	atomic_fetch_or(&qp->send_cq->lanes, 1u << lane);
	atomic_fetch_or(&qp->recv_cq->lanes, 1u << lane);
	if (qp->srq && qp->srq->tm)
		atomic_fetch_or(&qp->srq->tm->queue.cq->lanes, 1u << lane);
}

void vb_lane_join(struct vb_qp *qp)
{
	const unsigned lane = (unsigned)vb_lane_of_qpn(qp->nic, qp->ibv.qp_num);

	atomic_store(&qp->lane, (uint8_t)lane);
	qp->nic->lane_uses[lane].qps++;
	qp->nic->lane_uses[lane].idle_ns = 0;
	if (follows_cq(qp) && !qp->recv_cq->lane_qps++)
		qp->recv_cq->lane = lane;
	show_lane(qp, lane);
}

void vb_lane_leave(struct vb_qp *qp)
{
	const unsigned lane = atomic_load(&qp->lane);
	struct vb_lane_use *use = &qp->nic->lane_uses[lane];

	if (follows_cq(qp))
		qp->recv_cq->lane_qps--;
	if (--use->qps || lane == VB_LANE_FIRST)
		return;
	use->idle_ns = vb_now_ns();
	if (!vb_lane_is_open(qp->nic, lane))
		vb_lane_give_back(qp->nic, lane);
}

void vb_lane_give_back(struct vb_nic *nic, unsigned lane)
{
	for (unsigned row = 0; row < VB_OWN_SLOTS * VB_QP_ROWS; row++)
		if (row_lane(nic, row) == lane)
			row_give(nic, row, VB_LANE_FIRST);
	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		atomic_fetch_and(&cq->lanes, ~(1u << lane));
	nic->lane_uses[lane].idle_ns = 0;
}

void vb_lane_merge(struct vb_nic *nic, unsigned lane)
{
	vb_lane_give_back(nic, lane);
	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		if (cq->lane == lane)
			cq->lane = VB_LANE_FIRST;
	vb_list_for(qp, &nic->qps, struct vb_qp, node) {
		if (atomic_load(&qp->lane) != lane)
			continue;
		atomic_store(&qp->lane, VB_LANE_FIRST);
		show_lane(qp, VB_LANE_FIRST);
	}
	nic->lane_uses[VB_LANE_FIRST].qps += nic->lane_uses[lane].qps;
	nic->lane_uses[lane].qps = 0;
}
