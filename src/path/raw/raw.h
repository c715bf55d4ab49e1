/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw path: Ethernet frames between raw packet QPs and a network interface, through an
 * AF_PACKET socket. A port is the interface of a device in this process.
 *
 * The flows of this process see each frame that a raw QP sends. A unicast frame does not leave the
 * process if a flow names its destination address. All other frames go to the interface, and other
 * processes of this host get them from there. These frames carry a mark. By the mark other
 * processes tell them from frames of the host itself, which a NIC would not give to a raw QP.
 */
#ifndef VB_PATH_RAW_H
#define VB_PATH_RAW_H

#include <pthread.h>

#include "nic/wq.h"
#include "path/raw/frame.h"
#include "path/run.h"

enum {
	VB_RAW_MARK = 0x7662656e, /* mark of the socket's frames */
	VB_RAW_BATCH = 16,        /* frames that one call reads */
	VB_RAW_HEADROOM = 64,     /* bytes in front of a frame that was read: for a VLAN tag */
};

struct vb_raw_counts {
	uint64_t frames_out, bytes_out, frames_in, bytes_in;
	uint64_t send_errors; /* frames that the interface did not take */
	uint64_t oversized;   /* frames longer than any buffer */
	uint64_t overrun;     /* frames that came when the socket was full */
};

struct vb_raw_port {
	struct vb_raw_port *next; /* in the list of all ports; ports are never freed */
	const struct vb_device *dev;
	unsigned users;       /* QPs; written by engine/raw_port.c, under ports_lock */
	struct vb_nic *nic;   /* likewise */
	pthread_mutex_t lock; /* guards all below; taken before a hazard, never inside one */
	int ifindex;
	bool loopback;        /* the loopback interface: every frame that is sent comes back */
	int fd;               /* -1: closed */
	bool listens;         /* the socket is bound to receive, which cannot be undone */
	struct vb_list flows; /* in order of rank */
	uint8_t *out;         /* twice VB_FRAME_MAX: bytes of a WQE, and a frame cut from them */
	uint8_t *in; /* VB_RAW_BATCH times headroom and VB_FRAME_MAX; NULL: never listened */
	struct vb_raw_counts counts;
};

/* --- port.c --- */

/* The port of an interface, closed at first; NULL: no memory. Callers hold one lock. */
struct vb_raw_port *vb_raw_port_find(const struct vb_device *dev);
/* -EPERM, with an explanation: this process lacks CAP_NET_RAW; -ENODEV, ... */
int vb_raw_port_open(struct vb_raw_port *port);
void vb_raw_port_close(struct vb_raw_port *port);
/* In a child of fork: open sockets belong to the parent. */
void vb_raw_forget(void);
/* Iterates over the ports that were ever found: NULL begins, NULL is the end. */
struct vb_raw_port *vb_raw_port_next(const struct vb_raw_port *port);
void vb_raw_count(struct vb_raw_counts *sum);

/* Adds and removes a flow; 0 or -errno. */
int vb_raw_flow_add(struct vb_raw_port *port, struct vb_flow *flow);
void vb_raw_flow_remove(struct vb_raw_port *port, struct vb_flow *flow);

/* --- filter.c --- */

/* Makes the kernel pass only frames that some flow may take; under port->lock. 0 or -errno. */
int vb_raw_filter(struct vb_raw_port *port);

/* --- steer.c; under port->lock --- */

/* True: a flow names the destination address of the frame. */
bool vb_raw_is_at_home(const struct vb_raw_port *port, const struct vb_frame *frame);
/* Gives the frame to every QP whose flow takes it. */
void vb_raw_steer(struct vb_raw_port *port, struct vb_thread *thread, const struct vb_frame *frame);
/* Gives the frame, which no interface has seen, to the flows that sniff. */
void vb_raw_sniff(struct vb_raw_port *port, struct vb_thread *thread, const struct vb_frame *frame);

/* --- place.c --- */

/* Puts a frame into the next receive of the QP, or of the work queue that the hash picks. A frame
 * without a receive is dropped, and counted there. */
void vb_raw_place(struct vb_thread *thread, struct vb_qp *qp, const struct vb_frame *frame,
		  uint32_t tag, uint8_t wc_flags);

/* --- send.c, receive.c --- */

/* Executes the send queue of a raw QP. The caller holds the executor's token. */
enum vb_run_verdict vb_raw_run(struct vb_run *run);
/* The service thread calls this when the socket has frames. */
void vb_raw_ready(int fd, void *port);
/* A thread that polls an empty CQ reads frames, if there are any. */
void vb_raw_poll_ports(void);
extern _Atomic unsigned vb_raw_listening; /* number of ports that listen */

static inline bool vb_raw_listens(void)
{
	return __builtin_expect(atomic_load_explicit(&vb_raw_listening, memory_order_relaxed), 0);
}

#endif
