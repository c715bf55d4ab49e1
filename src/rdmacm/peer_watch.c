/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/peer_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "rdmacm/io.h"
#include "rdmacm/probe.h"

enum { SLOTS = VB_CM_SLOTS };
_Static_assert(SLOTS == 1 << (32 - VB_COMM_ID_SLOT_SHIFT), "every slot that an id can name");
#define RETRY_NS 10000000u

static uint32_t own_slot;
static int listener = -1;

/*
 * Lines to peers, by slot. A line stays once it is made, because most processes have few peers.
 * When there are too many lines, those that no connection needs are dropped.
 */
static int lines[SLOTS]; /* descriptor + 1; 0: none */
static unsigned line_count;
static bool missing[SLOTS]; /* no line yet: the next tick makes it, or finds the peer dead */
static uint32_t missing_count;

/* Any process of this host may call often, or cause calls to it. So both counts have a limit. */
static unsigned lines_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 8 * SLOTS)
		return SLOTS;
	return (unsigned)limit.rlim_cur / 8;
}

/* --- lines of peers to this process --- */

static unsigned callers;
static bool full; /* callers wait in the listener's queue, which breaks with the process, too */

/* A peer hung up, or sent bytes, which the protocol does not have. */
static void caller_gone(int fd, uint32_t arg)
{
	(void)arg;
	callers--;
	vb_cma_io_unwatch(fd);
	close(fd);
}

static void caller_ready(int fd, uint32_t arg)
{
	int caller = -1;

	(void)arg;
	errno = EMFILE;
	if (callers < lines_max())
		caller = vb_fd_high(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (caller < 0 && (errno == EMFILE || errno == ENFILE)) {
		vb_cma_io_unwatch(fd); /* the listener stays readable; the next tick watches it */
		full = true;
	}
	if (caller < 0)
		return;
	if (vb_cma_io_watch(caller, caller_gone, 0))
		close(caller);
	else
		callers++;
}

void vb_cma_peer_watch_start(uint32_t slot)
{
	own_slot = slot;
	listener = vb_cma_engine()->life();
	if (listener >= 0 && !listen(listener, SOMAXCONN) &&
	    !vb_cma_io_watch(listener, caller_ready, 0))
		return;
	vb_explain_work("peers on this host will not notice the death of this process: %s",
			strerror(errno));
	listener = -1;
}

/* --- lines to peers --- */

/* Messages that the peer sent before its end have arrived. They complete before the event. */
static void peer_died(uint32_t slot)
{
	vb_cma_engine()->catch_up();
	vb_cm_slot_died(vb_cma_cm(), slot, vb_now_ns());
}

static void hang_up(uint32_t slot)
{
	const int fd = lines[slot] - 1;

	vb_cma_io_unwatch(fd);
	close(fd);
	lines[slot] = 0;
	line_count--;
}

static void line_broke(int fd, uint32_t slot)
{
	char byte;

	/* The event may belong to an older line, whose descriptor had the same number. */
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return;
	hang_up(slot);
	peer_died(slot);
}

/* 0, -EAGAIN: try later, or -ECONNREFUSED: no process has the slot. */
static int call_peer(uint32_t slot)
{
	int fd = line_count < lines_max() ? vb_cma_engine()->life_call(slot) : -EAGAIN;

	if (fd < 0)
		return fd == -ECONNREFUSED ? -ECONNREFUSED : -EAGAIN;
	if (vb_cma_io_watch(fd, line_broke, slot)) {
		close(fd);
		return -EAGAIN;
	}
	lines[slot] = fd + 1;
	line_count++;
	return 0;
}

static void set_missing(uint32_t slot, bool value)
{
	if (missing[slot] != value)
		missing_count += value ? 1 : -1u;
	missing[slot] = value;
}

void vb_cma_peer_watch_follow(const struct vb_cm_endpoint *endpoint)
{
	const uint32_t id = endpoint->remote_id ? endpoint->remote_id : endpoint->mra_id;
	const uint32_t slot = id >> VB_COMM_ID_SLOT_SHIFT;

	if (!vb_cma_engine()->gid_is_local(&endpoint->route.remote)) {
		vb_cma_probe_begin(vb_now_ns());
		return;
	}
	if (!slot || slot == own_slot || lines[slot] || listener < 0)
		return;
	/* The death of the peer waits for the tick: the connection manager may be our caller. */
	if (call_peer(slot))
		set_missing(slot, true);
}

static void drop_unused_lines(void)
{
	static bool met[SLOTS];

	vb_cm_slots_met(vb_cma_cm(), met);
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		if (met[slot])
			continue;
		set_missing(slot, false);
		if (lines[slot])
			hang_up(slot);
	}
}

void vb_cma_peer_watch_tick(uint64_t now_ns)
{
	(void)now_ns;
	if (missing_count && line_count >= lines_max())
		drop_unused_lines();
	if (full)
		full = vb_cma_io_watch(listener, caller_ready, 0);
	for (uint32_t slot = 0; missing_count && slot < SLOTS; slot++) {
		int err = missing[slot] ? call_peer(slot) : -EAGAIN;

		if (err == -EAGAIN)
			continue;
		set_missing(slot, false);
		if (err)
			peer_died(slot);
	}
}

uint64_t vb_cma_peer_watch_next_ns(void)
{
	return missing_count || full ? vb_now_ns() + RETRY_NS : VB_NEVER_NS;
}

/* A child that kept the lines would hide the death of its parent from the peers. */
void vb_cma_peer_watch_forget(void)
{
	listener = -1; /* libibverbs has closed it */
	vb_cma_io_close(caller_gone);
	vb_cma_io_close(line_broke);
	memset(lines, 0, sizeof(lines));
	memset(missing, 0, sizeof(missing));
	missing_count = callers = line_count = 0;
	full = false;
}
