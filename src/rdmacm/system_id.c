/* SPDX-License-Identifier: BSD-2-Clause */
/* Which connection manager an identifier belongs to. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmacm/bind.h"
#include "rdmacm/system.h"

/* --- shadows --- */

static int theirs(int result)
{
	return result ? -vb_cma_engine()->system_errno() : 0;
}

static int set_option(struct rdma_cm_id *shadow, int name, void *value, size_t length)
{
	vb_cma_engine()->system_enter();
	return theirs(
		vb_cma_system()->rdma_set_option(shadow, RDMA_OPTION_ID, name, value, length));
}

int vb_cma_system_option(struct vb_cma_id *id, int level, int name, void *value, size_t length)
{
	if (!id->shadow || level != RDMA_OPTION_ID)
		return 0;
	return set_option(id->shadow, name, value, length);
}

/* Options that the program set before the address was known. */
static int repeat_options(const struct vb_cma_id *id, struct rdma_cm_id *shadow)
{
	int yes = 1, afonly = id->afonly;
	uint8_t tos = id->tos, ack_timeout = id->ack_timeout;
	int err = 0;

	if (id->reuseaddr)
		err = set_option(shadow, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes));
	if (!err && id->afonly_set)
		err = set_option(shadow, RDMA_OPTION_ID_AFONLY, &afonly, sizeof(afonly));
	if (!err && id->tos_set)
		err = set_option(shadow, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
	if (!err && id->ack_timeout_set)
		err = set_option(shadow, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
				 sizeof(ack_timeout));
	return err;
}

static int shadow_create(struct vb_cma_id *id, struct rdma_cm_id **shadow)
{
	int err;

	vb_cma_engine()->system_enter();
	err = theirs(vb_cma_system()->rdma_create_id(vb_cma_channel_of(id)->system, shadow, id,
						     id->id.ps));
	if (err)
		return err;
	err = repeat_options(id, *shadow);
	if (err)
		vb_cma_system()->rdma_destroy_id(*shadow);
	return err;
}

static void take_over(struct vb_cma_id *id, struct rdma_cm_id *shadow)
{
	id->shadow = shadow;
	id->is_systems = true;
	vb_cma_system_end(id, 0, "");
}

void vb_cma_system_destroy(struct vb_cma_id *id)
{
	struct rdma_cm_id *shadow = id->shadow;

	if (!shadow)
		return;
	if (id->is_systems)
		id->id.route.path_rec = NULL; /* the shadow's */
	id->shadow = NULL;
	id->is_systems = false;
	vb_cma_engine()->system_enter();
	vb_cma_system()->rdma_destroy_id(shadow);
}

static bool is_usable(const struct vb_cma_id *id)
{
	return id->id.channel && ((struct vb_cma_channel *)id->id.channel)->system;
}

/* --- bind --- */

/*
 * Binds a new shadow to the address. The kernel looks for the device before it takes the port: 0
 * with a shadow, or an error about the port, mean that a device of the system has the address.
 * -ENODEV: none has.
 */
static int shadow_bind(struct vb_cma_id *id, const struct sockaddr *addr,
		       struct rdma_cm_id **shadow)
{
	struct sockaddr_storage copy = { 0 };
	int err = shadow_create(id, shadow);

	if (err)
		return err;
	memcpy(&copy, addr, vb_address_size(addr));
	vb_cma_engine()->system_enter();
	err = theirs(vb_cma_system()->rdma_bind_addr(*shadow, (struct sockaddr *)&copy));
	if (!err && ((*shadow)->verbs || vb_address_is_any(addr)))
		return 0;
	vb_cma_system()->rdma_destroy_id(*shadow);
	return err == -EADDRINUSE || err == -EACCES ? err : -ENODEV;
}

static int explain_port(int err, const struct sockaddr *addr, const char *call)
{
	char text[VB_ADDRESS_TEXT];

	vb_explain("%s: the system's librdmacm refuses %s: %s", call, vb_address_print(addr, text),
		   strerror(-err));
	return err;
}

static void undo_bind(struct vb_cma_id *id)
{
	vb_cma_lock();
	vb_cma_unbind(id);
	memset(&id->id.route.addr.src_storage, 0, sizeof(struct sockaddr_storage));
	id->state = VB_CMA_IDLE;
	vb_cma_unlock();
}

/* Both get one port. Of a port that this library chose, the system's may know an owner. */
static int bind_both(struct vb_cma_id *id, const struct sockaddr *addr, const char *call)
{
	enum { TRIES = 16 };
	const bool chosen = vb_address_port(addr) == 0;
	int err = 0;

	for (int i = 0; i < TRIES; i++) {
		err = vb_cma_bind(id, addr, call);
		if (err)
			return err;
		err = shadow_bind(id, &id->id.route.addr.src_addr, &id->shadow);
		if (!err)
			return 0;
		id->shadow = NULL;
		if (err == -ENODEV)
			return 0;
		undo_bind(id);
		if (!chosen)
			break;
	}
	return explain_port(err, addr, call);
}

int vb_cma_system_bind(struct vb_cma_id *id, const struct sockaddr *addr, const char *call)
{
	struct rdma_cm_id *shadow;
	int err;

	if (!is_usable(id) || !vb_address_size(addr) || id->state != VB_CMA_IDLE ||
	    vb_address_is_loopback(addr) || vb_cma_stale(id->generation, call))
		return vb_cma_bind(id, addr, call);
	if (vb_address_is_any(addr))
		return bind_both(id, addr, call);
	err = shadow_bind(id, addr, &shadow);
	if (err == -ENODEV)
		return vb_cma_bind(id, addr, call);
	if (err)
		return explain_port(err, addr, call);
	take_over(id, shadow);
	return 0;
}

int vb_cma_system_listen(struct vb_cma_id *id, int backlog)
{
	int err;

	if (!id->shadow)
		return 0;
	vb_cma_engine()->system_enter();
	err = theirs(vb_cma_system()->rdma_listen(id->shadow, backlog));
	return err ? explain_port(err, &id->id.route.addr.src_addr, "rdma_listen") : 0;
}

/* --- resolve --- */

/* The source that the kernel's routing table has for an address, with port 0. */
static bool find_source(const struct sockaddr *dst, struct sockaddr_storage *src)
{
	socklen_t length = sizeof(*src);
	struct sockaddr_storage to = { 0 };
	bool found;
	int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	memcpy(&to, dst, vb_address_size(dst));
	vb_address_set_port((struct sockaddr *)&to, 9); /* any: nothing is sent */
	found = !connect(fd, (struct sockaddr *)&to, (socklen_t)vb_address_size(dst)) &&
		!getsockname(fd, (struct sockaddr *)src, &length);
	close(fd);
	if (found)
		vb_address_set_port((struct sockaddr *)src, 0);
	return found;
}

static bool has_device(struct vb_cma_id *id, const struct sockaddr *src)
{
	struct rdma_cm_id *probe;

	if (vb_address_is_any(src) || vb_address_is_loopback(src) || shadow_bind(id, src, &probe))
		return false;
	vb_cma_system()->rdma_destroy_id(probe);
	return true;
}

static bool leads_there(struct vb_cma_id *id, const struct sockaddr *src,
			const struct sockaddr *dst)
{
	struct sockaddr_storage chosen;

	if (src && vb_address_size(src) && !vb_address_is_any(src)) {
		memset(&chosen, 0, sizeof(chosen));
		memcpy(&chosen, src, vb_address_size(src));
		vb_address_set_port((struct sockaddr *)&chosen, 0);
		return has_device(id, (struct sockaddr *)&chosen);
	}
	if (dst->sa_family == AF_IB || vb_address_is_any(dst) || vb_address_is_loopback(dst))
		return false;
	return find_source(dst, &chosen) && has_device(id, (struct sockaddr *)&chosen);
}

bool vb_cma_system_carries(struct vb_cma_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst)
{
	struct rdma_cm_id *shadow = id->shadow;

	if (!is_usable(id) || id->device || !dst || !vb_address_size(dst) ||
	    (id->state != VB_CMA_IDLE && id->state != VB_CMA_ADDR_BOUND) ||
	    vb_cma_stale(id->generation, "rdma_resolve_addr"))
		return false;
	if (!leads_there(id, src, dst)) {
		vb_cma_system_destroy(id);
		return false;
	}
	if (!shadow && (id->state != VB_CMA_IDLE || shadow_create(id, &shadow)))
		return false;
	if (id->state != VB_CMA_IDLE)
		undo_bind(id);
	take_over(id, shadow);
	return true;
}

int vb_cma_system_migrate(struct vb_cma_id *id, struct vb_cma_channel *to)
{
	if (!id->shadow)
		return 0;
	if (!to->system) {
		vb_explain("rdma_migrate_id: the event channel has no part of the system's");
		return -EINVAL;
	}
	vb_cma_engine()->system_enter();
	return theirs(vb_cma_system()->rdma_migrate_id(id->shadow, to->system));
}
