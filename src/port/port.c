/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port as a whole. Its descriptors are in an epoll of its own, the inner one, which is itself
 * one descriptor in the service thread's epoll. So one call watches the port or stops watching it,
 * and a poller asks once, however many peers there are.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <linux/sock_diag.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/message.h"
#include "capture/ring.h"
#include "nic/lane.h"
#include "port/impl.h"

enum { SOURCES = 16, REBIND_NS_MIN = 1000000, REBIND_NS_MAX = 1000000000, HOT_POLLS = 16 };

static struct vb_port *_Atomic ports[VB_LANES_MAX]; /* by lane; a closed one stays */

static struct vb_port *port_of_lane(const struct vb_nic *nic, unsigned lane)
{
	struct vb_port *port = atomic_load_explicit(&ports[lane], memory_order_acquire);

	return port && port->nic == nic ? port : NULL;
}

struct vb_port *vb_port_of(const struct vb_nic *nic)
{
	return port_of_lane(nic, VB_LANE_FIRST);
}

struct vb_port *vb_port_of_lane(const struct vb_port *port, unsigned lane)
{
	if (lane != VB_LANE_FIRST && vb_lane_is_open(port->nic, lane))
		return port_of_lane(port->nic, lane);
	return vb_port_of(port->nic);
}

/* --- fork: a child closes its copies of our sockets, or they would take packets for ever --- */

static void close_endpoint(struct vb_endpoint *endpoint)
{
	vb_fd_close(&endpoint->fd);
	for (int i = 0; i < VB_SENDERS; i++)
		vb_fd_close(&endpoint->senders[i].fd);
}

static void close_descriptors(struct vb_port *port)
{
	for (unsigned i = 0; i < port->endpoint_count; i++)
		close_endpoint(port->endpoints[i]);
	vb_groups_close(&port->groups);
	vb_fd_close(&port->knock);
	vb_fd_close(&port->timer);
	vb_fd_close(&port->leavers);
	vb_fd_close(&port->inner);
}

static void forget_in_child(void)
{
	for (unsigned lane = 0; lane < VB_LANES_MAX; lane++) {
		struct vb_port *port = atomic_exchange(&ports[lane], NULL);

		if (!port)
			continue;
		close_descriptors(port);
		vb_fd_close(&port->memory.event);
	}
}

static const struct vb_fork_handlers at_fork = { .child = forget_in_child };

/* --- making it --- */

static int watch_in_outer(const struct vb_port *port, int operation)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT,
				     .data.u64 = VB_PORT_EVENT + port->lane };

	return epoll_ctl(port->outer, operation, port->inner, &event) ? -errno : 0;
}

static int port_init(struct vb_port *port)
{
	const size_t size = (size_t)VB_RECEIVE_BATCH * VB_DATAGRAM_MAX;

	port->timer = port->leavers = port->knock = -1;
	vb_memory_init(&port->memory);
	vb_held_init(&port->held);
	vb_groups_init(&port->groups);
	port->counters = calloc(1, sizeof(*port->counters));
	if (!port->counters)
		return -ENOMEM;
	port->inner = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (port->inner < 0)
		return -errno;
	/* Pages that no packet ever reaches cost nothing. */
	port->buffers =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (port->buffers == MAP_FAILED)
		return -errno;
	vb_inbox_init(&port->inbox, port->buffers);
	return watch_in_outer(port, EPOLL_CTL_ADD);
}

/* Its counters stay as well. */
void vb_port_close(struct vb_port *port)
{
	const size_t size = (size_t)VB_RECEIVE_BATCH * VB_DATAGRAM_MAX;

	vb_memory_close(port);
	close_descriptors(port); /* a descriptor that is closed leaves the outer epoll */
	for (unsigned i = 0; i < port->endpoint_count; i++)
		free(port->endpoints[i]);
	port->endpoint_count = 0;
	port->hot = NULL;
	madvise(port->buffers, size, MADV_DONTNEED);
}

int vb_port_open(struct vb_port *port)
{
	pthread_mutex_lock(&port->memory.lock);
	port->memory.open = true;
	pthread_mutex_unlock(&port->memory.lock);
	port->inner = vb_fd_high(epoll_create1(EPOLL_CLOEXEC));
	return port->inner < 0 ? -errno : watch_in_outer(port, EPOLL_CTL_ADD);
}

struct vb_port *vb_port_new(struct vb_nic *nic, int epoll, unsigned lane)
{
	struct vb_port *port = calloc(1, sizeof(*port));
	int err;

	if (!port)
		return NULL;
	port->nic = nic;
	port->lane = lane;
	port->outer = epoll;
	err = port_init(port);
	if (err) {
		vb_explain("no packets in this process: %s", strerror(-err));
		vb_fd_close(&port->inner);
		free(port->counters);
		free(port);
		return NULL;
	}
	vb_fork_register(VB_FORK_PORT, &at_fork);
	atomic_store_explicit(&ports[lane], port, memory_order_release);
	return port;
}

void vb_port_on_foreign(struct vb_port *port, const struct vb_port_calls *calls)
{
	port->calls = calls;
}

int vb_port_watch_source(struct vb_port *port, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = data };

	return epoll_ctl(port->inner, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void vb_port_watch(struct vb_port *port)
{
	watch_in_outer(port, EPOLL_CTL_MOD);
}

void vb_port_move(struct vb_port *port, int epoll)
{
	epoll_ctl(port->outer, EPOLL_CTL_DEL, port->inner, NULL);
	atomic_store(&port->outer, epoll);
	watch_in_outer(port, EPOLL_CTL_ADD);
}

static uint32_t drops_of(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(info);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size))
		return 0;
	return info[SK_MEMINFO_DROPS];
}

const struct vb_port_counters *vb_port_counters(const struct vb_port *port)
{
	port->counters->forwarded_out = atomic_load(&port->held.sent);
	port->counters->forwarded_lost = atomic_load(&port->held.lost);
	port->counters->overrun = 0;
	for (unsigned i = 0; i < port->endpoint_count; i++)
		port->counters->overrun += drops_of(port->endpoints[i]->fd);
	return port->counters;
}

uint64_t vb_port_packets(const struct vb_port *port)
{
	return port->counters->packets_in + port->counters->packets_out;
}

/* --- sockets that could not be bound --- */

static void set_timer(struct vb_port *port, uint64_t ns)
{
	const struct itimerspec spec = { .it_value = { (time_t)(ns / 1000000000),
						       (long)(ns % 1000000000) } };

	if (port->timer < 0 && ns) {
		port->timer =
			vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
		if (port->timer >= 0)
			vb_port_watch_source(port, port->timer, VB_SOURCE_TIMER);
	}
	if (port->timer >= 0)
		timerfd_settime(port->timer, 0, &spec, NULL);
}

static void try_bind(struct vb_port *port)
{
	set_timer(port, vb_udp_bind_all(port) ? 0 : port->rebind_ns);
}

/* A process that ends may hang up its slot socket before it closes the port: try again soon. */
void vb_port_rebind(struct vb_port *port)
{
	port->rebind_ns = REBIND_NS_MIN;
	try_bind(port);
}

static void on_timer(struct vb_port *port)
{
	uint64_t count;

	if (vb_read(port->timer, &count, sizeof(count)) <= 0)
		return;
	if (port->rebind_ns < REBIND_NS_MAX)
		port->rebind_ns *= 2;
	try_bind(port);
}

/* --- traffic --- */

static unsigned count_same_socket(const struct vb_burst *bursts, unsigned count)
{
	unsigned run = 1;

	while (run < count && bursts[run].way->kind == VB_WAY_UDP &&
	       bursts[run].way->socket == bursts->way->socket)
		run++;
	return run;
}

void vb_port_send(struct vb_port *port, const struct vb_burst *bursts, unsigned count)
{
	if (vb_captured())
		vb_port_capture_out(bursts, count);
	for (unsigned done = 0, run; done < count; done += run) {
		run = 1;
		switch ((enum vb_way_kind)bursts[done].way->kind) {
		case VB_WAY_UDP:
			run = count_same_socket(&bursts[done], count - done);
			vb_udp_send(port, &bursts[done], run);
			break;
		case VB_WAY_SLOT:
			vb_slot_send(port, &bursts[done]);
			break;
		case VB_WAY_MEMORY:
			vb_memory_send(port, &bursts[done]);
			break;
		case VB_WAY_GROUP:
			vb_group_send(port, &bursts[done]);
			break;
		case VB_WAY_NOWHERE:
			break;
		}
	}
}

static unsigned receive_from(struct vb_port *port, uint64_t data, unsigned most)
{
	switch ((enum vb_source)(data & VB_SOURCE_MASK)) {
	case VB_SOURCE_UDP:
		port->hot = port->endpoints[data / (VB_SOURCE_MASK + 1)];
		return vb_udp_receive(port, port->hot, most);
	case VB_SOURCE_MEMORY:
		return vb_memory_receive(port, most);
	case VB_SOURCE_TIMER:
		on_timer(port);
		return 0;
	case VB_SOURCE_GROUP:
		data -= VB_SOURCE_GROUP;
		return vb_group_receive(port, (struct vb_port_group *)(uintptr_t)data, most);
	case VB_SOURCE_LEAVERS:
		vb_steer_left(port);
		return 0;
	case VB_SOURCE_PEER:
	case VB_SOURCE_MASK:
		break;
	}
	return vb_slot_receive(port, (struct vb_peer *)(uintptr_t)data, most);
}

/* Not inlined: most calls read the hot socket only. */
__attribute__((noinline)) static unsigned receive_ready(struct vb_port *port, unsigned most)
{
	struct epoll_event events[SOURCES];
	int count = vb_epoll_look(port->inner, events, SOURCES);
	unsigned total = 0;

	for (int i = 0; i < count && total < most; i++)
		total += receive_from(port, events[i].data.u64, most - total);
	return total;
}

void vb_port_empty_memory(struct vb_port *port, vb_port_input input, void *arg)
{
	if (port->receiving || !port->memory.ring)
		return;
	port->receiving = true;
	port->input = input;
	port->input_arg = arg;
	vb_memory_receive(port, UINT_MAX);
	port->receiving = false;
}

unsigned vb_port_receive(struct vb_port *port, bool polling, unsigned most, vb_port_input input,
			 void *arg)
{
	unsigned total;

	if (port->receiving) /* called by an input, whose burst is still in the buffers */
		return 0;
	port->receiving = true;
	port->input = input;
	port->input_arg = arg;
	if (polling && port->hot && ++port->hot_polls % HOT_POLLS &&
	    !atomic_load_explicit(&port->memory.count, memory_order_relaxed))
		total = vb_udp_receive(port, port->hot, most);
	else
		total = receive_ready(port, most);
	port->receiving = false;
	return total;
}

bool vb_port_ready(struct vb_port *port)
{
	struct epoll_event event;

	return vb_epoll_look(port->inner, &event, 1) > 0;
}
