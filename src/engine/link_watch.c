/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/link_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "net/gid.h"
#include "net/netif.h"
#include "nic/lid.h"
#include "nic/pkey.h"

enum { MESSAGE_MAX = 8192 };

/* The state of a port that a context saw last. */
struct watched {
	struct vb_list node;
	struct vb_context *ctx;
	enum ibv_port_state state;
	uint16_t lid;
	uint64_t subnet; /* InfiniBand: vb_lid_subnet */
	uint16_t pkeys[VB_PKEYS_MAX];
	union ibv_gid gids[VB_GIDS];
};

static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list watched_list = VB_LIST_INIT(watched_list);
static void (*_Atomic address_hook)(void);
/* written by vb_engine_start, under nic->lock; read by the service thread */
static int routing_socket = -1;

/* --- fork: the child opens contexts of its own; inherited ones get no port events --- */

static void before_fork(void)
{
	pthread_mutex_lock(&watched_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&watched_lock);
}

static void forget_in_child(void)
{
	vb_list_for(entry, &watched_list, struct watched, node) {
		vb_async_own(entry->ctx);
		free(entry);
	}
	vb_list_init(&watched_list);
	atomic_store(&address_hook, NULL);
	vb_fd_close(&routing_socket);
	pthread_mutex_unlock(&watched_lock);
}

static const struct vb_fork_handlers at_fork = { before_fork, after_fork, forget_in_child };

/* --- the state of a port --- */

static void port_look(const struct vb_device *dev, struct watched *now)
{
	now->state = vb_device_port_state(dev);
	now->lid = vb_device_lid(dev);
	now->subnet = dev->infiniband ? vb_lid_subnet(dev) : 0;
	for (unsigned i = 0; i < VB_PKEYS_MAX; i++)
		now->pkeys[i] = vb_pkey_at(i);
	vb_device_gids(dev, now->gids);
}

static void raise_event(const struct watched *entry, enum ibv_event_type type)
{
	/* The element of an event is a union: port_num lies where the pointer is written. */
	union {
		int port_num;
		void *object;
	} element = { .object = NULL };

	element.port_num = 1;
	vb_async_raise(&entry->ctx->verbs.context, type, element.object, NULL);
}

static void explain_change(const struct vb_device *dev, const struct watched *old,
			   const struct watched *now)
{
	if (old->state != now->state)
		vb_explain_each("%s: its interface %s went %s", dev->ibv.name, dev->netdev,
				now->state == IBV_PORT_ACTIVE ? "up" : "down");
	if (old->lid != now->lid)
		vb_explain_each("%s: its LID was %u and is %u", dev->ibv.name, old->lid, now->lid);
}

/*
 * The order of the rows is the order of events: a program that hears of another subnet, or that the
 * port is active, may ask for everything else. Another subnet has another subnet manager, which
 * knows of no registration.
 */
static bool port_compare(struct watched *old)
{
	struct watched now = { 0 };

	port_look(old->ctx->dev, &now);
	explain_change(old->ctx->dev, old, &now);

	const struct {
		bool changed;
		enum ibv_event_type event;
	} rows[] = {
		{ memcmp(old->gids, now.gids, sizeof(now.gids)) != 0, IBV_EVENT_GID_CHANGE },
		{ memcmp(old->pkeys, now.pkeys, sizeof(now.pkeys)) != 0, IBV_EVENT_PKEY_CHANGE },
		{ old->lid != now.lid, IBV_EVENT_LID_CHANGE },
		{ old->subnet != now.subnet, IBV_EVENT_SM_CHANGE },
		{ old->subnet != now.subnet, IBV_EVENT_CLIENT_REREGISTER },
		{ old->state != now.state,
		  now.state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR },
	};
	bool changed = false;

	now.node = old->node;
	now.ctx = old->ctx;
	*old = now;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].changed)
			raise_event(old, rows[i].event);
		changed |= rows[i].changed;
	}
	return changed;
}

bool vb_link_compare(void)
{
	bool changed = false;

	vb_netif_snapshot_expire();
	pthread_mutex_lock(&watched_lock);
	vb_list_for(entry, &watched_list, struct watched, node)
		changed |= port_compare(entry);
	pthread_mutex_unlock(&watched_lock);
	return changed;
}

/* --- contexts --- */

void vb_link_watch_add(struct vb_context *ctx)
{
	struct watched *entry = calloc(1, sizeof(*entry));

	vb_fork_register(VB_FORK_LINKS, &at_fork);
	if (!entry)
		return; /* a context without port events */
	entry->ctx = ctx;
	pthread_mutex_lock(&watched_lock);
	port_look(ctx->dev, entry); /* changes are compared with this from now on */
	vb_list_append(&watched_list, &entry->node);
	pthread_mutex_unlock(&watched_lock);
}

void vb_link_watch_remove(struct vb_context *ctx)
{
	pthread_mutex_lock(&watched_lock);
	vb_list_for(entry, &watched_list, struct watched, node) {
		if (entry->ctx != ctx)
			continue;
		vb_list_remove(&entry->node);
		free(entry);
	}
	pthread_mutex_unlock(&watched_lock);
}

/* --- the socket --- */

static int open_routing_socket(void)
{
	const struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = vb_fd_high(
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&groups, sizeof(groups)))
		vb_fd_close(&fd);
	return fd;
}

void vb_link_watch_start(int epoll)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = VB_LINK_EVENT };

	vb_fd_close(&routing_socket);
	routing_socket = open_routing_socket();
	if (routing_socket < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, routing_socket, &event)) {
		vb_fd_close(&routing_socket);
		vb_explain_work("no routing socket: there will be no port events");
	}
}

/*
 * The contents of the messages do not matter: messages may be lost (ENOBUFS), and several often
 * report one change.
 */
void vb_link_event(void)
{
	void (*hook)(void) = atomic_load(&address_hook);
	char message[MESSAGE_MAX];
	ssize_t size;

	do
		size = recv(routing_socket, message, sizeof(message), MSG_DONTWAIT);
	while (size >= 0 || errno == ENOBUFS || errno == EINTR);
	vb_link_compare();
	if (hook)
		hook();
}

void vb_link_hook(void (*hook)(void))
{
	atomic_store(&address_hook, hook);
}
