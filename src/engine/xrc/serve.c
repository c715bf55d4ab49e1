/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "engine/qp_life.h"
#include "engine/watch.h"
#include "engine/xrc/share.h"

/* The user of this process and root may ask: both could write its memory anyway. */
static bool may_ask(int socket)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	       (cred.uid == geteuid() || cred.uid == 0);
}

/* The QP is held: it stays until it is released, even if another thread destroys it. */
static struct vb_qp *find_and_hold(struct vb_nic *nic, const struct vb_xrc_request *request)
{
	struct vb_qp *qp;

	pthread_mutex_lock(&nic->lock);
	qp = vb_xrc_receiver_find(nic, request->qpn, &request->xrcd);
	if (qp && !vb_xrc_qp_hold(qp))
		qp = NULL;
	pthread_mutex_unlock(&nic->lock);
	return qp;
}

/* --- handles of other processes --- */

static void session_end(struct vb_nic *nic, struct vb_xrc_session *session)
{
	struct vb_qp *qp = session->qp;

	vb_unwatch(nic, session->fd);
	pthread_mutex_lock(&nic->lock); /* a forked child walks the list */
	vb_spin_lock(&qp->handles_lock);
	vb_list_remove(&session->node);
	qp->session_count--;
	vb_spin_unlock(&qp->handles_lock);
	pthread_mutex_unlock(&nic->lock);
	vb_fd_close(&session->fd);
	free(session);
	vb_xrc_release(qp);
}

/* The other process never writes here: its end makes the socket readable. */
static void session_ready(int fd, void *arg)
{
	struct vb_xrc_session *session = arg;
	char byte;
	ssize_t size = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	session_end(session->qp->nic, session);
}

/* Sends the answer as well: events of the QP follow it, and none goes before. */
static int session_begin(struct vb_nic *nic, struct vb_qp *qp, int socket,
			 const struct vb_xrc_answer *answer)
{
	struct vb_xrc_session *session = malloc(sizeof(*session));
	int err;

	if (!session)
		return -ENOMEM;
	*session = (struct vb_xrc_session){ .qp = qp, .fd = socket };
	err = vb_watch_running(nic, socket, session_ready, session);
	if (err) {
		free(session);
		return err;
	}
	pthread_mutex_lock(&nic->lock);
	vb_spin_lock(&qp->handles_lock);
	send(socket, answer, sizeof(*answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	vb_list_append(&qp->sessions, &session->node);
	qp->session_count++;
	vb_spin_unlock(&qp->handles_lock);
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

/* --- requests --- */

static int execute_request(struct vb_nic *nic, struct vb_qp *qp,
			   const struct vb_xrc_request *request, struct vb_xrc_answer *answer)
{
	struct ibv_qp_init_attr init;
	int err = 0;

	if (request->ask == VB_XRC_ASK_MODIFY)
		err = vb_qp_life_modify(qp, &request->attr, request->mask);
	else if (request->ask != VB_XRC_ASK_QUERY && request->ask != VB_XRC_ASK_OPEN)
		err = -EINVAL;
	vb_engine_attend(nic, true); /* a peer may have left a failure for it */
	vb_qp_query(qp, &answer->attr, &init);
	answer->state = vb_qp_state(qp);
	return err;
}

static bool read_request(int socket, struct vb_xrc_request *request)
{
	ssize_t size = recv(socket, request, sizeof(*request), MSG_DONTWAIT | MSG_TRUNC);

	return size == (ssize_t)sizeof(*request) && request->magic == VB_XRC_SHARE_MAGIC &&
	       request->layout_version == VB_LAYOUT_VERSION;
}

bool vb_xrc_serve(struct vb_nic *nic, int socket)
{
	struct vb_xrc_answer answer = { 0 };
	struct vb_xrc_request request;
	struct vb_qp *qp = NULL;
	int err = -EPERM;

	if (!read_request(socket, &request))
		return false;
	if (may_ask(socket)) {
		qp = find_and_hold(nic, &request);
		err = qp ? execute_request(nic, qp, &request, &answer) : -EINVAL;
	}
	if (!err && request.ask == VB_XRC_ASK_OPEN) {
		err = session_begin(nic, qp, socket, &answer);
		if (!err)
			return true;
	}
	answer.error = -err;
	send(socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (qp)
		vb_xrc_release(qp);
	return false;
}
