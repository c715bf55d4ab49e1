/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ServiceRecords without a daemon. A process keeps those that it has registered, each with a socket
 * whose name other processes of the host see:
 *
 *   verbena.mad.service.<service id>.<random>
 *
 * They ask there, and its service thread answers with the record, but for the key. A record ends
 * with its lease, when it is withdrawn, or with its process.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "engine/watch.h"
#include "gsi/sa.h"
#include "wire/bytes.h"

enum {
	PATIENCE_MS = 200, /* for the slowest process */
	NAME_MAX = 48,
	QUERY_SIZE = 1,
};

struct service {
	struct vb_list node; /* in gsi->services */
	uint8_t record[VB_SA_SERVICE_SIZE];
	uint64_t end_ns; /* of its lease; VB_NEVER_NS */
	int fd;
};

/* --- own services; under gsi->lock --- */

static void drop(struct vb_gsi *gsi, struct service *service)
{
	vb_unwatch(gsi->nic, service->fd);
	close(service->fd);
	vb_list_remove(&service->node);
	free(service);
}

static void drop_ended(struct vb_gsi *gsi)
{
	const uint64_t now_ns = vb_now_ns();

	vb_list_for(service, &gsi->services, struct service, node)
		if (now_ns >= service->end_ns)
			drop(gsi, service);
}

/* The record as it is now: with what is left of its lease, rounded up. */
static void tell(const struct service *service, uint8_t record[VB_SA_SERVICE_SIZE])
{
	const uint64_t second = 1000000000;

	memcpy(record, service->record, VB_SA_SERVICE_SIZE);
	if (service->end_ns != VB_NEVER_NS)
		vb_put32(record + VB_SA_LEASE_AT,
			 (uint32_t)((service->end_ns - vb_now_ns() + second - 1) / second));
}

static struct service *find(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE])
{
	vb_list_for(service, &gsi->services, struct service, node)
		if (vb_sa_service_is(service->record, record))
			return service;
	return NULL;
}

/* By the service thread: another process asks. */
static void on_query(int fd, void *arg)
{
	struct vb_gsi *gsi = arg;
	uint8_t query[QUERY_SIZE + 1], record[VB_SA_SERVICE_SIZE];
	struct sockaddr_un from;
	socklen_t length = sizeof(from);
	ssize_t got = recvfrom(fd, query, sizeof(query), MSG_DONTWAIT | MSG_TRUNC, (void *)&from,
			       &length);
	bool found = false;

	if (got < 0)
		return;
	pthread_mutex_lock(&gsi->lock);
	drop_ended(gsi);
	vb_list_for(service, &gsi->services, struct service, node) {
		if (service->fd != fd)
			continue;
		tell(service, record);
		found = true;
	}
	pthread_mutex_unlock(&gsi->lock);
	if (got != QUERY_SIZE)
		vb_gsi_count(gsi, VB_GSI_REFUSED);
	if (!found || got != QUERY_SIZE)
		return;
	vb_sa_service_hide(record);
	(void)sendto(fd, record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&from,
		     length);
}

static int bind_service(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE])
{
	struct vb_cm_target target = { .address.sun_family = AF_UNIX };
	int length = snprintf(target.address.sun_path + 1, NAME_MAX,
			      "verbena.mad.service.%016" PRIx64 ".%08" PRIx32,
			      vb_sa_service_id(record), (uint32_t)vb_random64());
	int fd, err;

	target.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	fd = vb_cm_bind(&target);
	if (fd < 0)
		return fd;
	err = vb_watch(gsi->nic, fd, on_query, gsi);
	if (err)
		vb_fd_close(&fd);
	return err ? err : fd;
}

bool vb_gsi_register(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE])
{
	const uint32_t lease = vb_get32(record + VB_SA_LEASE_AT);
	struct service *made = calloc(1, sizeof(*made)), *service;

	if (!made)
		return false;
	made->fd = bind_service(gsi, record);
	if (made->fd < 0) {
		free(made);
		return false;
	}
	memcpy(made->record, record, sizeof(made->record));
	made->end_ns = lease == VB_SA_LEASE_EVER ? VB_NEVER_NS
						 : vb_now_ns() + lease * UINT64_C(1000000000);
	pthread_mutex_lock(&gsi->lock);
	service = find(gsi, record);
	if (service)
		drop(gsi, service);
	vb_list_append(&gsi->services, &made->node);
	pthread_mutex_unlock(&gsi->lock);
	return true;
}

void vb_gsi_withdraw(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE])
{
	struct service *service;

	pthread_mutex_lock(&gsi->lock);
	service = find(gsi, record);
	if (service)
		drop(gsi, service);
	pthread_mutex_unlock(&gsi->lock);
}

void vb_gsi_forget_services(struct vb_gsi *gsi)
{
	vb_list_for(service, &gsi->services, struct service, node)
		close(service->fd);
}

/* --- services of the host --- */

static void add(struct vb_sa_view *view, const uint8_t record[VB_SA_SERVICE_SIZE], bool is_own)
{
	if (view->service_count == VB_SA_SERVICES_MAX)
		return;
	memcpy(view->services[view->service_count].record, record, VB_SA_SERVICE_SIZE);
	view->services[view->service_count++].is_own = is_own;
}

static void see_own(struct vb_gsi *gsi, struct vb_sa_view *view)
{
	uint8_t record[VB_SA_SERVICE_SIZE];

	pthread_mutex_lock(&gsi->lock);
	drop_ended(gsi);
	vb_list_for(service, &gsi->services, struct service, node) {
		tell(service, record);
		add(view, record, true);
	}
	pthread_mutex_unlock(&gsi->lock);
}

/* The names that are asked, and not answered yet. */
struct asked {
	struct vb_gsi *gsi;
	int fd;
	unsigned count;
	struct {
		char name[NAME_MAX];
		bool answered;
	} list[VB_SA_SERVICES_MAX];
};

static bool is_own_name(const struct asked *asked, const char *name)
{
	struct sockaddr_un own;
	bool is = false;

	pthread_mutex_lock(&asked->gsi->lock);
	vb_list_for(service, &asked->gsi->services, struct service, node) {
		socklen_t length = sizeof(own);

		memset(&own, 0, sizeof(own));
		if (!getsockname(service->fd, (void *)&own, &length))
			is |= !strncmp(own.sun_path + 1, name, NAME_MAX);
	}
	pthread_mutex_unlock(&asked->gsi->lock);
	return is;
}

static void ask(struct asked *asked, const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const size_t length = strlen(name);
	const uint8_t query[QUERY_SIZE] = { 0 };

	if (asked->count == VB_SA_SERVICES_MAX || length >= NAME_MAX || is_own_name(asked, name))
		return;
	memcpy(to.sun_path + 1, name, length);
	if (sendto(asked->fd, query, sizeof(query), MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) < 0)
		return;
	memcpy(asked->list[asked->count++].name, name, length + 1);
}

static void ask_all(struct asked *asked)
{
	static const char mark[] = " @verbena.mad.service.";
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		char *name = strstr(line, mark);

		if (!name)
			continue;
		name[strcspn(name, "\n")] = '\0';
		ask(asked, name + 2);
	}
	if (file)
		fclose(file);
}

/* True: it is the answer of a process that was asked, to the name that it has. */
static bool is_answer(struct asked *asked, const char *name, const uint8_t *record, ssize_t size)
{
	uint64_t id;

	for (unsigned i = 0; i < asked->count; i++) {
		if (asked->list[i].answered || strcmp(asked->list[i].name, name))
			continue;
		asked->list[i].answered = true;
		return size == VB_SA_SERVICE_SIZE &&
		       sscanf(name, "verbena.mad.service.%16" SCNx64, &id) == 1 &&
		       id == vb_sa_service_id(record);
	}
	return false;
}

static bool take_answer(struct asked *asked, struct vb_sa_view *view)
{
	uint8_t record[VB_SA_SERVICE_SIZE];
	struct sockaddr_un from = { 0 };
	socklen_t length = sizeof(from) - 1; /* a NUL stays behind it */
	ssize_t size = recvfrom(asked->fd, record, sizeof(record), MSG_DONTWAIT | MSG_TRUNC,
				(void *)&from, &length);

	if (size < 0)
		return false;
	if (!is_answer(asked, from.sun_path + 1, record, size) ||
	    !vb_sa_service_is_of(view, record)) {
		vb_gsi_count(asked->gsi, VB_GSI_REFUSED);
		return true;
	}
	vb_sa_service_hide(record);
	add(view, record, false);
	return true;
}

static bool all_answered(const struct asked *asked)
{
	for (unsigned i = 0; i < asked->count; i++)
		if (!asked->list[i].answered)
			return false;
	return true;
}

static void see_others(struct asked *asked, struct vb_sa_view *view)
{
	const uint64_t end_ns = vb_now_ns() + PATIENCE_MS * UINT64_C(1000000);
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct pollfd fds = { .fd = asked->fd, .events = POLLIN };

	/* The kernel gives the socket a name, for the answers. */
	if (bind(asked->fd, (const void *)&any, sizeof(any.sun_family)))
		return;
	ask_all(asked);
	while (!all_answered(asked) && vb_now_ns() < end_ns)
		if (poll(&fds, 1, (int)((end_ns - vb_now_ns()) / 1000000) + 1) > 0)
			while (take_answer(asked, view))
				;
}

void vb_gsi_see_services(struct vb_gsi *gsi, struct vb_sa_view *view)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	see_own(gsi, view);
	if (!asked)
		return;
	asked->gsi = gsi;
	asked->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (asked->fd >= 0)
		see_others(asked, view);
	vb_fd_close(&asked->fd);
	free(asked);
}
