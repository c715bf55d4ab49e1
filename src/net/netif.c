/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netif.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <linux/if.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/spin.h"
#include "net/gid.h"

enum { SPIN_TURNS = 1000 };
#define SNAPSHOT_AGE_NS_MAX 100000000u

static struct vb_netif loopback = {
	.index = 1, .flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK, .mtu = 65536, .name = "lo"
};
static struct vb_netif_snapshot loopback_only = { .netif_count = 1, .netifs = &loopback };

/*
 * A lock: a thread is inside the cache. The thread only reads or replaces the pointer and counts,
 * so a fork at that moment leaves a good pointer, and the child opens the lock. A thread that does
 * not get the lock reads the kernel's tables itself.
 */
static atomic_bool cache_busy;
static struct vb_netif_snapshot *cache; /* under cache_busy; holds one count */
static uint64_t expired_ns;             /* under cache_busy: a snapshot read before is too old */

static void cache_open_in_child(void)
{
	atomic_store_explicit(&cache_busy, false, memory_order_relaxed);
}

static const struct vb_fork_handlers at_fork = { .child = cache_open_in_child };

static bool cache_enter(void)
{
	vb_fork_register(VB_FORK_NETIF, &at_fork);
	for (int turn = 0; turn < SPIN_TURNS; turn++) {
		if (!atomic_load_explicit(&cache_busy, memory_order_relaxed) &&
		    !atomic_exchange_explicit(&cache_busy, true, memory_order_acquire))
			return true;
		vb_cpu_relax();
	}
	return false;
}

static void cache_leave(void)
{
	atomic_store_explicit(&cache_busy, false, memory_order_release);
}

static bool cache_is_fresh(void)
{
	return cache->read_at_ns > expired_ns &&
	       vb_now_ns() - cache->read_at_ns < SNAPSHOT_AGE_NS_MAX;
}

static struct vb_netif_snapshot *cached_snapshot(bool fresh)
{
	struct vb_netif_snapshot *snapshot = NULL;

	if (!cache_enter())
		return NULL;
	if (cache && (!fresh || cache_is_fresh())) {
		snapshot = cache;
		atomic_fetch_add(&snapshot->holders, 1);
	}
	cache_leave();
	return snapshot;
}

static void cache_replace(struct vb_netif_snapshot *snapshot)
{
	struct vb_netif_snapshot *old;

	if (!cache_enter())
		return;
	atomic_fetch_add(&snapshot->holders, 1);
	old = cache;
	cache = snapshot;
	cache_leave();
	if (old)
		vb_netif_snapshot_put(old);
}

void vb_netif_snapshot_expire(void)
{
	if (!cache_enter())
		return; /* the snapshot expires by itself within 100 ms */
	expired_ns = vb_now_ns();
	cache_leave();
}

const struct vb_netif_snapshot *vb_netif_snapshot_get(void)
{
	const int saved_errno = errno;
	struct vb_netif_snapshot *snapshot = cached_snapshot(true);

	if (!snapshot) {
		snapshot = vb_netif_snapshot_read();
		if (snapshot)
			cache_replace(snapshot);
		else /* no free descriptor, say: an old snapshot is better than none */
			snapshot = cached_snapshot(false);
	}
	errno = saved_errno;
	return snapshot ? snapshot : &loopback_only;
}

void vb_netif_snapshot_put(const struct vb_netif_snapshot *snapshot)
{
	struct vb_netif_snapshot *own = (struct vb_netif_snapshot *)snapshot;

	if (own != &loopback_only && atomic_fetch_sub(&own->holders, 1) == 1)
		vb_netif_snapshot_destroy(own);
}

/* --- looking things up --- */

const struct vb_netif *vb_netif_by_name(const struct vb_netif_snapshot *all, const char *name)
{
	for (size_t i = 0; i < all->netif_count; i++)
		if (!strcmp(all->netifs[i].name, name))
			return &all->netifs[i];
	return NULL;
}

const struct vb_netif *vb_netif_by_index(const struct vb_netif_snapshot *all, int ifindex)
{
	for (size_t i = 0; i < all->netif_count; i++)
		if (all->netifs[i].index == ifindex)
			return &all->netifs[i];
	return NULL;
}

/*
 * A worker of the kernel sets RUNNING a while after the carrier is there. RUNNING alone would miss
 * an interface that was just brought up.
 */
static bool has_carrier(unsigned flags)
{
	return (flags & IFF_RUNNING) || (flags & (IFF_LOWER_UP | IFF_DORMANT)) == IFF_LOWER_UP;
}

bool vb_netif_is_up(const struct vb_netif *netif)
{
	if (netif->flags & IFF_LOOPBACK)
		return true;
	return (netif->flags & IFF_UP) && has_carrier(netif->flags);
}

const struct vb_netif_addr *vb_netif_ipv4(const struct vb_netif_snapshot *all,
					  const struct vb_netif *netif)
{
	for (size_t i = 0; i < all->addr_count; i++)
		if (all->addrs[i].ifindex == netif->index && vb_gid_is_ipv4(&all->addrs[i].gid))
			return &all->addrs[i];
	return NULL;
}

/* An address that other hosts can use. A port of a bridge has none; the bridge may have one. */
static bool has_address(const struct vb_netif_snapshot *all, const struct vb_netif *netif)
{
	for (size_t i = 0; i < all->addr_count; i++)
		if (all->addrs[i].ifindex == netif->index &&
		    !vb_gid_is_link_local(&all->addrs[i].gid))
			return true;
	return false;
}

static const struct vb_netif *first_with(const struct vb_netif_snapshot *all,
					 unsigned loopback_flag, bool address)
{
	for (size_t i = 0; i < all->netif_count; i++)
		if ((all->netifs[i].flags & IFF_LOOPBACK) == loopback_flag &&
		    vb_netif_is_up(&all->netifs[i]) &&
		    (!address || has_address(all, &all->netifs[i])))
			return &all->netifs[i];
	return NULL;
}

const struct vb_netif *vb_netif_choose(const struct vb_netif_snapshot *all, int ipv4_default,
				       int ipv6_default)
{
	const struct vb_netif *netif = vb_netif_by_index(all, ipv4_default);

	if (!netif)
		netif = vb_netif_by_index(all, ipv6_default);
	if (!netif)
		netif = first_with(all, 0, true);
	if (!netif)
		netif = first_with(all, 0, false);
	return netif ? netif : first_with(all, IFF_LOOPBACK, false);
}
