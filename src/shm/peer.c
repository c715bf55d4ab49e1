/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/message.h"
#include "shm/key.h"
#include "shm/segment.h"
#include "shm/view.h"

struct vb_peer *vb_peer_new(void)
{
	struct vb_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	vb_list_init(&peer->node);
	peer->socket = peer->memfd = peer->lent_memfd = peer->doorbell = -1;
	atomic_store(&peer->refs, 1);
	return peer;
}

void vb_peer_get(struct vb_peer *peer)
{
	atomic_fetch_add_explicit(&peer->refs, 1, memory_order_relaxed);
}

void vb_peer_put(struct vb_peer *peer)
{
	uint32_t count;

	if (!peer || atomic_fetch_sub(&peer->refs, 1) != 1)
		return;
	count = atomic_load(&peer->map_count);
	for (uint32_t i = 0; i < count; i++)
		munmap(peer->maps[i].base, peer->maps[i].size);
	vb_views_drop(peer);
	vb_fd_close(&peer->socket);
	vb_fd_close(&peer->memfd);
	vb_fd_close(&peer->lent_memfd);
	vb_fd_close(&peer->doorbell);
	free(peer);
}

/* The range lies within the file. The file is sealed against shrinking: no SIGBUS later. */
static bool is_inside(int fd, uint64_t offset, uint64_t size)
{
	struct stat st;

	return size && !(offset & 4095) && !fstat(fd, &st) && offset <= (uint64_t)st.st_size &&
	       size <= (uint64_t)st.st_size - offset;
}

static int map_range(struct vb_peer *peer, uint64_t offset, uint64_t size)
{
	const bool lent = offset & VB_LENT;
	const int fd = lent ? peer->lent_memfd : peer->memfd;
	uint32_t count = atomic_load(&peer->map_count);
	void *map;

	if (count == VB_EXTENTS || !is_inside(fd, offset & ~VB_LENT, size))
		return -EPROTO;
	map = mmap(NULL, size, lent ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		   (off_t)(offset & ~VB_LENT));
	if (map == MAP_FAILED)
		return -errno;
	madvise(map, size, MADV_DONTFORK);
	madvise(map, size, MADV_DONTDUMP);
	peer->maps[count].base = map;
	peer->maps[count].offset = offset;
	peer->maps[count].size = size;
	atomic_store_explicit(&peer->map_count, count + 1, memory_order_release);
	return 0;
}

/* Maps all that a part has now. The part must be long enough for its head. */
static void *map_part(struct vb_peer *peer, int fd, uint64_t offset, size_t head_size, int *err)
{
	struct stat st;

	*err = -EPROTO;
	if (!vb_file_stays(fd) || fstat(fd, &st) || st.st_size < (off_t)head_size)
		return NULL;
	*err = map_range(peer, offset, (uint64_t)st.st_size & ~4095ull);
	return *err ? NULL : peer->maps[atomic_load(&peer->map_count) - 1].base;
}

int vb_peer_map(struct vb_peer *peer, uint32_t slot)
{
	struct vb_segment_head *head;
	int err;

	head = map_part(peer, peer->memfd, 0, sizeof(*head), &err);
	if (!err)
		peer->lent = map_part(peer, peer->lent_memfd, VB_LENT, sizeof(*peer->lent), &err);
	if (err)
		return err;
	if (head->magic != VB_SEGMENT_MAGIC || head->layout_version != VB_LAYOUT_VERSION ||
	    head->slot != slot)
		return -EPROTO;
	peer->head_slot = slot;
	/* Pairs with the loads in vb_grace_begin and vb_nic_peer. */
	atomic_store(&peer->head, head);
	return 0;
}

static void *at_mapped(struct vb_peer *peer, uint64_t offset, uint64_t size)
{
	uint32_t count = atomic_load_explicit(&peer->map_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t inside = offset - peer->maps[i].offset;

		if (offset >= peer->maps[i].offset && inside < peer->maps[i].size &&
		    size <= peer->maps[i].size - inside)
			return peer->maps[i].base + inside;
	}
	return NULL;
}

/* The peer's segment grew: map the extent that holds the range. */
static void *at_unmapped(struct vb_peer *peer, uint64_t offset, uint64_t size)
{
	uint32_t count = atomic_load_explicit(&peer->head->extent_count, memory_order_acquire);
	void *found;

	vb_spin_lock(&peer->map_lock);
	found = at_mapped(peer, offset, size);
	for (uint32_t i = 0; !found && i < count && i < VB_EXTENTS; i++) {
		/* Read once: the owner may change it at any moment. */
		const struct vb_extent extent = {
			__atomic_load_n(&peer->head->extents[i].offset, __ATOMIC_RELAXED),
			__atomic_load_n(&peer->head->extents[i].size, __ATOMIC_RELAXED),
		};

		if (offset < extent.offset || offset - extent.offset >= extent.size)
			continue;
		if (!map_range(peer, extent.offset, extent.size))
			found = at_mapped(peer, offset, size);
		break;
	}
	vb_spin_unlock(&peer->map_lock);
	return found;
}

void *vb_peer_at(struct vb_peer *peer, uint64_t offset, uint64_t size)
{
	void *found;

	if (peer->self)
		return vb_segment_at(peer->own, offset);
	if (offset & (VB_LINE - 1))
		return NULL;
	found = at_mapped(peer, offset, size);
	return found ? found : at_unmapped(peer, offset, size);
}

void *vb_peer_lent_at(struct vb_peer *peer, uint64_t offset, uint64_t size)
{
	return offset & VB_LENT ? vb_peer_at(peer, offset, size) : NULL;
}

void vb_peer_ring(const struct vb_peer *peer)
{
	uint64_t one = 1;

	/* EAGAIN, a full counter: a wake-up is under way already. */
	if (vb_write(peer->doorbell, &one, sizeof(one)) < 0)
		return;
}

void vb_peer_attend(const struct vb_peer *peer, uint32_t bits)
{
	atomic_fetch_or(&peer->lent->attention, bits);
	/* The own process needs no doorbell: the executing thread looks at attention at its end. */
	if (!peer->self)
		vb_peer_ring(peer);
}

void vb_peer_attend_qp(struct vb_peer *peer, const struct vb_qp_entry *entry, uint32_t bits)
{
	struct vb_qp_lent *lent = vb_peer_qp_lent(peer, entry);
	uint32_t index = entry->qpn % VB_QP_PER_SLOT, before;

	if (!lent)
		return;
	before = atomic_load(&lent->attention);
	/* The first failure counts: the reasons of two would mix in one byte. */
	while (!(before & bits & VB_QP_ATTN_FAIL) &&
	       !atomic_compare_exchange_weak(&lent->attention, &before, before | bits))
		;
	atomic_fetch_or(&peer->lent->qp_attention[index / 64], 1ull << index % 64);
	vb_peer_attend(peer, VB_ATTN_QP);
}

static int slot_position(const struct vb_segment_head *head, uint32_t slot)
{
	for (int i = 0; i < VB_OWN_SLOTS; i++)
		if (atomic_load_explicit(&head->own_slots[i], memory_order_acquire) == slot)
			return i;
	return -1;
}

struct vb_qp_entry *vb_peer_qp(struct vb_peer *peer, uint32_t qpn)
{
	int position = slot_position(peer->head, qpn / VB_QP_PER_SLOT);
	uint32_t index = qpn % VB_QP_PER_SLOT;
	struct vb_qp_entry *page;
	uint64_t offset;

	if (position < 0)
		return NULL;
	offset = atomic_load_explicit(
		&peer->head
			 ->qp_pages[position * (VB_QP_PER_SLOT / VB_QP_PAGE) + index / VB_QP_PAGE],
		memory_order_acquire);
	page = offset ? vb_peer_at(peer, offset, VB_QP_PAGE * sizeof(*page)) : NULL;
	return page ? &page[index % VB_QP_PAGE] : NULL;
}

struct vb_qp_lent *vb_peer_qp_lent(struct vb_peer *peer, const struct vb_qp_entry *entry)
{
	return vb_peer_lent_at(peer, entry->lent, sizeof(struct vb_qp_lent));
}

struct vb_srq_entry *vb_peer_srq(struct vb_peer *peer, uint32_t number)
{
	uint32_t index = number % VB_XRC_SRQ_MAX;
	struct vb_srq_entry *page;
	uint64_t offset;

	if (number / VB_XRC_SRQ_MAX != peer->head_slot)
		return NULL;
	offset = atomic_load_explicit(&peer->head->srq_pages[index / VB_SRQ_PAGE],
				      memory_order_acquire);
	page = offset ? vb_peer_at(peer, offset, VB_SRQ_PAGE * sizeof(*page)) : NULL;
	return page ? &page[index % VB_SRQ_PAGE] : NULL;
}

static const struct vb_key_page *key_page(struct vb_peer *peer, uint32_t index)
{
	uint64_t offset = atomic_load_explicit(&peer->head->key_pages[index / VB_KEY_PAGE],
					       memory_order_acquire);

	return offset ? vb_peer_at(peer, offset, sizeof(struct vb_key_page)) : NULL;
}

static const struct vb_key_entry *key_at(struct vb_peer *peer, uint32_t index)
{
	const struct vb_key_page *page = key_page(peer, index);

	return page ? &page->entries[index % VB_KEY_PAGE] : NULL;
}

static bool key_opens(const struct vb_key_entry *entry, uint32_t key, bool rkey_only, bool as_rkey)
{
	uint32_t word = entry ? atomic_load(&entry->word) : 0;

	return vb_key_matches(word, key, as_rkey) && vb_key_serves(word, rkey_only, as_rkey);
}

const struct vb_key_entry *vb_peer_key(struct vb_peer *peer, uint32_t key, bool as_rkey)
{
	const struct vb_key_entry *entry = NULL;
	bool rkey_only;
	uint32_t index;

	if (vb_key_decode(&peer->head->keys, key, &rkey_only, &index))
		entry = key_at(peer, index);
	if (key_opens(entry, key, rkey_only, as_rkey))
		return entry;
	if (!vb_key_find_alias(peer->head, key, &rkey_only, &index))
		return NULL;
	entry = key_at(peer, index);
	return key_opens(entry, key, rkey_only, as_rkey) ? entry : NULL;
}

const struct vb_key_entry *vb_peer_key_gone(struct vb_peer *peer, uint32_t key, bool as_rkey,
					    uint64_t *ended_ns)
{
	const struct vb_key_page *page;
	const struct vb_key_entry *entry;
	bool rkey_only;
	uint32_t index;

	if (!vb_key_decode(&peer->head->keys, key, &rkey_only, &index))
		return NULL;
	page = key_page(peer, index);
	entry = page ? &page->entries[index % VB_KEY_PAGE] : NULL;
	if (!entry || atomic_load(&entry->word) & VB_KEY_VALID ||
	    (uint8_t)(as_rkey ? entry->tags >> 8 : entry->tags) != (uint8_t)key)
		return NULL;
	*ended_ns = atomic_load(&page->ended_ns[index % VB_KEY_PAGE]);
	return *ended_ns ? entry : NULL;
}

/* Lists of receives hold process addresses, so the check is against addr, not against iova. */
bool vb_peer_key_covers(struct vb_peer *peer, uint32_t pd, const struct ibv_sge *sge)
{
	const struct vb_key_entry *entry = sge->length ? vb_peer_key(peer, sge->lkey, false) : NULL;
	uint64_t inside;

	if (!sge->length)
		return true;
	if (!entry || entry->pd != pd || !(entry->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	inside = sge->addr - entry->addr;
	return sge->addr >= entry->addr && inside <= entry->length &&
	       sge->length <= entry->length - inside;
}

_Atomic uint32_t *vb_peer_key_invalid(struct vb_peer *peer, const struct vb_key_entry *entry)
{
	struct vb_key_lent *lent = vb_peer_lent_at(peer, entry->lent, sizeof(*lent));

	return lent ? &lent->invalid[entry->place % VB_KEY_PAGE] : NULL;
}
