/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/real.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/fd.h"
#include "base/fork.h"
#include "sysfs/adapter.h"
#include "sysfs/redirect.h"
#include "sysfs/reread.h"
#include "sysfs/umad.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list files = VB_LIST_INIT(files);   /* open ones; under lock */
static struct vb_list closed = VB_LIST_INIT(closed); /* never freed: watches may name them */

void vb_umad_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vb_umad_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

const struct vb_engine_table *vb_umad_engine(void)
{
	return vb_adapter_engine();
}

/* --- closing --- */

static void close_server(struct vb_umad_agent *agent)
{
	if (agent->server < 0)
		return;
	vb_umad_engine()->unwatch(agent->server);
	vb_fd_close(&agent->server);
}

static void forget_sent(struct vb_umad_file *file, uint32_t agent)
{
	vb_list_for(sent, &file->sent, struct vb_umad_sent, node) {
		if (sent->agent != agent && agent != VB_MAD_AGENTS)
			continue;
		vb_list_remove(&sent->node);
		file->sent_count--;
		free(sent);
	}
}

static void unwatch_and_close(int *fd)
{
	if (*fd >= 0)
		vb_umad_engine()->unwatch(*fd);
	vb_fd_close(fd);
}

/* Under lock. */
static void close_file(struct vb_umad_file *file)
{
	for (unsigned i = 0; i < VB_MAD_AGENTS; i++)
		close_server(&file->agents[i]);
	forget_sent(file, VB_MAD_AGENTS);
	unwatch_and_close(&file->answers);
	unwatch_and_close(&file->timer);
	unwatch_and_close(&file->inner);
	vb_list_remove(&file->node);
	vb_list_append(&closed, &file->node);
}

/* --- fork: the files are the parent's --- */

static void forget_in_child(void)
{
	vb_list_for(file, &files, struct vb_umad_file, node) {
		for (unsigned i = 0; i < VB_MAD_AGENTS; i++)
			vb_fd_close(&file->agents[i].server);
		vb_fd_close(&file->answers);
		vb_fd_close(&file->timer);
		vb_fd_close(&file->inner);
		vb_list_remove(&file->node);
		vb_list_append(&closed, &file->node);
	}
	pthread_mutex_unlock(&lock);
}

static void watch_fork(void)
{
	static const struct vb_fork_handlers at_fork = { vb_umad_lock, vb_umad_unlock,
							 forget_in_child };

	vb_adapter_load();
	vb_fork_register(VB_FORK_UMAD, &at_fork);
}

/* --- opening --- */

/* A write of the program that was not seen, or the end of the file. */
static void on_inner(int fd, void *arg)
{
	struct vb_umad_file *file = arg;
	uint8_t bytes[sizeof(struct ib_user_mad_hdr) + VB_MAD_SIZE + 1];
	ssize_t size;

	if (file->inner != fd)
		return;
	size = REAL(recv)(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (size > 0 && vb_umad_send(file, bytes, (size_t)size))
		vb_umad_engine()->mad_refused();
	if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	vb_umad_lock();
	if (file->inner == fd)
		close_file(file);
	vb_umad_unlock();
}

struct wanted {
	unsigned index;
	struct ibv_device *device;
	bool infiniband;
};

static int take_device(const struct vb_adapter *adapter, void *arg)
{
	struct wanted *wanted = arg;

	if (adapter->index != wanted->index)
		return 0;
	wanted->device = adapter->context->device;
	wanted->infiniband = adapter->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	return 1;
}

/* Under lock. */
static struct vb_umad_file *new_file(void)
{
	struct vb_umad_file *file;

	if (vb_list_empty(&closed)) {
		file = malloc(sizeof(*file));
	} else {
		file = vb_container(closed.next, struct vb_umad_file, node);
		vb_list_remove(&file->node);
	}
	if (!file)
		return NULL;
	*file = (struct vb_umad_file){ .pid = getpid(), .answers = -1, .timer = -1, .inner = -1 };
	for (unsigned i = 0; i < VB_MAD_AGENTS; i++)
		file->agents[i].server = -1;
	vb_list_init(&file->sent);
	vb_list_append(&files, &file->node);
	return file;
}

static ino_t inode_of(int fd)
{
	struct stat info;

	return fstat(fd, &info) || !S_ISSOCK(info.st_mode) ? 0 : info.st_ino;
}

static int make_file(const struct wanted *wanted, const int ends[2])
{
	struct vb_umad_file *file;
	int err = -ENOMEM;

	vb_umad_lock();
	file = new_file();
	if (!file) {
		close(ends[1]);
	} else {
		file->inode = inode_of(ends[0]);
		file->inner = ends[1];
		file->device = wanted->device;
		file->infiniband = wanted->infiniband;
		err = vb_umad_engine()->watch(file->inner, on_inner, file);
		if (err)
			close_file(file);
	}
	vb_umad_unlock();
	return err;
}

static int open_umad(const struct wanted *wanted, int flags)
{
	const int size = VB_SOCKET_BUFFER;
	int ends[2], err;

	if ((flags & O_ACCMODE) == O_WRONLY)
		return -EPERM; /* as the kernel's: nothing could be read */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	ends[1] = vb_fd_high(ends[1]);
	(void)REAL(setsockopt)(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	err = make_file(wanted, ends);
	if (err) {
		close(ends[0]); /* make_file has closed the other */
		return err;
	}
	if (!(flags & O_CLOEXEC))
		(void)fcntl(ends[0], F_SETFD, 0);
	if (flags & O_NONBLOCK)
		(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	vb_reread_suspect(ends[0]);
	return ends[0];
}

/* One process at a time has the node. The name is free again when its last descriptor is closed. */
static int open_issm(const struct wanted *wanted, int flags)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	const struct vb_mad_server server = { .infiniband = true, .oui = wanted->index };
	int fd;

	if (!wanted->infiniband)
		return -ENOENT;
	while ((fd = vb_umad_engine()->mad_bind_server(&server)) == -EADDRINUSE) {
		if (flags & O_NONBLOCK)
			return -EAGAIN;
		if (nanosleep(&pause, NULL))
			return -EINTR;
	}
	if (fd >= 0)
		(void)shutdown(fd, SHUT_RDWR);
	if (fd >= 0 && !(flags & O_CLOEXEC))
		(void)fcntl(fd, F_SETFD, 0);
	return fd;
}

static int open_node(const char *name, int flags)
{
	struct wanted wanted = { 0 };
	int end = 0;
	const bool issm = !strncmp(name, "issm", 4);

	if (sscanf(name + 4, "%3u%n", &wanted.index, &end) != 1 || name[4 + end])
		return -ENOENT;
	if (!vb_umad_engine() || vb_adapter_each(take_device, &wanted) != 1)
		return -ENOENT;
	return issm ? open_issm(&wanted, flags) : open_umad(&wanted, flags);
}

int vb_umad_open(const char *name, int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	VB_NO_CANCEL;
	bool was_inside;
	int fd;

	if ((strncmp(name, "umad", 4) && strncmp(name, "issm", 4)) || flags & O_PATH)
		return VB_UMAD_OTHER;
	was_inside = vb_redirect_pause(true);
	pthread_once(&once, watch_fork);
	fd = open_node(name, flags);
	vb_redirect_pause(was_inside);
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

struct vb_umad_file *vb_umad_hold(int fd)
{
	const int saved_errno = errno;
	const ino_t inode = inode_of(fd);

	errno = saved_errno;
	vb_umad_lock();
	vb_list_for(file, &files, struct vb_umad_file, node)
		if (file->inode == inode && file->pid == getpid())
			return file;
	vb_umad_unlock();
	return NULL;
}

/* --- agents --- */

/* The name of the file is random, so that another user cannot take it in advance. */
static int open_answers(struct vb_umad_file *file)
{
	enum { TRIES = 16 };
	const struct vb_engine_table *engine = vb_umad_engine();
	int err = -EADDRINUSE;

	for (int i = 0; i < TRIES && err == -EADDRINUSE; i++) {
		file->id = engine->random() & ((1u << VB_MAD_FILE_BITS) - 1);
		err = engine->mad_bind_file(file->id);
	}
	if (err < 0)
		return err;
	file->answers = err;
	return engine->watch(file->answers, vb_umad_on_datagram, file);
}

static int begin_file(struct vb_umad_file *file)
{
	int err = file->answers < 0 ? open_answers(file) : 0;

	if (err || file->timer >= 0)
		return err;
	file->timer = vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	return file->timer < 0 ? -errno
			       : vb_umad_engine()->watch(file->timer, vb_umad_on_timer, file);
}

/* An agent without methods gets answers only. */
static int open_server(struct vb_umad_file *file, struct vb_umad_agent *agent,
		       const struct ib_user_mad_reg_req2 *request)
{
	const bool has_oui = request->mgmt_class >= VB_MAD_CLASS_VENDOR_OUI &&
			     request->mgmt_class <= VB_MAD_CLASS_VENDOR_OUI_LAST;
	const struct vb_mad_server server = {
		.infiniband = file->infiniband,
		.management_class = request->mgmt_class,
		.class_version = request->mgmt_class_version,
		.oui = has_oui ? request->oui : 0,
	};
	int err;

	if (!request->mgmt_class || !(request->method_mask[0] | request->method_mask[1]))
		return 0;
	agent->server = vb_umad_engine()->mad_bind_server(&server);
	if (agent->server < 0)
		return agent->server == -EADDRINUSE ? -EINVAL : agent->server;
	err = vb_umad_engine()->watch(agent->server, vb_umad_on_datagram, file);
	/* Other hosts reach this process only if it has the UDP port. Without it the host does. */
	if (!err)
		(void)vb_umad_engine()->gsi_listen(NULL);
	return err;
}

static int check_request(const struct vb_umad_file *file,
			 const struct ib_user_mad_reg_req2 *request)
{
	if (request->qpn > VB_GSI_QPN || request->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP ||
	    request->oui & 0xff000000)
		return -EINVAL;
	/* SMPs go to QP 0, all others to QP 1; a RoCE port has no QP 0. */
	if (request->mgmt_class &&
	    vb_mad_is_smp(request->mgmt_class) != (request->qpn == VB_SMI_QPN))
		return -EINVAL;
	return request->qpn == VB_SMI_QPN && !file->infiniband ? -EPROTONOSUPPORT : 0;
}

int vb_umad_register(struct vb_umad_file *file, const struct ib_user_mad_reg_req2 *request,
		     uint32_t *id)
{
	struct vb_umad_agent *agent;
	int err = check_request(file, request);

	for (*id = 0; *id < VB_MAD_AGENTS && file->agents[*id].used;)
		++*id;
	if (err || *id == VB_MAD_AGENTS)
		return err ? err : -ENOMEM;
	err = begin_file(file);
	if (err)
		return err;
	agent = &file->agents[*id];
	*agent = (struct vb_umad_agent){
		.used = true,
		.qpn = (uint8_t)request->qpn,
		.management_class = request->mgmt_class,
		.reassembles = request->rmpp_version && !(request->flags & IB_USER_MAD_USER_RMPP),
		.methods = { request->method_mask[0], request->method_mask[1] },
		.server = -1,
	};
	err = open_server(file, agent, request);
	if (err)
		(void)vb_umad_unregister(file, *id);
	file->begun |= !err;
	return err;
}

int vb_umad_unregister(struct vb_umad_file *file, uint32_t id)
{
	if (id >= VB_MAD_AGENTS || !file->agents[id].used)
		return -EINVAL;
	close_server(&file->agents[id]);
	forget_sent(file, id);
	file->agents[id].used = false;
	return 0;
}
