/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/annotate.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/attach/attach_gate.h"
#include "engine/watch.h"
#include "engine/xrc/share.h"
#include "shm/slot.h"

enum { ANSWER_MS = 10000, SILENT_MS = 500 };

/* The backlog of the process may be full for a moment. */
static int connect_slot(uint32_t slot, unsigned patience_ms)
{
	uint64_t end_ns = vb_now_ns() + patience_ms * 1000000ull;
	int fd;

	while ((fd = vb_slot_connect(slot)) == -EAGAIN && vb_now_ns() < end_ns)
		poll(NULL, 0, 1);
	return fd == -ECONNREFUSED ? -EINVAL : fd; /* no process, so no such QP */
}

/* Any holder of the slot may have sent the answer: impossible values are refused. */
static int answer_result(const struct vb_xrc_answer *answer, ssize_t size)
{
	enum { ERRNO_MAX = 4095 };

	/* The process has ended, or does not understand the request. */
	if (size != (ssize_t)sizeof(*answer) || answer->error < 0 || answer->error > ERRNO_MAX ||
	    answer->state > IBV_QPS_ERR)
		return -EINVAL;
	return -answer->error;
}

static int await_answer(int fd, struct vb_xrc_answer *answer, unsigned patience_ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	int ready;

	do
		ready = poll(&poller, 1, (int)patience_ms);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return -ETIMEDOUT;
	return answer_result(answer, recv(fd, answer, sizeof(*answer), MSG_DONTWAIT | MSG_TRUNC));
}

/* Another user's process refuses, and may never answer at all. Every process answers root. */
static bool may_answer(int fd)
{
	struct ucred holder;

	return !geteuid() || (!vb_attach_credentials(fd, &holder) && holder.uid == geteuid());
}

/* Returns the connection, or -errno. */
static int ask_process(struct vb_xrc_handle *handle, struct vb_xrc_request *request,
		       struct vb_xrc_answer *answer)
{
	uint32_t slot = handle->qp.ibv.qp_num >> VB_QP_INDEX_BITS;
	unsigned patience_ms = handle->silent ? SILENT_MS : ANSWER_MS;
	int fd, err;

	if (slot < VB_SLOT_MIN || slot > VB_SLOT_MAX)
		return -EINVAL;
	request->magic = VB_XRC_SHARE_MAGIC;
	request->layout_version = VB_LAYOUT_VERSION;
	request->xrcd = handle->qp.xrcd->id;
	request->qpn = handle->qp.ibv.qp_num;
	fd = connect_slot(slot, patience_ms);
	handle->silent = fd == -EAGAIN; /* the queue of connections is full */
	if (fd < 0)
		return handle->silent ? -ETIMEDOUT : fd;
	vb_tell_filled(request, sizeof(*request));
	if (!may_answer(fd))
		err = -EPERM;
	else if (send(fd, request, sizeof(*request), MSG_NOSIGNAL) != (ssize_t)sizeof(*request))
		err = -errno;
	else
		err = await_answer(fd, answer, patience_ms);
	handle->silent = err == -ETIMEDOUT;
	if (!err)
		return fd;
	close(fd);
	if (err == -EPERM)
		vb_explain("QP 0x%06x belongs to a process of another user", request->qpn);
	return err;
}

/* Has the process of the QP ended? Another one may have its slot and a QP of that number. */
static bool has_ended(const struct vb_xrc_handle *handle)
{
	struct pollfd poller = { .fd = handle->session };

	return poll(&poller, 1, 0) && poller.revents & (POLLHUP | POLLERR | POLLNVAL);
}

int vb_xrc_ask(struct vb_xrc_handle *handle, enum vb_xrc_ask what, const struct ibv_qp_attr *attr,
	       int mask, struct vb_xrc_answer *answer)
{
	struct vb_xrc_request request = { .ask = what, .mask = mask };
	int fd;

	if (has_ended(handle)) {
		vb_explain("QP 0x%06x: the process that created it has ended",
			   handle->qp.ibv.qp_num);
		return -EINVAL;
	}
	if (attr)
		request.attr = *attr;
	fd = ask_process(handle, &request, answer);
	if (fd < 0) {
		vb_explain("QP 0x%06x: %s: %s", request.qpn,
			   fd == -ETIMEDOUT ? "its process does not answer"
					    : "its process refuses, and explains why",
			   strerror(-fd));
		return fd;
	}
	close(fd);
	handle->qp.ibv.state = (enum ibv_qp_state)answer->state;
	return 0;
}

/* --- events --- */

static void raise_event(struct vb_xrc_handle *handle, enum ibv_event_type type)
{
	vb_async_raise(handle->qp.ibv.context, type, &handle->qp.ibv, &handle->qp.async_taken);
}

/* The process of the QP has ended: nothing arrives through the QP any more. */
static void session_lost(struct vb_xrc_handle *handle)
{
	vb_unwatch(handle->qp.nic, handle->session);
	handle->qp.ibv.state = IBV_QPS_ERR;
	vb_explain_work("QP 0x%06x: the process that created it has ended", handle->qp.ibv.qp_num);
	raise_event(handle, IBV_EVENT_QP_FATAL);
}

static bool is_open(struct vb_nic *nic, const struct vb_xrc_handle *wanted, int fd)
{
	vb_list_for(handle, &nic->xrc_handles, struct vb_xrc_handle, node) {
		if (handle == wanted)
			return handle->session == fd;
	}
	return false;
}

/* Is it an event of a QP? With others the application would mistake the handle. */
static bool is_qp_event(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	}
	return false;
}

/* Under nic->lock: another thread may close the handle at this moment. */
static void event_ready(int fd, void *arg)
{
	struct vb_nic *nic = vb_nic_current();
	struct vb_xrc_handle *handle = arg;
	struct vb_xrc_event event;
	ssize_t size;

	pthread_mutex_lock(&nic->lock);
	if (is_open(nic, handle, fd)) {
		size = recv(fd, &event, sizeof(event), MSG_DONTWAIT | MSG_TRUNC);
		if (size == (ssize_t)sizeof(event) && is_qp_event(event.type))
			raise_event(handle, (enum ibv_event_type)event.type);
		else if (size >= 0 || (errno != EAGAIN && errno != EINTR))
			session_lost(handle);
	}
	pthread_mutex_unlock(&nic->lock);
}

int vb_xrc_ask_open(struct vb_xrc_handle *handle)
{
	struct vb_xrc_request request = { .ask = VB_XRC_ASK_OPEN };
	struct vb_xrc_answer answer;
	int fd = ask_process(handle, &request, &answer), err;

	if (fd < 0)
		return fd;
	handle->qp.ibv.state = (enum ibv_qp_state)answer.state;
	handle->session = fd;
	pthread_mutex_lock(&handle->qp.nic->lock);
	vb_list_append(&handle->qp.nic->xrc_handles, &handle->node);
	pthread_mutex_unlock(&handle->qp.nic->lock);
	err = vb_watch(handle->qp.nic, fd, event_ready, handle);
	if (err)
		vb_xrc_ask_close(handle);
	return err;
}

void vb_xrc_ask_close(struct vb_xrc_handle *handle)
{
	pthread_mutex_lock(&handle->qp.nic->lock);
	vb_list_remove(&handle->node);
	pthread_mutex_unlock(&handle->qp.nic->lock);
	vb_unwatch(handle->qp.nic, handle->session);
	vb_fd_close(&handle->session);
}
