/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subnet administration (mad/sa.h) without a daemon knows the own port, the neighbours in the
 * kernel's table, and groups. A membership is a bound name, which other processes of the host
 * see:
 *
 *   verbena.mad.group.<mgid>.<join state>.<random>
 *
 * It ends when the program leaves the group, or with its process.
 */
#include "gsi/sa.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "gsi/impl.h"
#include "gsi/mad.h"
#include "net/gid.h"
#include "net/neighbour.h"
#include "nic/ib_path.h"
#include "nic/lid.h"

struct membership {
	struct vb_list node; /* in gsi->groups */
	struct vb_sa_group group;
	int fd;
};

/* --- ports --- */

static void add_port(struct vb_sa_view *view, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_sa_port *port = &view->ports[view->port_count];

	if (view->port_count == VB_SA_PORTS_MAX || !lid)
		return;
	memcpy(port->gid, gid->raw, sizeof(port->gid));
	port->lid = lid;
	view->port_count++;
}

static void see_ports(const struct vb_device *dev, struct vb_sa_view *view)
{
	const union ibv_gid own = vb_gid_from_guid(dev->guid);
	struct vb_neighbour *list = malloc(VB_SA_PORTS_MAX * sizeof(*list));
	const unsigned count =
		list ? vb_neighbour_list(vb_ib_interface(dev), list, VB_SA_PORTS_MAX) : 0;

	add_port(view, &own, vb_device_lid(dev));
	for (unsigned i = 0; i < count; i++) {
		const union ibv_gid gid = vb_gid_from_guid(vb_guid_infiniband(list[i].mac));

		if (!vb_gid_is_own(&list[i].address))
			add_port(view, &gid, vb_lid_at(dev, &list[i].address));
	}
	free(list);
}

/*
 * A path to a LID that the kernel's table does not have: the kernel asks the link, and this thread,
 * which belongs to the program, waits a moment for the answer.
 */
static void look_for(const struct vb_device *dev, uint16_t lid)
{
	enum { TRIES = 20 };
	const struct timespec pause = { .tv_nsec = 10000000 };
	union ibv_gid own, other;

	if (lid == vb_device_lid(dev) || vb_lid_addresses(dev, lid, &own, &other))
		return;
	for (int i = 0; i < TRIES && !vb_neighbour_is_known(&own, &other, 0); i++)
		nanosleep(&pause, NULL);
}

/* --- groups --- */

static void add_group(struct vb_sa_view *view, const struct vb_sa_group *group)
{
	for (unsigned i = 0; i < view->group_count; i++)
		if (!memcmp(view->groups[i].mgid, group->mgid, sizeof(group->mgid))) {
			view->groups[i].join_state |= group->join_state;
			return;
		}
	if (view->group_count < VB_SA_GROUPS_MAX)
		view->groups[view->group_count++] = *group;
}

static bool read_name(const char *name, struct vb_sa_group *group)
{
	unsigned byte, state;

	for (unsigned i = 0; i < VB_SA_GID_SIZE; i++) {
		if (sscanf(name + 2 * i, "%2x", &byte) != 1)
			return false;
		group->mgid[i] = (uint8_t)byte;
	}
	if (sscanf(name + 2 * VB_SA_GID_SIZE, ".%x.", &state) != 1 || !state || state > 0xf)
		return false;
	group->join_state = (uint8_t)state;
	return group->mgid[0] == 0xff;
}

static void see_groups_of_host(struct vb_sa_view *view)
{
	static const char prefix[] = " @verbena.mad.group.";
	FILE *file = fopen("/proc/net/unix", "re");
	struct vb_sa_group group;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, prefix);

		if (name && read_name(name + sizeof(prefix) - 1, &group))
			add_group(view, &group);
	}
	if (file)
		fclose(file);
}

/* A program changes its own memberships only. */
static void see_own_groups(struct vb_gsi *gsi, struct vb_sa_view *view)
{
	pthread_mutex_lock(&gsi->lock);
	vb_list_for(membership, &gsi->groups, struct membership, node)
		add_group(view, &membership->group);
	pthread_mutex_unlock(&gsi->lock);
}

static int bind_group(const struct vb_sa_group *group)
{
	struct vb_cm_target target = { .address.sun_family = AF_UNIX };
	char *text = target.address.sun_path + 1;
	int length = sprintf(text, "verbena.mad.group.");

	for (unsigned i = 0; i < VB_SA_GID_SIZE; i++)
		length += sprintf(text + length, "%02x", group->mgid[i]);
	length += sprintf(text + length, ".%x.%08x", group->join_state, (uint32_t)vb_random64());
	target.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	return vb_cm_bind(&target);
}

/* Under gsi->lock. */
static void forget_group(struct vb_gsi *gsi, const uint8_t *mgid)
{
	vb_list_for(membership, &gsi->groups, struct membership, node) {
		if (memcmp(membership->group.mgid, mgid, VB_SA_GID_SIZE))
			continue;
		close(membership->fd);
		vb_list_remove(&membership->node);
		free(membership);
	}
}

static bool hold_group(struct vb_gsi *gsi, const struct vb_sa_group *group)
{
	struct membership *membership = malloc(sizeof(*membership));

	if (!membership)
		return false;
	membership->group = *group;
	membership->fd = bind_group(group);
	if (membership->fd < 0) {
		free(membership);
		return false;
	}
	vb_list_append(&gsi->groups, &membership->node);
	return true;
}

static uint8_t remaining(const struct vb_sa_view *view, const struct vb_sa_group *left)
{
	for (unsigned i = 0; i < view->group_count; i++)
		if (!memcmp(view->groups[i].mgid, left->mgid, sizeof(left->mgid)))
			return view->groups[i].join_state & (uint8_t)~left->join_state;
	return 0;
}

/* A join state may be left in parts: what remains is held on. */
static bool act(struct vb_gsi *gsi, const struct vb_sa_view *view,
		const struct vb_sa_effect *effect)
{
	struct vb_sa_group group = effect->group;
	bool done = true;

	if (effect->act == VB_SA_REGISTER)
		return vb_gsi_register(gsi, effect->service);
	if (effect->act == VB_SA_WITHDRAW)
		vb_gsi_withdraw(gsi, effect->service);
	if (effect->act != VB_SA_JOIN && effect->act != VB_SA_LEAVE)
		return true;
	if (effect->act == VB_SA_LEAVE)
		group.join_state = remaining(view, &effect->group);
	pthread_mutex_lock(&gsi->lock);
	forget_group(gsi, group.mgid);
	if (group.join_state)
		done = hold_group(gsi, &group);
	pthread_mutex_unlock(&gsi->lock);
	return done;
}

void vb_gsi_forget_groups(struct vb_gsi *gsi)
{
	vb_list_for(membership, &gsi->groups, struct membership, node)
		close(membership->fd);
}

/* --- answering --- */

size_t vb_mad_sa(struct vb_nic *nic, const struct vb_device *dev, const uint8_t *request,
		 uint8_t *answer, size_t room)
{
	struct vb_gsi *gsi = vb_gsi_get(nic);
	struct vb_sa_view *view = calloc(1, sizeof(*view));
	struct vb_sa_effect effect;
	struct vb_mad mad;
	size_t length = 0;

	vb_mad_parse(request, &mad);
	if (view && gsi && dev->infiniband && room >= VB_SA_ANSWER_MAX) {
		look_for(dev, vb_sa_path_lid(request));
		vb_mad_port_fill(nic, dev, &view->own);
		see_ports(dev, view);
		if (mad.method == VB_MAD_SET || mad.method == VB_MAD_DELETE)
			see_own_groups(gsi, view);
		else
			see_groups_of_host(view);
		if (mad.attribute_id == VB_SA_SERVICE_RECORD)
			vb_gsi_see_services(gsi, view);
		length = vb_sa_answer(view, request, answer, &effect);
		if (length && !act(gsi, view, &effect))
			length = 0; /* no descriptor: the program asks again */
	}
	free(view);
	return length;
}
