/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that come from the interface. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "base/message.h"
#include "path/raw/raw.h"

enum { BATCHES = 4 }; /* per call at most: the service thread has other work as well */

struct arrival {
	struct iovec iov;
	struct sockaddr_ll from;
	union { /* aligned for control data */
		struct cmsghdr first;
		char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	} control;
};

static const struct tpacket_auxdata *control_aux(struct msghdr *header)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(header);

	if (!cmsg || cmsg->cmsg_level != SOL_PACKET || cmsg->cmsg_type != PACKET_AUXDATA ||
	    cmsg->cmsg_len < CMSG_LEN(sizeof(struct tpacket_auxdata)))
		return NULL;
	return (const void *)CMSG_DATA(cmsg);
}

/* The kernel has taken the VLAN tag out of the frame: a raw QP gets it back in its place. */
static uint8_t *frame_with_tag(uint8_t *at, uint32_t *length, const struct tpacket_auxdata *aux)
{
	uint16_t tpid =
		htons(aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : ETH_P_8021Q);
	uint16_t tci = htons(aux->tp_vlan_tci);

	memmove(at - VB_VLAN_TAG, at, 2 * ETH_ALEN);
	at -= VB_VLAN_TAG;
	memcpy(at + 2 * ETH_ALEN, &tpid, 2);
	memcpy(at + 2 * ETH_ALEN + 2, &tci, 2);
	*length += VB_VLAN_TAG;
	return at;
}

static void frame_take_in(struct vb_raw_port *port, struct vb_thread *thread,
			  struct mmsghdr *message)
{
	const struct sockaddr_ll *from = message->msg_hdr.msg_name;
	const struct tpacket_auxdata *aux = control_aux(&message->msg_hdr);
	uint8_t *at = message->msg_hdr.msg_iov->iov_base;
	uint32_t length = message->msg_len;
	struct vb_frame frame;

	if (message->msg_hdr.msg_flags & MSG_TRUNC) {
		port->counts.oversized++;
		return;
	}
	if (aux && aux->tp_status & TP_STATUS_VLAN_VALID && length >= 2 * ETH_ALEN)
		at = frame_with_tag(at, &length, aux);
	if (!vb_frame_parse(&frame, at, length))
		return;
	/* A sender on this host has left the checksum to hardware, which never saw the frame. */
	if (aux && aux->tp_status & TP_STATUS_CSUMNOTREADY)
		vb_frame_checksum_fill_l4(&frame);
	frame.from_here = from->sll_pkttype == PACKET_OUTGOING; /* the filter checked the mark */
	port->counts.frames_in++;
	port->counts.bytes_in += length;
	vb_raw_steer(port, thread, &frame);
}

/* Reads up to VB_RAW_BATCH frames; returns their number. */
static int read_batch(struct vb_raw_port *port, struct vb_thread *thread)
{
	struct mmsghdr messages[VB_RAW_BATCH] = { 0 };
	struct arrival arrivals[VB_RAW_BATCH];
	int count;

	for (unsigned i = 0; i < VB_RAW_BATCH; i++) {
		uint8_t *room = port->in + (size_t)i * (VB_RAW_HEADROOM + VB_FRAME_MAX);

		arrivals[i].iov = (struct iovec){ room + VB_RAW_HEADROOM, VB_FRAME_MAX };
		messages[i].msg_hdr = (struct msghdr){
			.msg_name = &arrivals[i].from,
			.msg_namelen = sizeof(arrivals[i].from),
			.msg_iov = &arrivals[i].iov,
			.msg_iovlen = 1,
			.msg_control = &arrivals[i].control,
			.msg_controllen = sizeof(arrivals[i].control),
		};
	}
	count = vb_recvmmsg(port->fd, messages, VB_RAW_BATCH, MSG_DONTWAIT);
	for (int i = 0; i < count; i++)
		frame_take_in(port, thread, &messages[i]);
	return count > 0 ? count : 0;
}

void vb_raw_ready(int fd, void *arg)
{
	struct vb_raw_port *port = arg;
	struct vb_thread *thread = vb_thread_get();

	if (!thread)
		return;
	pthread_mutex_lock(&port->lock);
	/* The socket may have been closed since epoll reported it. */
	if (port->fd == fd && port->in)
		for (unsigned i = 0; i < BATCHES && read_batch(port, thread) == VB_RAW_BATCH; i++)
			;
	pthread_mutex_unlock(&port->lock);
}

void vb_raw_poll_ports(void)
{
	struct vb_thread *thread = vb_thread_get();

	for (struct vb_raw_port *port = NULL; thread && (port = vb_raw_port_next(port));) {
		if (pthread_mutex_trylock(&port->lock))
			continue; /* another thread sends or reads frames */
		if (port->listens && !vb_list_empty(&port->flows))
			read_batch(port, thread);
		pthread_mutex_unlock(&port->lock);
	}
}
