/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire path at work: one lock, the port's sockets, the protocol core, and the question who
 * brings it on. Whoever posts or polls does, under a try-lock; what comes up while somebody holds
 * it is left on a list that the holder looks at before he goes. The service thread does it when
 * nobody polls.
 */
#ifndef VB_ENGINE_WIRE_WIRE_H
#define VB_ENGINE_WIRE_WIRE_H

#include "engine/engine.h"
#include "engine/wire/wire_fault.h"
#include "engine/wire/wire_held.h"
#include "path/roce/roce.h"

struct vb_wire {
	struct vb_nic *nic;
	struct vb_port *port;
	struct vb_wire_fault *fault; /* while there are fault rules */
	struct vb_delay_line held;   /* for QPs that are on their way here; under lock */
	struct vb_roce roce;         /* under lock */
	_Atomic uint32_t lock;       /* only control calls and senders of datagrams wait for it */
	int cancel_state;            /* under lock: of its holder, when he came */
	struct vb_spin kick_lock;
	struct vb_list kicked; /* struct vb_qp by wire_kick, under kick_lock */
	_Atomic uint32_t kick_count;
	_Atomic uint64_t wake_ns;    /* when timers are due */
	_Atomic uint64_t brought_ns; /* written under lock: packets taken in, timers looked at */
	_Atomic bool shut_out;       /* the service thread did not get the lock: holders bring on */
	/* written under lock; hints for the service thread, which resets the first of them */
	_Atomic uint32_t polls;    /* since the service thread looked last */
	_Atomic uint32_t received; /* packets, by whomever */
	_Atomic uint32_t activity; /* of the program: posts, polls that brought something */
	uint32_t listen_devices;   /* under lock: at all addresses of these, a bit each ... */
	bool listen_everywhere;    /* ... and of all devices (listen.h) */
	uint64_t back_ns;          /* under lock: nobody had been here for long until then */
	/* service thread only */
	bool left;               /* to a program that polls: the sockets are not watched */
	uint32_t window_polls;   /* since ... */
	uint64_t window_ns;      /* ... this time */
	uint64_t distrust_ns;    /* until then it watches, whoever polls */
	uint32_t seen;           /* of activity, at the last look */
	uint64_t again_ns;       /* somebody held the lock: look again after this time */
	bool doubtful;           /* packets wait although there is a poller ... */
	uint32_t doubtful_since; /* ... at this number of received ones */
};

/* What was counted so far; a copy, so that nobody holds the lock while he looks at it. */
struct vb_wire_counts {
	struct vb_port_counters port;
	struct vb_wired_counters qps;
	uint64_t drops[VB_PACKET_DROPS];
	uint64_t flaws[VB_PACKET_FLAWS];
};
void vb_wire_count(struct vb_wire *wire, struct vb_wire_counts *counts);

/* A packet of a connected QP has come from this address since then, and from its peer. */
bool vb_wire_heard_since(struct vb_nic *nic, const union ibv_gid *host, uint64_t since_ns);

/* A function for packets to QP 1, which belongs to the host; called under the wire lock. */
typedef void vb_wire_mad_fn(struct vb_wire *wire, const struct vb_packet *packet,
			    const struct vb_arrival *arrival);
/* From now on packets for QP 1 go there; without a call they are dropped. */
void vb_wire_give_mads(vb_wire_mad_fn *take);

/* The wire of this process, opened on demand; NULL and *err. */
struct vb_wire *vb_wire_get(struct vb_nic *nic, int *err);

/*
 * RC, UC: hands a QP over, whose executor's token the caller holds and gives away with it; peer: a
 * process of this host to which packets go through its slot socket, or NULL. UD: lets it receive.
 * 0 or -errno: nothing has changed.
 */
int vb_wire_adopt(struct vb_qp *qp, struct vb_peer *peer);
/*
 * Takes it back, and waits until nobody executes: the caller has the token afterwards. connects_again:
 * what has come for it by now must not be taken for packets of its next connection.
 */
void vb_wire_stop(struct vb_qp *qp, bool connects_again);

/* RTR: does the wire carry it from the start? */
void vb_wire_enter(struct vb_qp *qp);
/* Addresses have changed: QPs that found no way at RTR try again. By the service thread. */
void vb_wire_enter_again(struct vb_nic *nic);
/* Something was posted, or its state has changed. */
void vb_wire_kick(struct vb_qp *qp);
/* What is posted is begun, whoever holds the wire now: then the QP may go to SQD. */
void vb_wire_settle(struct vb_qp *qp);
/* The process ends: whoever waits for an answer to what the program has seen gets it. */
void vb_wire_farewell(struct vb_nic *nic);
/* UD: sends one that was put aside (path/local/aside.c). By the token's holder. False: not
 * now. */
bool vb_wire_aside(struct vb_qp *qp, const struct vb_wqe *wqe, struct vb_peer *peer);
/*
 * UD: sends the datagrams at the head of the queue that go the same way. By the token's holder.
 * Not 0: the rest is to come again at this time.
 */
uint64_t vb_wire_datagrams(struct vb_qp *qp, struct vb_peer *peer, uint32_t end,
			   struct vb_notice *notice);

/* Takes in what arrived and does what is due, unless another thread is at it. */
void vb_wire_poll(struct vb_wire *wire);
/* Nobody has done that for a while. */
bool vb_wire_overdue(const struct vb_wire *wire);
/* By the service thread: takes in everything that arrived before this call. */
void vb_wire_catch_up(struct vb_nic *nic);
/* The caller may go to sleep: the service thread watches from now on. */
void vb_wire_watch(struct vb_nic *nic);
/* By the service thread, after every sleep; woken: a socket woke it. */
void vb_wire_service(struct vb_nic *nic, bool woken);
/* The sockets are left to a program that polls. */
bool vb_wire_left(struct vb_nic *nic);
/* Would the service thread be late for a timer if it slept until wake_ns? */
bool vb_wire_too_late(struct vb_nic *nic, uint64_t wake_ns);
/* When the service thread has to look again. */
uint64_t vb_wire_next_ns(struct vb_nic *nic, uint64_t now_ns);

/* What a timer may be late by: the service thread looks that often while a program is busy. */
enum { VB_WIRE_TICK_NS = 1000000 };

/* RC and UC: the wire has its token. */
static inline bool vb_qp_on_wire(const struct vb_qp *qp)
{
	return __builtin_expect(atomic_load_explicit(&qp->wired, memory_order_acquire) != NULL,
				0) &&
	       qp->type != IBV_QPT_UD;
}

#endif
