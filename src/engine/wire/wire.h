/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire path at work. A lane carries some QPs of this process (nic/lane.h): it has a lock, a
 * port with sockets, and a protocol core. A thread that posts to a QP, or polls a CQ, brings the
 * lanes of that QP or CQ on, under try-locks. QPs that are kicked while another thread has the lock
 * go to a list, which the holder looks at before it leaves. The service thread brings all lanes on
 * when no program polls. No thread takes the lock of a lane while it holds that of another: packets
 * from lane to lane go through a queue (port/memory_port.c).
 */
#ifndef VB_ENGINE_WIRE_WIRE_H
#define VB_ENGINE_WIRE_WIRE_H

#include "engine/engine.h"
#include "engine/wire/wire_fault.h"
#include "engine/wire/wire_held.h"
#include "path/roce/roce.h"

struct vb_lane {
	struct vb_nic *nic;
	unsigned number;
	struct vb_port *port;
	struct vb_wire_fault *fault; /* NULL without fault rules */
	struct vb_delay_line held;   /* packets for QPs that are on their way here; under lock */
	struct vb_roce roce;         /* under lock */
	_Atomic uint32_t lock;       /* only control calls and senders of datagrams wait for it */
	int cancel_state;            /* under lock: the holder's cancel state from before */
	struct vb_spin kick_lock;
	struct vb_list kicked;       /* struct vb_qp by wire_kick, under kick_lock */
	_Atomic uint32_t kick_count; /* length of `kicked`; written under kick_lock */
	_Atomic uint64_t wake_ns;    /* when the next timer is due; written under lock */
	_Atomic uint64_t brought_ns; /* when packets were last taken in; written under lock */
	_Atomic bool shut_out;       /* the service thread found the lock taken: holders stand in */
	/* hints for the service thread, which resets the first of them; written under lock */
	_Atomic uint32_t polls;    /* since the service thread looked last, by their weight */
	_Atomic uint32_t received; /* packets that any thread took in */
	_Atomic uint32_t activity; /* posts of the program, and polls that brought something */
	uint32_t listen_devices;   /* under lock: a bit per device that is listened at */
	bool listen_everywhere;    /* under lock: all devices are (listen.h) */
	uint64_t back_ns;          /* under lock: when a holder came back after more than 10 ms */
	uint64_t polled_packets;   /* under lock: packets up to the last poll of the program */
	struct vb_lane_thread *_Atomic thread; /* serves this lane (lane_thread.c); or NULL */
	/* the serving thread only: the service thread, or that of the lane */
	uint32_t served;       /* packets that it took in, for a program that does not poll */
	bool left;             /* the sockets are left to a program that polls, and not watched */
	uint32_t window_polls; /* polls since window_ns */
	uint64_t window_ns;
	uint64_t distrust_ns; /* the sockets are watched until then, even if a program polls */
	uint64_t stay_ns;     /* so long it looks on for more packets before it sleeps ... */
	uint64_t rest_ns;     /* ... the time when it did so last ... */
	uint64_t stayed_ns;   /* ... how long it had looked on in vain before ... */
	uint32_t hits;        /* looks in a row that were not in vain ... */
	uint32_t skips;       /* ... looks that it leaves out now ... */
	uint32_t skips_next;  /* ... and those that the last one in vain has cost */
	uint64_t crowded_ns;  /* until then it does not look on: other threads need its CPU */
	uint32_t seen;        /* the value of activity at the last look */
	uint64_t again_ns;    /* another thread held the lock: wait so long until the next look */
	bool doubtful;        /* packets waited at the last look although a program polls */
	uint32_t doubtful_since; /* the value of received when `doubtful` was set */
};

/* A copy of all counts so far: a reader needs no lock while it looks at them. */
struct vb_wire_counts {
	struct vb_port_counters port;
	struct vb_wired_counters qps;
	uint64_t drops[VB_PACKET_DROPS];
	uint64_t flaws[VB_PACKET_FLAWS];
	uint64_t reserved; /* packets with reserved bits, which were accepted */
};
/* The sum over all lanes of the process. */
void vb_wire_count(struct vb_nic *nic, struct vb_wire_counts *counts);

/* True: a connected QP has had a packet from its peer at this address since then. */
bool vb_wire_heard_since(struct vb_nic *nic, const union ibv_gid *host, uint64_t since_ns);

/* Takes packets to QP 0 and 1, which belong to the host. Under the lock of the first lane. */
typedef void vb_wire_mad_fn(struct vb_lane *lane, const struct vb_packet *packet,
			    const struct vb_arrival *arrival);
/* From now on `take` gets the packets for QP 0 and 1. Before the first call they are dropped. */
void vb_wire_give_mads(vb_wire_mad_fn *take);

/* The first lane of this process, or NULL. */
static inline struct vb_lane *vb_lane_first(const struct vb_nic *nic)
{
	return atomic_load(&nic->lanes[0]);
}
/* The same, opened on demand. NULL: see *err. */
struct vb_lane *vb_wire_get(struct vb_nic *nic, int *err);
/* The lane of a QP, or NULL: it is not open. */
static inline struct vb_lane *vb_qp_lane(const struct vb_qp *qp)
{
	return atomic_load(&qp->nic->lanes[atomic_load_explicit(&qp->lane, memory_order_relaxed)]);
}
/* The open lanes of the process, one after the other. */
#define vb_lanes_for(lane, nic_)                                         \
	for (unsigned lane##_i = 0; lane##_i < VB_LANES_MAX; lane##_i++) \
		for (struct vb_lane *lane = vb_lane_open_at((nic_), lane##_i); lane; lane = NULL)
struct vb_lane *vb_lane_open_at(const struct vb_nic *nic, unsigned number);

/*
 * RC, UC: hands a QP over to the wire, together with its executor's token, which the caller holds.
 * peer: a process of this host that gets packets through its slot socket, or NULL. UD: lets the QP
 * receive. 0, or -errno: nothing has changed.
 */
int vb_wire_adopt(struct vb_qp *qp, struct vb_peer *peer);
/*
 * Takes a QP back from the wire, and waits until no thread executes it: the caller has the token
 * afterwards. connects_again: packets that have arrived by now are taken in first, so that the next
 * connection does not take them for its own.
 */
void vb_wire_stop(struct vb_qp *qp, bool connects_again);

/* RTR: adopts the QP if its address alone says that it goes by packets. */
void vb_wire_enter(struct vb_qp *qp);
/* By the service thread: addresses have changed. QPs that found no way at RTR try again. */
void vb_wire_enter_again(struct vb_nic *nic);
/* A work request was posted, or the state of the QP has changed. */
void vb_wire_kick(struct vb_qp *qp);
/* Begins all posted work requests, whichever thread has the lock: then SQD may follow. */
void vb_wire_settle(struct vb_qp *qp);
/* The process ends: peers get the last ACK for all messages that the program has seen. */
void vb_wire_farewell(struct vb_nic *nic);
/*
 * UD: sends a datagram that was put aside (path/local/aside.c). By the holder of the token. False:
 * the datagram stays.
 */
bool vb_wire_aside(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_peer *peer);
/*
 * UD: sends the datagrams at the head of the queue that go the same way. By the holder of the
 * token. Not 0: the rest has to wait until this time.
 */
uint64_t vb_wire_datagrams(struct vb_qp *qp, struct vb_peer *peer, uint32_t end,
			   struct vb_notice *notice);

/* No thread has taken packets in for a while, in one of these lanes. */
bool vb_wire_overdue(const struct vb_nic *nic, uint32_t lanes);
/* By the service thread: takes in everything that arrived before this call. */
void vb_wire_catch_up(struct vb_nic *nic);
/* The caller may go to sleep: the service thread watches the sockets of these lanes from now on. */
void vb_wire_watch(struct vb_nic *nic, uint32_t lanes);
/* By the service thread, after every sleep. woken: a bit per lane whose sockets woke it. */
void vb_wire_service(struct vb_nic *nic, uint32_t woken);
/* True: the sockets of a lane are left to a program that polls, or its lock was taken at the last
 * look. */
bool vb_wire_left(struct vb_nic *nic);
/* True: the service thread would be late for a timer if it slept until wake_ns. */
bool vb_wire_too_late(struct vb_nic *nic, uint64_t wake_ns);
/* The time when the service thread has to look again. */
uint64_t vb_wire_next_ns(struct vb_nic *nic, uint64_t now_ns);

/* A timer may be that late: the service thread's period while a program is busy. */
enum { VB_WIRE_TICK_NS = 1000000 };

/* RC, UC and XRC: the wire has the token of the QP. */
static inline bool vb_qp_on_wire(const struct vb_qp *qp)
{
	return __builtin_expect(atomic_load_explicit(&qp->wired, memory_order_acquire) != NULL,
				0) &&
	       qp->type != IBV_QPT_UD;
}

#endif
