/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attaching two processes, once per pair, through the slot socket:
 *
 *   initiator                          acceptor (its service thread)
 *   hello: where my nonce lies  --->   reads it
 *   reads its                   <---   welcome: where mine lies; what I read
 *   verdict: what I read        --->   compares; maps
 *     + segment, doorbell
 *   compares; maps              <---   segment + segment, doorbell
 *   mapped                      --->
 *
 * Two processes have a local path if and only if each could read the other's memory: uids do not
 * tell. No process tells its nonce: a process that knows the nonce has read it. At that moment a
 * process that gets a segment could do anything with the memory of the other process. All other
 * processes are done with the verdict, and get nothing. A process that loses the right later keeps
 * the segment. So only the owner of a segment can write an address, key or length in it (layout.h).
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "capture/record.h"
#include "engine/attach/attach_gate.h"
#include "engine/attach/capture.h"
#include "engine/attach/describe.h"
#include "engine/attach/view.h"
#include "engine/engine.h"
#include "engine/wire/wire.h"
#include "engine/xrc/share.h"
#include "exec/copy.h"
#include "nic/choice.h"
#include "port/port.h"
#include "shm/slot.h"
#include "shm/view.h"

enum {
	MSG_HELLO = 1,
	MSG_WELCOME,
	MSG_VERDICT,
	MSG_SEGMENT,
	MSG_MAPPED,
	FDS = 3,
	ACCEPTS = 16,
	SILENT_MAX = 64
};

struct attach_message {
	uint64_t magic;
	uint32_t layout_version;
	uint32_t kind;
	uint32_t slot;      /* slot of the sender */
	int32_t tid;        /* service thread of the sender */
	uint64_t address;   /* where the sender's nonce lies, in memory that is not shared */
	uint64_t proof;     /* the receiver's nonce, if may_touch */
	uint16_t your_id;   /* claimant number of the receiver at the sender */
	uint16_t may_touch; /* the sender could read the receiver's nonce */
	uint32_t reserved;
};

static struct attach_message message_of(const struct vb_nic *nic, const struct vb_peer *peer,
					uint32_t kind)
{
	return (struct attach_message){
		.magic = VB_SEGMENT_MAGIC,
		.layout_version = VB_LAYOUT_VERSION,
		.kind = kind,
		.slot = nic->seg.head->slot,
		.tid = nic->self->tid,
		.address = (uintptr_t)&nic->private_nonce,
		.your_id = peer->id_here,
	};
}

static int send_message(int fd, const struct attach_message *message)
{
	ssize_t size;

	vb_tell_filled(message, sizeof(*message));
	size = send(fd, message, sizeof(*message), MSG_NOSIGNAL);
	return size == (ssize_t)sizeof(*message) ? 0 : -errno;
}

static int send_segment(const struct vb_nic *nic, int fd, const struct attach_message *message)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS * sizeof(int))];
	} control = { 0 };
	int fds[FDS] = { nic->seg.shown_fd, nic->seg.parts[VB_PART_LENT].memfd,
			 nic->peers_doorbell };
	struct iovec iov = { (void *)message, sizeof(*message) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	vb_tell_filled(message, sizeof(*message));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*message) ? 0 : -errno;
}

/*
 * Takes the descriptors that came with a message. Unexpected ones are closed: a stranger could use
 * up the descriptors of this process.
 */
static void take_descriptors(struct vb_peer *peer, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		int fds[FDS] = { -1, -1, -1 };
		size_t size = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || size > sizeof(fds))
			continue;
		memcpy(fds, CMSG_DATA(c), size);
		if (size == sizeof(fds) && peer->memfd < 0) {
			peer->memfd = vb_fd_high(fds[0]);
			peer->lent_memfd = vb_fd_high(fds[1]);
			peer->doorbell = vb_fd_high(fds[2]);
			continue;
		}
		for (int i = 0; i < FDS; i++)
			vb_fd_close(&fds[i]);
	}
}

/* Takes a message, and the descriptors that came with it. */
static int receive_message(struct vb_peer *peer, struct attach_message *message)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS * sizeof(int))];
	} control;
	struct iovec iov = { message, sizeof(*message) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t size = recvmsg(peer->socket, &msg, MSG_CMSG_CLOEXEC);

	if (size < 0)
		return -errno;
	take_descriptors(peer, &msg);
	if (!size)
		return -ECONNRESET;
	if (size != (ssize_t)sizeof(*message) || message->magic != VB_SEGMENT_MAGIC ||
	    message->layout_version != VB_LAYOUT_VERSION)
		return -EPROTO;
	return 0;
}

/*
 * True: this process may touch the memory of the peer. The thread that the peer names must belong
 * to the process that the kernel sees there. Otherwise a peer could name the memory of a third
 * process.
 */
static bool may_touch(const struct vb_nic *nic, const struct vb_peer *peer,
		      const struct attach_message *message, uint64_t *nonce)
{
	struct iovec here = { nonce, sizeof(*nonce) };
	struct iovec there = { (void *)(uintptr_t)message->address, sizeof(*nonce) };

	if (nic->untouchable || nic->seg.shown_fd < 0 || !vb_choice_may_touch() ||
	    message->tid <= 0 || peer->pid <= 0 || syscall(SYS_tgkill, peer->pid, message->tid, 0))
		return false;
	return process_vm_readv(message->tid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(*nonce);
}

/* Puts the nonce of the message's receiver into the message, if it could be read. */
static void prove(const struct vb_nic *nic, const struct vb_peer *peer,
		  const struct attach_message *received, struct attach_message *message)
{
	uint64_t nonce = 0;

	if (!may_touch(nic, peer, received, &nonce))
		return;
	message->may_touch = true;
	message->proof = nonce;
}

/* True: the peer could read the nonce of this process. */
static bool is_proven(const struct vb_nic *nic, const struct attach_message *message)
{
	return message->may_touch && message->proof == nic->private_nonce;
}

/*
 * Does the named slot belong to the peer? Another user could name a slot that this process is about
 * to send to, and get the packets of its holder. The kernel knows the process that listens there.
 */
static int check_slot(const struct vb_peer *peer, uint32_t slot)
{
	struct ucred holder;
	int fd, err;

	if (peer->uid == geteuid() || peer->uid == 0 || (!peer->accepted && peer->slot == slot))
		return 0;
	fd = vb_slot_connect(slot);
	if (fd < 0)
		return -EPROTO;
	err = vb_attach_credentials(fd, &holder);
	close(fd);
	return !err && holder.pid == peer->pid && holder.uid == peer->uid ? 0 : -EPROTO;
}

/* Learns from its first message which process the peer is. */
static int meet_peer(struct vb_peer *peer, const struct attach_message *message)
{
	const bool in_order = !peer->head_slot && peer->memfd < 0;
	struct ucred cred;
	int err;

	if (!in_order || message->slot < VB_SLOT_MIN || message->slot > VB_SLOT_MAX)
		return -EPROTO;
	err = vb_attach_credentials(peer->socket, &cred);
	if (err)
		return err;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->stranger = cred.uid != geteuid() && cred.uid != 0;
	err = check_slot(peer, message->slot);
	if (err)
		return err;
	peer->tid = message->tid;
	peer->nonce_at = message->address;
	peer->id_there = message->your_id;
	peer->head_slot = message->slot;
	return 0;
}

/* Maps the segment of a peer that may have that of this process. */
static int map_segment(struct vb_peer *peer)
{
	if (peer->memfd < 0 || peer->lent_memfd < 0 || !vb_fd_is_eventfd(peer->doorbell))
		return -EPROTO;
	return vb_peer_map(peer, peer->head_slot);
}

static void decide_path(struct vb_nic *nic, struct vb_peer *peer, bool both)
{
	struct vb_port *port = vb_port_of(nic);
	char byte;

	if (!both) {
		vb_fd_close(&peer->memfd);
		vb_fd_close(&peer->lent_memfd);
		vb_fd_close(&peer->doorbell);
	}
	atomic_store(&peer->state, both ? VB_PEER_READY : VB_PEER_NO_PATH);
	/* The rights of a process that has ended do not matter. */
	if (!both && recv(peer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT))
		vb_explain_note(
			"the process with slot %u and this one may not touch each other's memory",
			peer->slot);
	if (port)
		vb_port_attached(port, peer);
}

static void enlist_peer(struct vb_nic *nic, struct vb_peer *peer)
{
	const uint64_t now_ns = vb_now_ns();

	vb_spin_lock(&nic->peers_lock);
	peer->asked_ns = now_ns;
	peer->id_here = vb_nic_claimant_alloc(nic);
	vb_list_append(&nic->peers, &peer->node);
	vb_spin_unlock(&nic->peers_lock);
}

static int watch_peer(struct vb_nic *nic, struct vb_peer *peer)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

	vb_slot_socket_tune(peer->socket);
	/* Pairs with the load in vb_attach_event: that thread sees all that was written before. */
	atomic_store_explicit(&peer->state, VB_PEER_CONNECTING, memory_order_release);
	return epoll_ctl(nic->engine->epoll, EPOLL_CTL_ADD, peer->socket, &event) ? -errno : 0;
}

/* Posts the receives again that the peer had taken, and releases the lock of atomics. */
static void release_claims(struct vb_nic *nic, uint16_t id)
{
	uint32_t holder = 1u + id;

	/* The peer's last atomic was written or not: the 8 bytes are whole. */
	atomic_compare_exchange_strong(&nic->seg.lent->atomics, &holder, 0);
	vb_spin_lock(&nic->rqs_lock);
	vb_list_for(rq, &nic->rqs, struct vb_rq, node)
		vb_rq_release_claimant(rq, id);
	vb_spin_unlock(&nic->rqs_lock);
}

static void forget_peer(struct vb_nic *nic, struct vb_peer *peer)
{
	uint16_t id = peer->id_here;

	atomic_store(&peer->state, VB_PEER_GONE);
	epoll_ctl(nic->engine->epoll, EPOLL_CTL_DEL, peer->socket, NULL);
	shutdown(peer->socket, SHUT_RDWR);
	if (id)
		release_claims(nic, id);
	vb_spin_lock(&nic->peers_lock);
	vb_list_remove(&peer->node);
	vb_nic_claimant_free(nic, id);
	vb_spin_unlock(&nic->peers_lock);
	/* A peer that has got the segment may have died between an action and its attention bit:
	 * look at everything. */
	if (peer->may_touch)
		atomic_fetch_or(&nic->seg.lent->attention,
				VB_ATTN_QP | VB_ATTN_CQ | VB_ATTN_SRQ | VB_ATTN_ENDED);
	vb_peer_put(peer);
	atomic_store(&nic->engine->peer_ended, true);
}

static void admit_peer(struct vb_nic *nic, int fd, uid_t uid)
{
	struct vb_peer *peer = vb_peer_new();

	if (!peer) {
		close(fd);
		return;
	}
	peer->socket = fd;
	peer->uid = uid;
	peer->accepted = true;
	enlist_peer(nic, peer);
	if (watch_peer(nic, peer))
		forget_peer(nic, peer);
}

/* A few at a time: a flood of connections must not keep this thread from its other work. */
void vb_attach_accept(struct vb_nic *nic, int listener)
{
	for (int i = 0, fd = 0; i < ACCEPTS && fd != -EAGAIN; i++) {
		struct ucred cred;

		fd = vb_attach_next(nic, listener, &cred);
		if (fd >= 0)
			admit_peer(nic, fd, cred.uid);
	}
}

/*
 * Each peer that never answers holds a descriptor. Peers that no QP is bound to are dropped, and
 * asked again when they are wanted again.
 */
static void hang_up_on_silent(struct vb_nic *nic)
{
	const uint64_t now_ns = vb_now_ns();
	struct vb_peer *oldest = NULL;
	unsigned count = 0;

	vb_spin_lock(&nic->peers_lock);
	vb_list_for(peer, &nic->peers, struct vb_peer, node) {
		if (peer->self || peer->accepted || now_ns - peer->asked_ns < VB_PEER_ANSWER_NS ||
		    atomic_load(&peer->state) != VB_PEER_CONNECTING || atomic_load(&peer->refs) > 1)
			continue;
		count++;
		oldest = oldest ? oldest : peer;
	}
	if (count >= SILENT_MAX) /* the service thread sees the end */
		shutdown(oldest->socket, SHUT_RDWR);
	vb_spin_unlock(&nic->peers_lock);
}

static void attach_to_slot(struct vb_nic *nic, uint32_t slot)
{
	struct vb_peer *peer = vb_nic_peer(nic, slot);
	struct attach_message hello;
	int fd = peer ? -EALREADY : vb_slot_connect(slot);

	vb_peer_put(peer);
	if (fd < 0) {
		if (fd == -ECONNREFUSED)
			vb_nic_slot_refuse(nic, slot);
		else if (fd != -EALREADY)
			vb_nic_slot_set_busy(nic, slot);
		return;
	}
	peer = vb_peer_new();
	if (!peer) {
		close(fd);
		return;
	}
	hang_up_on_silent(nic);
	peer->socket = fd;
	peer->slot = slot;
	vb_nic_slot_seen(nic, slot);
	enlist_peer(nic, peer);
	hello = message_of(nic, peer, MSG_HELLO);
	/* The watch comes last: from then on the service thread may forget the peer at any time. */
	if (send_message(fd, &hello) || watch_peer(nic, peer))
		forget_peer(nic, peer);
}

/* Posting and polling are no cancellation points: the peer would stay half attached. */
void vb_attach_start(struct vb_nic *nic, uint32_t slot)
{
	VB_NO_CANCEL_WITHIN;

	attach_to_slot(nic, slot);
}

void vb_attach_qp(struct vb_qp *qp)
{
	uint32_t slot = qp->attr.dest_qp_num >> VB_QP_INDEX_BITS;
	struct vb_peer *peer;

	if (!qp->av.local || slot < VB_SLOT_MIN || slot > VB_SLOT_MAX)
		return;
	vb_attach_start(qp->nic, slot);
	peer = vb_nic_peer(qp->nic, slot);
	if (!peer)
		return;
	/* Rights may have changed since the attach: probe again. */
	vb_copy_probe(peer);
	if (atomic_load(&peer->denied))
		atomic_fetch_or(&qp->entry->by_packets, VB_BY_PACKETS_DENIED);
	if (vb_qp_token_try(qp)) {
		vb_remote_unbind(&qp->remote);
		qp->remote.peer = peer;
		vb_qp_token_release(qp);
	} else {
		vb_peer_put(peer);
	}
}

static int on_hello(struct vb_nic *nic, struct vb_peer *peer, const struct attach_message *message)
{
	struct attach_message welcome = message_of(nic, peer, MSG_WELCOME);
	int err = peer->accepted ? meet_peer(peer, message) : -EPROTO;

	if (err)
		return err;
	peer->slot = message->slot;
	vb_nic_slot_seen(nic, peer->slot);
	prove(nic, peer, message, &welcome);
	peer->may_touch = welcome.may_touch;
	return send_message(peer->socket, &welcome);
}

static int on_welcome(struct vb_nic *nic, struct vb_peer *peer,
		      const struct attach_message *message)
{
	struct attach_message verdict = message_of(nic, peer, MSG_VERDICT);
	int err = peer->accepted ? -EPROTO : meet_peer(peer, message);

	if (err)
		return err;
	prove(nic, peer, message, &verdict);
	peer->may_touch = verdict.may_touch && is_proven(nic, message);
	if (peer->may_touch)
		return send_segment(nic, peer->socket, &verdict);
	verdict.may_touch = false;
	err = send_message(peer->socket, &verdict);
	if (!err)
		decide_path(nic, peer, false);
	return err;
}

/*
 * The peer's segment is mapped before the peer gets that of this process. From then on threads of
 * the peer may be inside it, and their hazard words are in the peer's segment.
 */
static int on_verdict(struct vb_nic *nic, struct vb_peer *peer,
		      const struct attach_message *message)
{
	const struct attach_message segment = message_of(nic, peer, MSG_SEGMENT);
	int err;

	if (!peer->accepted || !peer->head_slot || peer->head)
		return -EPROTO;
	if (!peer->may_touch || !is_proven(nic, message)) {
		decide_path(nic, peer, false);
		return 0;
	}
	err = map_segment(peer);
	return err ? err : send_segment(nic, peer->socket, &segment);
}

static int on_segment(struct vb_nic *nic, struct vb_peer *peer)
{
	const struct attach_message mapped = message_of(nic, peer, MSG_MAPPED);
	int err = peer->accepted || !peer->may_touch || peer->head ? -EPROTO : map_segment(peer);

	if (!err)
		err = send_message(peer->socket, &mapped);
	if (!err)
		decide_path(nic, peer, true);
	return err;
}

static int on_mapped(struct vb_nic *nic, struct vb_peer *peer)
{
	if (!peer->accepted || !peer->head)
		return -EPROTO;
	decide_path(nic, peer, true);
	return 0;
}

static int on_message(struct vb_nic *nic, struct vb_peer *peer,
		      const struct attach_message *message)
{
	if (atomic_load(&peer->state) != VB_PEER_CONNECTING)
		return -EPROTO;
	switch (message->kind) {
	case MSG_HELLO:
		return on_hello(nic, peer, message);
	case MSG_WELCOME:
		return on_welcome(nic, peer, message);
	case MSG_VERDICT:
		return on_verdict(nic, peer, message);
	case MSG_SEGMENT:
		return on_segment(nic, peer);
	case MSG_MAPPED:
		return on_mapped(nic, peer);
	}
	return -EPROTO;
}

/* The magic of the next message; 0: there is none, or it is shorter. */
static uint64_t next_magic(const struct vb_peer *peer)
{
	uint64_t magic = 0;
	ssize_t size = recv(peer->socket, &magic, sizeof(magic), MSG_PEEK | MSG_DONTWAIT);

	/* The peer ended with unread data. This is reported once, before its last messages. */
	if (size < 0 && errno == ECONNRESET)
		size = recv(peer->socket, &magic, sizeof(magic), MSG_PEEK | MSG_DONTWAIT);
	return size == (ssize_t)sizeof(magic) ? magic : 0;
}

/*
 * The port reads packets from this socket until the peer hangs up. Without a port packets are lost,
 * as on a wire.
 */
static int on_packets(struct vb_nic *nic, struct vb_peer *peer, int state)
{
	struct vb_port *port = vb_port_of(nic);
	struct vb_lane *lane;
	int err;
	char byte;

	if (state != VB_PEER_READY && state != VB_PEER_NO_PATH)
		return -EPROTO;
	if (!port && (lane = vb_wire_get(nic, &err)))
		port = lane->port;
	if (port)
		return vb_port_adopt(port, peer);
	return recv(peer->socket, &byte, sizeof(byte), MSG_DONTWAIT) < 0 ? -errno : 0;
}

void vb_attach_event(struct vb_nic *nic, struct vb_peer *peer)
{
	int state = atomic_load_explicit(&peer->state, memory_order_acquire);
	struct attach_message message;
	uint64_t magic = next_magic(peer);
	bool packets = magic == VB_SLOT_PACKETS_MAGIC;
	bool views = magic == VB_VIEW_MAGIC && state == VB_PEER_READY;
	int err;

	if (magic == VB_DESCRIBE_MAGIC && peer->accepted && !peer->head_slot) {
		vb_describe_answer_to(nic, peer->socket);
		forget_peer(nic, peer);
		return;
	}
	if ((magic == VB_XRC_SHARE_MAGIC || magic == VB_CAPTURE_MAGIC) && peer->accepted &&
	    !peer->head_slot) {
		/* Out of the epoll first: the socket may stay, with another purpose. */
		epoll_ctl(nic->engine->epoll, EPOLL_CTL_DEL, peer->socket, NULL);
		if (magic == VB_CAPTURE_MAGIC ? vb_capture_serve(nic, peer->socket)
					      : vb_xrc_serve(nic, peer->socket))
			peer->socket = -1;
		forget_peer(nic, peer);
		return;
	}
	err = packets ? on_packets(nic, peer, state)
	      : views ? vb_view_event(nic, peer)
		      : receive_message(peer, &message);
	if (err == -EAGAIN || err == -EINTR || ((packets || views) && !err))
		return;
	if (!err)
		err = on_message(nic, peer, &message);
	if (err)
		forget_peer(nic, peer);
}
