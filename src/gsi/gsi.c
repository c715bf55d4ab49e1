/* SPDX-License-Identifier: BSD-2-Clause */
/* The names that this process has bound, and the functions that librdmacm calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/message.h"
#include "base/probe.h"
#include "base/random.h"
#include "capture/ring.h"
#include "engine/wire/listen.h"
#include "engine/wire/wire_impl.h"
#include "gsi/impl.h"
#include "gsi/sa.h"
#include "net/gid.h"
#include "nic/choice.h"
#include "shm/slot.h"

#define NOBODY UINT32_MAX

struct claimed {
	struct vb_list node;
	int fd;
};

static struct vb_gsi *_Atomic the_gsi;

/* --- fork: names belong to the parent; in the child they would outlive it --- */

static void forget_in_child(void)
{
	struct vb_gsi *gsi = atomic_exchange(&the_gsi, NULL);

	if (!gsi)
		return;
	vb_list_for(claimed, &gsi->claims, struct claimed, node)
		close(claimed->fd);
	vb_fd_close(&gsi->out);
	vb_fd_close(&gsi->timer);
	vb_fd_close(&gsi->inbox.event);
	vb_gsi_forget_groups(gsi);
	vb_gsi_forget_services(gsi);
}

static struct vb_gsi *forking; /* the forking thread holds its lock */

/* The lock keeps the list of claims whole in the child. */
static void before_fork(void)
{
	forking = atomic_load(&the_gsi);
	if (forking)
		pthread_mutex_lock(&forking->lock);
}

static void in_parent(void)
{
	if (forking)
		pthread_mutex_unlock(&forking->lock);
}

static const struct vb_fork_handlers at_fork = { before_fork, in_parent, forget_in_child };

/* --- counters --- */

void vb_gsi_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg)
{
	static const char *const names[VB_GSI_COUNTS] = {
		[VB_GSI_SENT] = "mad_sent",
		[VB_GSI_RECEIVED] = "mad_rcvd",
		[VB_GSI_ROUTED] = "mad_routed",
		[VB_GSI_TAKEN] = "mad_taken",
		[VB_GSI_ANSWERED] = "mad_answered",
		[VB_GSI_WAITED] = "mad_waited",
		[VB_GSI_MALFORMED] = "mad_dropped_malformed",
		[VB_GSI_REFUSED] = "mad_dropped_refused",
		[VB_GSI_NOBODY] = "mad_dropped_nobody",
		[VB_GSI_FULL] = "mad_dropped_full",
		[VB_GSI_FLOOD] = "mad_dropped_flood",
		[VB_GSI_NO_WAY] = "mad_dropped_no_way",
	};
	struct vb_gsi *gsi = atomic_load(&the_gsi);

	for (int i = 0; i < VB_GSI_COUNTS; i++)
		each(arg, names[i], gsi ? atomic_load(&gsi->counts[i]) : 0);
}

void vb_gsi_count_refused(struct vb_nic *nic)
{
	struct vb_gsi *gsi = atomic_load(&the_gsi);

	if (gsi && gsi->nic == nic)
		vb_gsi_count(gsi, VB_GSI_REFUSED);
}

/* --- making it --- */

static struct vb_gsi *gsi_new(struct vb_nic *nic)
{
	struct vb_gsi *gsi = calloc(1, sizeof(*gsi));

	if (!gsi)
		return NULL;
	gsi->out = vb_gsi_open_out();
	if (gsi->out < 0) {
		free(gsi);
		return NULL;
	}
	gsi->nic = nic;
	gsi->source_key = vb_random64();
	gsi->timer = gsi->inbox.event = -1;
	pthread_mutex_init(&gsi->lock, NULL);
	vb_list_init(&gsi->claims);
	vb_list_init(&gsi->lines);
	vb_list_init(&gsi->groups);
	vb_list_init(&gsi->services);
	return gsi;
}

struct vb_gsi *vb_gsi_get(struct vb_nic *nic)
{
	struct vb_gsi *gsi = atomic_load(&the_gsi), *made, *none = NULL;

	if (gsi && gsi->nic == nic)
		return gsi;
	vb_fork_register(VB_FORK_GSI, &at_fork);
	made = gsi_new(nic);
	if (!made)
		return NULL;
	if (atomic_compare_exchange_strong(&the_gsi, &none, made))
		return made;
	close(made->out); /* another thread was first */
	free(made);
	return none;
}

/* --- names --- */

int vb_gsi_open(struct vb_nic *nic)
{
	struct vb_gsi *gsi = vb_gsi_get(nic);
	int err = 0;

	if (!gsi)
		return -ENOMEM;
	pthread_mutex_lock(&gsi->lock);
	if (!gsi->open)
		err = vb_slot_open_cm(nic->cm);
	gsi->open = !err;
	pthread_mutex_unlock(&gsi->lock);
	return err ? err : nic->cm;
}

int vb_gsi_claim(struct vb_nic *nic, struct vb_cm_claim *claim)
{
	struct vb_gsi *gsi = vb_gsi_get(nic);
	struct claimed *claimed = gsi ? malloc(sizeof(*claimed)) : NULL;
	int fd;

	if (!claimed)
		return -ENOMEM;
	pthread_mutex_lock(&gsi->lock); /* a fork in between would leave the name to the child */
	fd = claimed->fd = vb_cm_claim(claim);
	if (fd >= 0)
		vb_list_append(&gsi->claims, &claimed->node);
	pthread_mutex_unlock(&gsi->lock);
	if (fd < 0)
		free(claimed);
	else if (claim->replaces >= 0)
		vb_gsi_release(claim->replaces);
	return fd;
}

void vb_gsi_release(int fd)
{
	struct vb_gsi *gsi = atomic_load(&the_gsi);

	if (!gsi)
		return;
	pthread_mutex_lock(&gsi->lock);
	vb_list_for(claimed, &gsi->claims, struct claimed, node) {
		if (claimed->fd != fd)
			continue;
		vb_list_remove(&claimed->node);
		close(fd);
		free(claimed);
		break;
	}
	pthread_mutex_unlock(&gsi->lock);
}

/* --- listening to other hosts --- */

int vb_gsi_listen(struct vb_nic *nic, const union ibv_gid *own)
{
	struct vb_lane *lane;
	int err = vb_engine_start(nic);

	if (err)
		return err;
	lane = vb_wire_get(nic, &err);
	if (!lane)
		return err;
	vb_wire_lock(lane);
	err = own ? vb_port_listen(lane->port, own) : vb_listen_everywhere(lane);
	vb_wire_unlock(lane);
	if (err)
		vb_explain("no connection requests come from other hosts: %s", strerror(-err));
	return err;
}

/* --- messages --- */

/* A program traces: the message is a station of its connection. All messages of the connection
 * manager begin with the two comm ids. */
static void trace_mad(const struct vb_gsi_datagram *datagram, bool out)
{
	struct vb_capture_station station = { .station = VB_STATION_CM, .out = out };
	struct vb_mad mad;

	vb_mad_parse(datagram->mad, &mad);
	station.attribute = mad.attribute_id;
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t *id = datagram->mad + VB_MAD_HEADER_SIZE + 4 * i;

		station.comm_ids[i] = (uint32_t)id[0] << 24 | (uint32_t)id[1] << 16 |
				      (uint32_t)id[2] << 8 | id[3];
	}
	vb_capture_station(&station);
}

/* A program captures: no packet carries the MAD, so a record does. */
static void capture_mad(const struct vb_gsi_datagram *datagram)
{
	struct vb_capture_packet *record =
		vb_captures(VB_WANT_PACKETS)
			? vb_capture_begin(VB_CAPTURE_MAD, sizeof(*record) + VB_MAD_SIZE, 1,
					   vb_now_ns())
			: NULL;

	if (!record)
		return;
	memset((uint8_t *)record + sizeof(record->head), 0, sizeof(*record) - sizeof(record->head));
	memcpy(record->src, datagram->src.raw, sizeof(record->src));
	memcpy(record->dst, datagram->dst.raw, sizeof(record->dst));
	memcpy(record + 1, datagram->mad, VB_MAD_SIZE);
	vb_capture_end();
}

static int send_within_host(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram)
{
	struct vb_gsi_datagram answer, nothing;

	if (vb_captured())
		capture_mad(datagram);
	if (vb_gsi_route(gsi, datagram, &answer)) {
		if (vb_captured())
			capture_mad(&answer);
		vb_gsi_route(gsi, &answer, &nothing);
	}
	return 0;
}

int vb_gsi_send(struct vb_nic *nic, const struct vb_gsi_datagram *datagram)
{
	struct vb_gsi *gsi = vb_gsi_get(nic);
	struct vb_gsi_datagram copy = *datagram;

	if (!gsi)
		return -ENOMEM;
	if (vb_gid_is_zero(&copy.dst) || vb_gid_is_multicast(&copy.dst))
		return -EINVAL;
	copy.magic = VB_GSI_MAGIC;
	copy.from_wire = 0;
	copy.src_port = 0;
	VB_PROBE(cm_send, copy.mad);
	if (vb_captured())
		trace_mad(&copy, true);
	if (!vb_choice_udp_to_self() && vb_gid_is_own(&copy.dst))
		return send_within_host(gsi, &copy);
	return vb_gsi_send_packet(gsi, &copy);
}

/* A MAD from this host has an own source address. A MAD from another host came through a port. */
static bool is_plausible(const struct vb_gsi_datagram *datagram, ssize_t size)
{
	if (size != (ssize_t)sizeof(*datagram) || datagram->magic != VB_GSI_MAGIC ||
	    datagram->from_wire > 1)
		return false;
	if (vb_gid_is_zero(&datagram->src) || vb_gid_is_multicast(&datagram->src))
		return false;
	return datagram->from_wire || vb_gid_is_own(&datagram->src);
}

/* Returns the datagram's length, even if it is too long, and its sender's uid. */
static ssize_t receive_datagram(int fd, struct vb_gsi_datagram *datagram, uid_t *uid)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = { datagram, sizeof(*datagram) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t size = vb_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = size < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	struct ucred cred;

	*uid = NOBODY;
	if (!c || c->cmsg_type != SCM_CREDENTIALS || c->cmsg_len < CMSG_LEN(sizeof(cred)))
		return size;
	memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	*uid = cred.uid;
	return size;
}

/* Only these users of this host can have received a packet for dst from another host. */
static bool may_forward(struct vb_nic *nic, const union ibv_gid *dst, uid_t uid)
{
	struct vb_lane *lane = vb_lane_first(nic);
	bool may = uid == geteuid() || uid == 0;

	if (may || !lane)
		return may;
	vb_wire_lock(lane);
	may = vb_port_takes_from(lane->port, dst, uid);
	vb_wire_unlock(lane);
	return may;
}

int vb_gsi_receive(struct vb_nic *nic, int fd, struct vb_gsi_datagram *datagram, uid_t *uid)
{
	struct vb_gsi *gsi = vb_gsi_get(nic);
	ssize_t size;

	if (!gsi)
		return -ENOMEM;
	do
		size = receive_datagram(fd, datagram, uid);
	while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	if (!is_plausible(datagram, size)) {
		vb_gsi_count(gsi, VB_GSI_MALFORMED);
		return -EBADMSG;
	}
	if (datagram->from_wire && !may_forward(nic, &datagram->dst, *uid)) {
		vb_gsi_count(gsi, VB_GSI_REFUSED);
		return -EBADMSG;
	}
	vb_gsi_count(gsi, VB_GSI_TAKEN);
	VB_PROBE(cm_receive, datagram->mad);
	if (vb_captured())
		trace_mad(datagram, false);
	/* Packets that arrived before the datagram shall complete before its event. */
	vb_wire_catch_up(nic);
	return 0;
}
