/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive queue of this process, and both ends of it: post and poll as its owner, take,
 * finish and give back as a sender, who finds the cells as a peer does, through the segment.
 */
#ifndef VB_TESTS_UNIT_NIC_RQ_RIG_H
#define VB_TESTS_UNIT_NIC_RQ_RIG_H

#include "nic/rq.h"
#include "rig.h"

enum { RECEIVE_SIZE = 64, RECEIVES = 512, NOTHING = -1 };

static struct rig rig;
static struct vb_rq rq;
static struct vb_mr *mr;
static uint8_t memory[RECEIVES * RECEIVE_SIZE];

static inline void rq_open(uint32_t depth, bool many)
{
	rig_open(&rig);
	memset(&rq, 0, sizeof(rq));
	memset(memory, 0, sizeof(memory));
	mr = rig_register(rig.pd, memory, sizeof(memory));
	assert_int_equal(vb_rq_init(&rq, rig.pd, depth, 4, many), 0);
	rq.consumer_lock = &rq.drain_lock;
}

static inline void rq_close(void)
{
	pthread_mutex_lock(&rig.nic->lock);
	vb_rq_fini(&rq);
	pthread_mutex_unlock(&rig.nic->lock);
	if (mr)
		assert_int_equal(vb_mr_deregister(mr), 0);
	rig_close(&rig);
}

/* --- owner --- */

static inline int post_list(uint64_t wr_id, struct ibv_sge *sges, int count)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sges, .num_sge = count };
	int err;

	vb_spin_lock(&rq.lock);
	err = vb_rq_post(&rq, &wr);
	vb_spin_unlock(&rq.lock);
	return err;
}

/* The receive with this id has the id's place in memory. */
static inline int post(uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&memory[wr_id % RECEIVES * RECEIVE_SIZE],
			       .length = RECEIVE_SIZE,
			       .lkey = mr->ibv.lkey };

	return post_list(wr_id, &sge, 1);
}

static inline void post_ids(uint64_t first, uint64_t count)
{
	for (uint64_t id = first; id < first + count; id++)
		assert_int_equal(post(id), 0);
}

static inline bool first_done(uint32_t *index)
{
	if (rq.many) {
		vb_rq_drain(&rq);
		*index = rq.arrivals.first;
		return atomic_load(&rq.arrivals.count);
	}
	*index = atomic_load(&rq.head);
	return vb_rq_done_at_head(&rq);
}

/* The id of the next completed receive, consumed, or NOTHING. */
static inline int64_t poll_one(void)
{
	int64_t id = NOTHING;
	uint32_t index;

	vb_spin_lock(rq.consumer_lock);
	if (first_done(&index)) {
		struct vb_cell *cell = vb_rq_cell(&rq, index);

		assert_int_equal(vb_cell_state(atomic_load(&cell->word)), VB_CELL_DONE);
		id = (int64_t)vb_rq_twin(&rq, index)->wr_id;
		if (cell->where != VB_PAYLOAD_PLACED)
			vb_rq_scatter(&rq, cell, index, cell->where, cell->byte_length);
		if (rq.many)
			vb_rq_consume(&rq, &rq.arrivals, index);
		else
			vb_rq_consume_head(&rq);
	}
	vb_spin_unlock(rq.consumer_lock);
	return id;
}

#define assert_polls(...)                                                                    \
	do {                                                                                 \
		const int64_t expected_ids[] = { __VA_ARGS__ };                              \
                                                                                             \
		for (size_t n_ = 0; n_ < sizeof(expected_ids) / sizeof(*expected_ids); n_++) \
			assert_int_equal(poll_one(), expected_ids[n_]);                      \
	} while (0)

/* --- sender --- */

static inline struct vb_rq_shared *sender_queue(void)
{
	return vb_peer_at(rig.nic->self, rq.shared_offset, sizeof(struct vb_rq_shared));
}

static inline struct vb_rq_lent *sender_lent(void)
{
	return vb_peer_lent_at(rig.nic->self, sender_queue()->lent, sizeof(struct vb_rq_lent));
}

static inline struct vb_cell *sender_cell(uint32_t index)
{
	struct vb_rq_shared *shared = sender_queue();
	struct vb_cell *cells =
		vb_peer_at(rig.nic->self, shared->cells, (shared->mask + 1ull) * sizeof(*cells));

	return &cells[index & shared->mask];
}

static inline struct vb_recv_sges *sender_sges(uint32_t index)
{
	struct vb_rq_shared *shared = sender_queue();
	uint8_t *sges = vb_peer_at(rig.nic->self, shared->sges,
				   (shared->mask + 1ull) * shared->sges_stride);

	return (void *)(sges + (size_t)(index & shared->mask) * shared->sges_stride);
}

/* Nobody vouches for the keys of a receive any more. */
static inline void voucher_take_back(uint32_t index)
{
	atomic_fetch_and(&sender_sges(index)->flags, ~(uint32_t)VB_CELL_KEYS_OK);
	atomic_fetch_and(&sender_cell(index)->word, ~((uint64_t)VB_CELL_KEYS_OK << 8));
}

static inline uint64_t word_of(uint32_t index)
{
	return atomic_load(&sender_cell(index)->word);
}

static inline void assert_cell(uint32_t index, enum vb_cell_state state)
{
	assert_int_equal(vb_cell_index(word_of(index)), index);
	assert_int_equal(vb_cell_state(word_of(index)), state);
}

static inline void take(uint32_t index, uint16_t claimant)
{
	uint64_t word = word_of(index);

	assert_cell(index, VB_CELL_POSTED);
	atomic_store(&sender_cell(index)->word,
		     vb_cell_word(index, claimant, vb_cell_flags(word), VB_CELL_TAKEN));
}

/* Completes a receive with up to 24 bytes in its cell. */
static inline void finish_with(uint32_t index, const void *payload, uint32_t length)
{
	struct vb_cell *cell = sender_cell(index);

	assert_int_equal(vb_cell_index(word_of(index)), index);
	assert_true(vb_cell_state(word_of(index)) == VB_CELL_POSTED ||
		    vb_cell_state(word_of(index)) == VB_CELL_TAKEN);
	cell->byte_length = length;
	cell->where = VB_PAYLOAD_INLINE;
	memcpy(cell->payload, payload, length);
	atomic_store(&cell->word, vb_cell_word(index, 0, 0, VB_CELL_DONE));
}

static inline void finish(uint32_t index)
{
	finish_with(index, "", 0);
}

static inline void give_back(uint32_t index)
{
	uint64_t word = word_of(index);

	assert_cell(index, VB_CELL_TAKEN);
	atomic_store(&sender_cell(index)->word,
		     vb_cell_word(index, 0, vb_cell_flags(word), VB_CELL_RETURNED));
	atomic_store(&sender_lent()->returned, 1);
}

#endif
