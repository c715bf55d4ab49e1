/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "nic/lane.h"
#include "nic/xrcd.h"
#include "shm/slot.h"

enum { RUNG = 1 }; /* the thread takes its first turn at once: there may be something to do */

struct vb_nic *_Atomic vb_the_nic;
static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The first NIC of a process and its first slot, which nearly always are the only ones. Memory of
 * the heap would have to be cleared, page by page, while the program waits for its device.
 */
static struct {
	bool taken; /* under make_lock */
	struct vb_nic nic;
	struct vb_qp_indexes indexes;
} first;

static struct vb_qp_indexes *indexes_make(const struct vb_nic *nic)
{
	if (nic == &first.nic && !nic->slot_count)
		return &first.indexes;
	return calloc(1, sizeof(struct vb_qp_indexes));
}

static void indexes_free(struct vb_qp_indexes *indexes)
{
	if (indexes != &first.indexes)
		free(indexes);
}

static int slot_add(struct vb_nic *nic)
{
	struct vb_own_slot *own = &nic->slots[nic->slot_count];
	struct vb_slot_claim claim;
	int err;

	if (nic->slot_count == VB_OWN_SLOTS)
		return -ENOMEM;
	own->indexes = indexes_make(nic);
	err = own->indexes ? vb_slot_claim(&claim, !nic->slot_count) : -ENOMEM;
	if (err) {
		indexes_free(own->indexes);
		return err;
	}
	own->slot = claim.slot;
	own->listener = claim.listener;
	if (!nic->slot_count) {
		nic->cm = claim.cm;
		nic->life = claim.life;
	}
	own->free_first = (uint16_t)(vb_random64() % VB_QP_PER_ROW);
	for (unsigned row = 0; row < VB_QP_ROWS; row++) {
		own->rows[row].free_head = 0;
		own->rows[row].free_tail = VB_QP_PER_ROW;
	}
	nic->slot_count++;
	return 0;
}

static void slot_publish(struct vb_nic *nic, unsigned position)
{
	atomic_store_explicit(&nic->seg.head->own_slots[position], nic->slots[position].slot,
			      memory_order_release);
}

static int self_add(struct vb_nic *nic)
{
	struct vb_peer *self = vb_peer_new();

	if (!self)
		return -ENOMEM;
	self->self = true;
	self->own = &nic->seg;
	self->lent = nic->seg.lent;
	self->head = nic->seg.head;
	self->slot = self->head_slot = nic->seg.head->slot;
	self->tid = getpid();
	atomic_store(&self->state, VB_PEER_READY);
	nic->self = self;
	vb_list_append(&nic->peers, &self->node);
	return 0;
}

static int nic_init(struct vb_nic *nic)
{
	int err;

	nic->cm = nic->life = -1;
	pthread_mutex_init(&nic->lock, NULL);
	vb_lanes_init(nic);
	vb_list_init(&nic->peers);
	vb_list_init(&nic->qps);
	vb_list_init(&nic->rqs);
	vb_list_init(&nic->memberships);
	vb_list_init(&nic->mws);
	vb_list_init(&nic->srqs);
	vb_list_init(&nic->free_mws);
	vb_list_init(&nic->indirects);
	vb_list_init(&nic->xrcds);
	vb_list_init(&nic->xrc_handles);
	vb_list_init(&nic->cqs);
	vb_list_init(&nic->waiting_cqs);
	vb_list_init(&nic->quarantine);
	nic->distinct_keys = vb_config_distinct_keys();
	nic->next_pd = 1;
	atomic_store(&nic->mr_generation, 1); /* an empty cache has 0 */
	nic->claimant_used[0] = 1;
	atomic_store(&nic->next_epoch, (vb_random64() & 0xffffffffff) + 1);
	nic->doorbell = nic->peers_doorbell = -1;
	err = slot_add(nic);
	if (err)
		return err;
	err = vb_segment_create(&nic->seg, nic->slots[0].slot);
	if (err)
		return err;
	slot_publish(nic, 0);
	return self_add(nic);
}

int vb_nic_doorbells_make(struct vb_nic *nic)
{
	if (nic->doorbell < 0)
		nic->doorbell = vb_fd_high(eventfd(RUNG, EFD_CLOEXEC | EFD_NONBLOCK));
	if (nic->doorbell >= 0 && nic->peers_doorbell < 0)
		nic->peers_doorbell = vb_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (nic->peers_doorbell < 0)
		return -errno;
	nic->self->doorbell = nic->doorbell;
	return 0;
}

static void nic_free(struct vb_nic *nic)
{
	for (unsigned i = 0; i < nic->slot_count; i++) {
		vb_fd_close(&nic->slots[i].listener);
		indexes_free(nic->slots[i].indexes);
	}
	vb_fd_close(&nic->cm);
	vb_fd_close(&nic->life);
	if (nic->seg.head)
		vb_segment_destroy(&nic->seg);
	vb_fd_close(&nic->doorbell);
	vb_fd_close(&nic->peers_doorbell);
	if (nic == &first.nic)
		memset(&first, 0, sizeof(first));
	else
		free(nic);
}

/* A forked child has a second one: inherited objects belong to the first. */
static struct vb_nic *nic_alloc(void)
{
	if (first.taken)
		return calloc(1, sizeof(struct vb_nic));
	first.taken = true;
	return &first.nic;
}

static struct vb_nic *nic_make(void)
{
	struct vb_nic *nic = nic_alloc();
	int err = nic ? nic_init(nic) : -ENOMEM;

	if (!err)
		return nic;
	vb_explain("no NIC in this process: %s; `verbena doctor` says what the environment lacks",
		   strerror(-err));
	if (nic)
		nic_free(nic);
	errno = -err;
	return NULL;
}

struct vb_nic *vb_nic_get(void)
{
	struct vb_nic *nic = vb_nic_current();

	if (nic)
		return nic;
	pthread_mutex_lock(&make_lock);
	nic = vb_nic_current();
	if (!nic) {
		nic = nic_make();
		atomic_store_explicit(&vb_the_nic, nic, memory_order_release);
	}
	pthread_mutex_unlock(&make_lock);
	return nic;
}

/* The segments are not mapped in the child (DONTFORK). Only the sockets must be closed, or the
 * parent's peers would not see its end. The heap memory stays: inherited objects use it. */
void vb_nic_forget(void)
{
	struct vb_nic *nic = vb_nic_current();

	atomic_store(&vb_the_nic, NULL);
	pthread_mutex_init(&make_lock, NULL);
	vb_slot_forget();
	if (!nic)
		return;
	for (unsigned i = 0; i < nic->slot_count; i++)
		vb_fd_close(&nic->slots[i].listener);
	for (int i = 0; i < VB_PARTS; i++)
		vb_fd_close(&nic->seg.parts[i].memfd);
	vb_fd_close(&nic->seg.shown_fd);
	vb_fd_close(&nic->cm);
	vb_fd_close(&nic->life);
	vb_fd_close(&nic->doorbell);
	vb_fd_close(&nic->peers_doorbell);
	vb_xrc_forget(nic);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (!peer->self) {
			vb_fd_close(&peer->socket);
			vb_fd_close(&peer->memfd);
			vb_fd_close(&peer->lent_memfd);
			vb_fd_close(&peer->doorbell);
		}
	}
}

static bool hazard_page_make(struct vb_nic *nic, uint32_t page)
{
	uint64_t offset;

	if (atomic_load(&nic->seg.head->hazard_pages[page]))
		return true;
	offset = vb_segment_alloc(&nic->seg, VB_HAZARD_PAGE * sizeof(struct vb_hazard_cell));
	if (offset)
		atomic_store(&nic->seg.head->hazard_pages[page], offset);
	return offset;
}

struct vb_hazard_cell *vb_nic_hazard_alloc(struct vb_nic *nic, uint32_t *cell)
{
	struct vb_hazard_cell *page;
	uint32_t i = 0;

	vb_spin_lock(&nic->peers_lock);
	while (i < sizeof(nic->hazard_used) && nic->hazard_used[i])
		i++;
	if (i == sizeof(nic->hazard_used) || !hazard_page_make(nic, i / VB_HAZARD_PAGE)) {
		vb_spin_unlock(&nic->peers_lock);
		return NULL;
	}
	nic->hazard_used[i] = 1;
	page = vb_segment_at(&nic->seg,
			     atomic_load(&nic->seg.head->hazard_pages[i / VB_HAZARD_PAGE]));
	if (i >= atomic_load(&nic->seg.head->hazard_count))
		atomic_store(&nic->seg.head->hazard_count, i + 1);
	vb_spin_unlock(&nic->peers_lock);
	*cell = i;
	return &page[i % VB_HAZARD_PAGE];
}

void vb_nic_hazard_free(struct vb_nic *nic, uint32_t cell)
{
	vb_spin_lock(&nic->peers_lock);
	nic->hazard_used[cell] = 0;
	vb_spin_unlock(&nic->peers_lock);
}

/* A row with free numbers, of the lane if that is possible; -1: none. */
static int row_with_room(struct vb_nic *nic, unsigned lane)
{
	const unsigned position = nic->slot_count;
	int row = vb_lane_row(nic, lane);

	if (row >= 0)
		return row;
	if (slot_add(nic))
		return vb_lane_any_row(nic);
	slot_publish(nic, position);
	return vb_lane_row(nic, lane);
}

static bool qp_page_make(struct vb_nic *nic, unsigned position, uint32_t index)
{
	uint32_t page = position * (VB_QP_PER_SLOT / VB_QP_PAGE) + index / VB_QP_PAGE;
	uint64_t offset = atomic_load(&nic->seg.head->qp_pages[page]), lent;
	struct vb_qp_entry *entries;

	if (offset)
		return true;
	offset = vb_segment_alloc(&nic->seg, VB_QP_PAGE * sizeof(struct vb_qp_entry));
	lent = vb_segment_lend(&nic->seg, VB_QP_PAGE * sizeof(struct vb_qp_lent));
	if (!offset || !lent) {
		vb_segment_free(&nic->seg, offset, VB_QP_PAGE * sizeof(struct vb_qp_entry));
		vb_segment_free(&nic->seg, lent, VB_QP_PAGE * sizeof(struct vb_qp_lent));
		return false;
	}
	entries = vb_segment_at(&nic->seg, offset);
	for (uint32_t i = 0; i < VB_QP_PAGE; i++)
		entries[i].lent = lent + i * sizeof(struct vb_qp_lent);
	atomic_store(&nic->seg.head->qp_pages[page], offset);
	return true;
}

int vb_nic_qpn_alloc(struct vb_nic *nic, struct vb_qp *qp, unsigned lane, uint32_t *qpn)
{
	const int found = row_with_room(nic, lane);
	struct vb_own_slot *own = &nic->slots[found / VB_QP_ROWS];
	const unsigned row = (unsigned)found % VB_QP_ROWS;
	uint16_t index;

	if (found < 0)
		return -ENOMEM;
	index = vb_own_slot_free(own, row, own->rows[row].free_head);
	if (!qp_page_make(nic, (unsigned)(own - nic->slots), index))
		return -ENOMEM;
	own->rows[row].free_head++;
	own->indexes->qps[index] = qp;
	*qpn = own->slot << VB_QP_INDEX_BITS | index;
	return 0;
}

struct vb_own_slot *vb_nic_own_slot(struct vb_nic *nic, uint32_t slot)
{
	for (unsigned i = 0; i < nic->slot_count; i++)
		if (nic->slots[i].slot == slot)
			return &nic->slots[i];
	return NULL;
}

static void qpn_put(struct vb_nic *nic, uint32_t qpn)
{
	struct vb_own_slot *own = vb_nic_own_slot(nic, qpn >> VB_QP_INDEX_BITS);
	const unsigned row = qpn % VB_QP_PER_SLOT / VB_QP_PER_ROW;
	const uint32_t tail = own->rows[row].free_tail++;

	own->indexes->free_ring[row][tail % VB_QP_PER_ROW] =
		(uint8_t)(qpn - own->free_first - tail);
}

/* Memory that a thread inside may still write to: shared memory, or a QP's entry. */
struct quarantined {
	struct vb_list node;
	struct vb_grace grace;
	uint32_t qpn;
	uint64_t offset;
	size_t size; /* 0: this frees the QP number */
};

/* False: no memory. */
static bool quarantine(struct vb_nic *nic, uint32_t qpn, uint64_t offset, size_t size)
{
	struct quarantined *block = calloc(1, sizeof(*block));

	if (!block)
		return false;
	block->qpn = qpn;
	block->offset = offset;
	block->size = size;
	vb_grace_begin(nic, &block->grace, &(struct vb_ending){ .qpn = qpn }, true);
	vb_list_append(&nic->quarantine, &block->node);
	vb_nic_quarantine_check(nic);
	return true;
}

void vb_nic_free_later(struct vb_nic *nic, uint32_t qpn, uint64_t offset, size_t size)
{
	quarantine(nic, qpn, offset, size); /* on failure the memory is lost, nothing worse */
}

void vb_nic_quarantine_check(struct vb_nic *nic)
{
	vb_list_for(block, &nic->quarantine, struct quarantined, node) {
		if (!vb_grace_over(&block->grace))
			continue;
		vb_list_remove(&block->node);
		if (block->size)
			vb_segment_free(&nic->seg, block->offset, block->size);
		else
			qpn_put(nic, block->qpn);
		free(block);
	}
}

void vb_nic_qpn_free(struct vb_nic *nic, uint32_t qpn)
{
	struct vb_own_slot *own = vb_nic_own_slot(nic, qpn >> VB_QP_INDEX_BITS);
	uint16_t index = qpn % VB_QP_PER_SLOT;

	own->indexes->qps[index] = NULL;
	if (!quarantine(nic, qpn, 0, 0))
		qpn_put(nic, qpn);
}

struct vb_qp *vb_nic_qp(struct vb_nic *nic, uint32_t qpn)
{
	struct vb_own_slot *own = vb_nic_own_slot(nic, qpn >> VB_QP_INDEX_BITS);

	return own ? own->indexes->qps[qpn % VB_QP_PER_SLOT] : NULL;
}

uint16_t vb_nic_claimant_alloc(struct vb_nic *nic)
{
	for (uint32_t id = 1; id < 65536; id++) {
		if (nic->claimant_used[id / 8] & 1 << id % 8)
			continue;
		nic->claimant_used[id / 8] |= (uint8_t)(1 << id % 8);
		return (uint16_t)id;
	}
	return 0;
}

void vb_nic_claimant_free(struct vb_nic *nic, uint16_t id)
{
	nic->claimant_used[id / 8] &= (uint8_t)(~(1 << id % 8));
}

static bool holds_slot(struct vb_nic *nic, const struct vb_peer *peer, uint32_t slot)
{
	if (peer->self)
		return vb_nic_own_slot(nic, slot);
	return slot && (peer->slot == slot || peer->head_slot == slot);
}

struct vb_peer *vb_nic_peer(struct vb_nic *nic, uint32_t slot)
{
	struct vb_peer *found = NULL;

	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (!holds_slot(nic, peer, slot) || atomic_load(&peer->state) == VB_PEER_GONE)
			continue;
		vb_peer_get(peer);
		found = peer;
		break;
	}
	vb_spin_unlock(&nic->peers_lock);
	return found;
}

void vb_nic_ring(struct vb_nic *nic)
{
	vb_peer_ring(nic->self);
}

void vb_nic_slot_seen(struct vb_nic *nic, uint32_t slot)
{
	if (slot <= VB_SLOT_MAX)
		atomic_fetch_or(&nic->seen[slot / 64], 1ull << slot % 64);
}

bool vb_nic_slot_was_seen(const struct vb_nic *nic, uint32_t slot)
{
	return atomic_load(&nic->seen[slot / 64]) >> slot % 64 & 1;
}

enum { REMEMBER_NS = 5000000 };

/* One word: milliseconds 48 | slot 16. */
static void remember(_Atomic uint64_t words[64], uint32_t slot)
{
	atomic_store(&words[slot % 64], (vb_now_ns() + REMEMBER_NS) / 1000000 << 16 | slot);
}

static bool is_remembered(_Atomic uint64_t words[64], uint32_t slot)
{
	uint64_t word = atomic_load(&words[slot % 64]);

	return (word & 0xffff) == slot && vb_now_ns() / 1000000 < word >> 16;
}

void vb_nic_slot_refuse(struct vb_nic *nic, uint32_t slot)
{
	remember(nic->refused, slot);
}

bool vb_nic_slot_refused(struct vb_nic *nic, uint32_t slot)
{
	return is_remembered(nic->refused, slot);
}

void vb_nic_slot_set_busy(struct vb_nic *nic, uint32_t slot)
{
	remember(nic->busy, slot);
}

bool vb_nic_slot_is_busy(struct vb_nic *nic, uint32_t slot)
{
	return is_remembered(nic->busy, slot);
}
