/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw path: Ethernet frames between raw packet QPs and a network interface, through an
 * AF_PACKET socket. A port is the interface of a device in this process.
 *
 * What a raw QP sends is shown to the flows of this process. A unicast frame whose destination
 * address one of them names does not leave the process; everything else goes to the interface,
 * from where other processes of this host get it as well: it carries a mark by which they tell it
 * from what the host itself sends, which is nothing that a NIC would give to a raw QP.
 */
#ifndef VB_PATH_RAW_H
#define VB_PATH_RAW_H

#include <pthread.h>

#include "nic/wq.h"
#include "path/local/local.h"
#include "path/raw/frame.h"

enum {
	VB_RAW_MARK = 0x7662656e, /* of the socket's frames */
	VB_RAW_BATCH = 16,        /* frames that one call reads */
	VB_RAW_HEADROOM = 64,     /* in front of a frame that was read: for a VLAN tag */
};

struct vb_raw_counts {
	uint64_t frames_out, bytes_out, frames_in, bytes_in;
	uint64_t send_errors; /* the interface did not take it */
	uint64_t oversized;   /* longer than any buffer */
	uint64_t overrun;     /* the socket was full */
};

struct vb_raw_port {
	struct vb_raw_port *next; /* in the list of all; never freed */
	const struct vb_device *dev;
	unsigned users;       /* QPs; engine/raw_port.c, under its lock */
	struct vb_nic *nic;   /* likewise */
	pthread_mutex_t lock; /* all below. Taken before a hazard, never inside one */
	int ifindex;
	bool loopback;        /* the interface: all that is sent comes back */
	int fd;               /* -1: closed */
	bool listens;         /* bound to receive, which cannot be undone */
	struct vb_list flows; /* by rank */
	uint8_t *out;         /* twice VB_FRAME_MAX: what is sent, and a frame made of it */
	uint8_t *in; /* VB_RAW_BATCH times headroom and VB_FRAME_MAX; NULL: never listened */
	struct vb_raw_counts counts;
};

/* --- port.c --- */

/* The port of an interface, closed at first; NULL: no memory. The caller serializes. */
struct vb_raw_port *vb_raw_port_find(const struct vb_device *dev);
/* -EPERM with an explanation: this process may not; -ENODEV, ... */
int vb_raw_port_open(struct vb_raw_port *port);
void vb_raw_port_close(struct vb_raw_port *port);
/* fork: what is open belongs to the parent. */
void vb_raw_forget(void);
/* Each port that was ever opened: NULL begins, NULL is the end. They never go. */
struct vb_raw_port *vb_raw_port_next(const struct vb_raw_port *port);
void vb_raw_count(struct vb_raw_counts *sum);

/* A flow comes and goes; 0 or -errno. */
int vb_raw_flow_add(struct vb_raw_port *port, struct vb_flow *flow);
void vb_raw_flow_remove(struct vb_raw_port *port, struct vb_flow *flow);

/* --- engine/attach/seccomp.c --- */

/* Makes the kernel give us only what some flow may take; under port->lock. 0 or -errno. */
int vb_raw_filter(struct vb_raw_port *port);

/* --- steer.c; under port->lock --- */

/* Is the destination address of the frame one that a flow names? */
bool vb_raw_is_at_home(const struct vb_raw_port *port, const struct vb_frame *frame);
/* Gives the frame to every QP whose flow takes it. */
void vb_raw_steer(struct vb_raw_port *port, struct vb_thread *thread, const struct vb_frame *frame);

/* --- place.c --- */

/* Into the next receive of a QP or of the work queue that the hash picks, or dropped there. */
void vb_raw_place(struct vb_thread *thread, struct vb_qp *qp, const struct vb_frame *frame,
		  uint32_t tag, uint8_t wc_flags);

/* --- send.c, receive.c --- */

/* Executes the send queue of a raw QP. The caller holds the executor's token. */
enum vb_run_verdict vb_raw_run(struct vb_run *run);
/* The socket has frames. */
void vb_raw_ready(int fd, void *port);
/* Somebody polls an empty CQ: takes in frames, if there are any. */
void vb_raw_poll_ports(void);
extern _Atomic unsigned vb_raw_listening; /* ports */

static inline bool vb_raw_listens(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_raw_listening, memory_order_relaxed), 0);
}

#endif
