/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of mapped regions, given to peers and taken from them; by the service thread. */
#include "engine/attach/view.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "nic/map.h"
#include "shm/view.h"

static int receive(int socket, struct vb_view_message *message, int *fd)
{
	ssize_t size = vb_fd_receive(socket, message, sizeof(*message), MSG_DONTWAIT, fd);

	if (size < 0)
		return (int)size;
	return size == (ssize_t)sizeof(*message) ? 0 : -EPROTO;
}

/* An answer that finds no room is lost: the peer goes on through the kernel. */
static void answer(struct vb_nic *nic, struct vb_peer *peer, const struct vb_view_message *asked)
{
	struct vb_view_message reply = *asked;
	int file;

	reply.kind = VB_VIEW_FILE;
	reply.proof = 0;
	pthread_mutex_lock(&nic->lock);
	file = vb_map_give(nic, asked->index, asked->serial, asked->proof);
	if (file >= 0) {
		peer->has_views = true;
		vb_view_send(peer->socket, &reply, file);
	}
	pthread_mutex_unlock(&nic->lock);
}

/* Waits for threads of this process that may still use the view. */
static void retire(struct vb_nic *nic, struct vb_peer *peer, uint32_t index)
{
	struct vb_grace grace;
	uint64_t length;
	uint32_t slot;
	char *base;

	if (!vb_view_remove(peer, index, &base, &length))
		return;
	vb_grace_begin_own(nic, &grace);
	if (vb_grace_wait(&grace, VB_STUCK_PEER_MS, &slot))
		vb_grace_drop(&grace); /* a debugger holds a thread: the view stays mapped */
	else
		vb_view_unmap(base, length);
}

int vb_view_event(struct vb_nic *nic, struct vb_peer *peer)
{
	struct vb_view_message message;
	int fd, err = receive(peer->socket, &message, &fd);

	if (err) {
		vb_fd_close(&fd);
		return err;
	}
	switch (message.kind) {
	case VB_VIEW_ASK:
		answer(nic, peer, &message);
		break;
	case VB_VIEW_FILE:
		retire(nic, peer, message.index);
		vb_view_add(peer, &message, vb_fd_high(fd));
		return 0;
	case VB_VIEW_ENDED:
		retire(nic, peer, message.index);
		break;
	}
	vb_fd_close(&fd);
	return 0;
}
