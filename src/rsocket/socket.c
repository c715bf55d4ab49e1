/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing rsockets, and their names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rdmacm/option.h"
#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

/* Without SO_LINGER close waits for this long until the peer has all data. */
static const uint64_t close_wait_ns = 2000000000u;

static void release_rsocket(struct vb_fd_object *object)
{
	struct vb_rs *rs = vb_container(object, struct vb_rs, object);

	/* The objects of a stale rsocket belong to the parent process. */
	if (!vb_rs_is_stale(rs)) {
		vb_rs_endpoint_destroy(rs);
		vb_rs_datagram_destroy(rs);
		if (rs->id)
			rdma_destroy_id(rs->id);
	}
	if (rs->parent)
		vb_rs_put(rs->parent);
	free(rs->options.route);
	pthread_mutex_destroy(&rs->lock);
	free(rs);
}

struct vb_rs *vb_rs_alloc(int domain, int type, const struct vb_rs_options *options)
{
	struct vb_rs *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	vb_fd_object_init(&rs->object, release_rsocket);
	rs->domain = domain;
	rs->type = type;
	rs->generation = vb_rs_generation();
	pthread_mutex_init(&rs->lock, NULL);
	vb_list_init(&rs->watches);
	vb_list_init(&rs->listener.requests);
	vb_list_init(&rs->listener.ready);
	vb_list_init(&rs->accept_node);
	rs->local.sa.sa_family = rs->peer.sa.sa_family = (sa_family_t)domain;
	if (options)
		vb_rs_options_inherit(&rs->options, options);
	else
		vb_rs_options_init(&rs->options);
	return rs;
}

void vb_rs_get(struct vb_rs *rs)
{
	vb_fd_object_get(&rs->object);
}

void vb_rs_put(struct vb_rs *rs)
{
	vb_fd_object_put(&rs->object);
}

void vb_rs_undo_get(void *rs)
{
	vb_rs_put(rs);
}

bool vb_rs_is_stale(const struct vb_rs *rs)
{
	return rs->generation != vb_rs_generation();
}

static int check_kind(int domain, int type, int protocol)
{
	/* Datagram rsockets need UDP, which has no AF_IB addresses. */
	if (domain != AF_INET && domain != AF_INET6 && (domain != AF_IB || type != SOCK_STREAM))
		return -EAFNOSUPPORT;
	if (type != SOCK_STREAM && type != SOCK_DGRAM)
		return -EPROTOTYPE;
	if (protocol && protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return -EPROTONOSUPPORT;
	return 0;
}

static void set_id_flag(struct rdma_cm_id *id, int name, int value)
{
	if (value)
		rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

/* A new identifier gets the options that the program set on the one before. */
static void set_id_options(struct rdma_cm_id *id, const struct vb_rs_options *options)
{
	uint8_t tos = (uint8_t)options->tos;

	set_id_flag(id, RDMA_OPTION_ID_REUSEADDR, options->reuse_addr);
	set_id_flag(id, RDMA_OPTION_ID_AFONLY, options->v6only);
	if (tos)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
}

int vb_rs_create_id(struct vb_rs *rs, struct rdma_cm_id **id)
{
	struct rdma_event_channel *channel;
	int err = vb_rs_service_start(&channel);
	int on = 1;

	if (err)
		return err;
	if (rdma_create_id(channel, id, rs, RDMA_PS_TCP))
		return -errno;
	/* Another librdmacm does not know the option, and never retries. */
	rdma_set_option(*id, RDMA_OPTION_ID, VB_OPTION_ID_AT_ONCE, &on, sizeof(on));
	set_id_options(*id, &rs->options);
	return 0;
}

int vb_rs_open(int domain, int type, int protocol, struct vb_rs **out)
{
	int err = check_kind(domain, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol);
	struct vb_rs *rs;

	if (err)
		return err;
	rs = vb_rs_alloc(domain, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), NULL);
	if (!rs)
		return -ENOMEM;
	rs->nonblock = type & SOCK_NONBLOCK;
	err = rs->type == SOCK_STREAM ? vb_rs_create_id(rs, &rs->id) : vb_rs_datagram_create(rs);
	if (err)
		vb_rs_put(rs);
	else
		*out = rs;
	return err;
}

void vb_rs_set_nonblock(struct vb_rs *rs, bool nonblock)
{
	pthread_mutex_lock(&rs->lock);
	rs->nonblock = nonblock;
	pthread_mutex_unlock(&rs->lock);
}

int vb_rs_check_addr(const struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	if (!addr)
		return -EFAULT;
	if (size < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family != rs->domain)
		return -EAFNOSUPPORT;
	return size < vb_rs_addr_size(rs->domain) ? -EINVAL : 0;
}

void vb_rs_copy_addr(const union vb_rs_addr *from, struct sockaddr *addr, socklen_t *size)
{
	const socklen_t whole = vb_rs_addr_size(from->sa.sa_family);

	memcpy(addr, from, *size < whole ? *size : whole);
	*size = whole;
}

void vb_rs_take_name(const struct vb_rs *rs, const struct sockaddr *from, union vb_rs_addr *name)
{
	const struct sockaddr_in *in = (const void *)from;

	memset(name, 0, sizeof(*name));
	if (rs->domain != AF_INET6 || from->sa_family != AF_INET) {
		memcpy(name, from, vb_rs_addr_size(rs->domain));
		return;
	}
	name->in6.sin6_family = AF_INET6;
	name->in6.sin6_port = in->sin_port;
	memset(name->in6.sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(name->in6.sin6_addr.s6_addr + 12, &in->sin_addr, sizeof(in->sin_addr));
}

static int bind_stream(struct vb_rs *rs, const struct sockaddr *addr)
{
	if (rs->state != VB_RS_INIT)
		return -EINVAL;
	if (rdma_bind_addr(rs->id, (struct sockaddr *)addr))
		return -errno;
	vb_rs_take_name(rs, rdma_get_local_addr(rs->id), &rs->local);
	rs->state = VB_RS_BOUND;
	return 0;
}

int vb_rs_bind_any(struct vb_rs *rs)
{
	const union vb_rs_addr any = { .sa.sa_family = (sa_family_t)rs->domain };

	return bind_stream(rs, &any.sa);
}

int vb_rs_bind(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size)
{
	int err = vb_rs_check_addr(rs, addr, size);

	if (err)
		return err;
	pthread_mutex_lock(&rs->lock);
	err = rs->type == SOCK_STREAM ? bind_stream(rs, addr) : vb_rs_datagram_bind(rs, addr, size);
	pthread_mutex_unlock(&rs->lock);
	return err;
}

int vb_rs_name_local(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size)
{
	if (rs->type == SOCK_DGRAM)
		return vb_rs_datagram_name(rs, addr, size);
	pthread_mutex_lock(&rs->lock);
	vb_rs_copy_addr(&rs->local, addr, size);
	pthread_mutex_unlock(&rs->lock);
	return 0;
}

static bool has_peer(const struct vb_rs *rs)
{
	if (rs->type == SOCK_DGRAM)
		return vb_rs_datagram_is_connected(rs);
	return rs->state == VB_RS_CONNECTED || rs->state == VB_RS_DISCONNECTED ||
	       rs->state == VB_RS_ACCEPTING;
}

int vb_rs_name_peer(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size)
{
	int err = 0;

	pthread_mutex_lock(&rs->lock);
	if (has_peer(rs))
		vb_rs_copy_addr(&rs->peer, addr, size);
	else
		err = -ENOTCONN;
	pthread_mutex_unlock(&rs->lock);
	return err;
}

static void close_stream(struct vb_rs *rs)
{
	const struct linger linger = rs->options.linger;
	uint64_t wait_ns = close_wait_ns;

	if (linger.l_onoff)
		wait_ns = linger.l_linger > 0 ? (uint64_t)linger.l_linger * 1000000000u : 0;
	vb_rs_finish(rs, wait_ns ? vb_now_ns() + wait_ns : 0);
	vb_rs_listener_close(rs);
}

int vb_rs_close(struct vb_rs *rs)
{
	if (vb_rs_is_stale(rs))
		return 0;
	if (rs->type == SOCK_STREAM)
		close_stream(rs);
	else
		vb_rs_datagram_close(rs);
	pthread_mutex_lock(&rs->lock);
	rs->closed = true;
	vb_rs_notify(rs, NULL);
	pthread_mutex_unlock(&rs->lock);
	/* After `closed` is set: until then a new connection may ask for keepalives. */
	vb_rs_service_forget(rs);
	return 0;
}
