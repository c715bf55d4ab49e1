/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers, event channels and events of librdmacm.
 *
 * One lock protects the connection manager (src/cm), all identifiers and all queues of events. It
 * is taken by the callers of rdma_* and by the service thread of the engine, which brings messages
 * and timers; no verbs are called while it is held. QPs are moved by the thread that calls rdma_*,
 * the service thread only queues events.
 *
 * Lives. An identifier lives until all its events that were taken from a channel are acknowledged;
 * a thread in rdma_get_cm_event works on the identifier before that. A QP lives until the last
 * thread has released it (qp.h). The program keeps a channel as long as identifiers are on it.
 */
#ifndef VB_RDMACM_CMA_H
#define VB_RDMACM_CMA_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/event_fd.h"
#include "base/list.h"
#include "base/log.h"
#include "cm/cm.h"
#include "rdmacm/address.h"
#include "rdmacm/device.h"
#include "verbs/engine_table.h"

/* Where an identifier is in its life. */
enum vb_cma_state {
	VB_CMA_IDLE,
	VB_CMA_ADDR_BOUND,
	VB_CMA_ADDR_QUERY, /* rdma_resolve_addr has been called, its event is queued or will be */
	VB_CMA_ADDR_RESOLVED,
	VB_CMA_ROUTE_QUERY,
	VB_CMA_ROUTE_RESOLVED,
	VB_CMA_LISTEN,
	VB_CMA_CONNECT, /* from rdma_connect or an incoming request on */
	VB_CMA_DISCONNECT,
	VB_CMA_REMOVED, /* its device is gone, or its channel */
	VB_CMA_STATES,
};
const char *vb_cma_state_name(enum vb_cma_state state);

/* Private data: what belongs in front (of rdma_create_ep), then the application's. */
struct vb_cma_data {
	uint8_t bytes[256];
	size_t length;
};

struct vb_cma_channel {
	struct rdma_event_channel channel; /* first: what the application holds */
	unsigned generation;               /* of the process that made it; see vb_cma_generation */
	struct vb_event_fd *fd; /* its lock comes before that of the connection manager */
	struct vb_list events;  /* struct vb_cma_event.node; one count of fd for each ... */
	uint64_t unrung;        /* ... but for so many, until the lock is given back */
	struct vb_list ring_node;
	struct vb_list ids; /* struct vb_cma_id.channel_node */
};

struct vb_cma_id {
	struct rdma_cm_id id; /* first: what the application holds */
	unsigned generation;
	enum vb_cma_state state;
	bool sync;           /* the channel is its own: calls wait for their event */
	bool told;           /* the application knows it: not so until its request was fetched */
	bool disconnecting;  /* the application called rdma_disconnect */
	bool connect_error;  /* REJECTED and DISCONNECTED are of no interest any more */
	bool removing;       /* rdma_destroy_id is at work: no more events */
	struct vb_list node; /* in the list of all */
	struct vb_list channel_node;
	uint32_t events_reported, events_acked;
	pthread_cond_t acked;
	unsigned qp_users;         /* holds of id.qp, which its end waits for; see vb_cma_qp_hold */
	bool qp_ending;            /* it was taken away, and is being detached from groups */
	pthread_cond_t qp_changed; /* one of the two */

	struct vb_cma_device *device; /* counted; NULL: bound to none */
	int ifindex;                  /* of the interface that it is bound to, else 0 */
	uint32_t scope;               /* the same where an address is link-local */
	union ibv_gid sgid, dgid;     /* addresses that its messages come from and go to ... */
	struct vb_ib_path ib;         /* ... and, on InfiniBand, the path between their ports */
	enum ibv_mtu route_mtu;       /* that the way to another host takes; 0: unknown */

	int claim; /* descriptor of the port, -1: none */

	struct vb_cm_endpoint endpoint; /* of a connection, or of a listener */
	bool has_endpoint;
	bool passive;                 /* made by an incoming request */
	bool accepted;                /* passive: events are of interest from then on */
	struct vb_cma_event *request; /* passive: to be filled with what the request says */
	bool address_gone;            /* ADDR_CHANGE was told */

	/* Active: what the application asked for, and when; to be said again (connect_retry.h). */
	struct {
		bool flow_control;
		uint8_t rnr_retry_count;
		struct vb_cma_data data;
	} asked;
	uint64_t asked_ns, again_ns;
	bool lid_told; /* by the peer: the one of the path was none of its */
	bool at_once;  /* a refusal is told at once */
	struct vb_list again_node;

	/* While rdma_resolve_addr waits for a neighbour (neighbour.h). */
	uint64_t neighbour_until_ns;
	struct vb_list neighbour_node;
	bool source_chosen; /* by the route: it was a wildcard */

	/* What was agreed upon; set by connect, accept and the messages of the peer. */
	uint32_t qp_num;
	bool srq;
	uint8_t initiator_depth, responder_resources, retry_count;
	/* Passive: the paths of the request, and its MTU. */
	struct vb_cm_path request_path, request_alternate;
	enum ibv_mtu request_mtu;
	struct ibv_ece local_ece, remote_ece;

	uint8_t tos;
	uint8_t ack_timeout;
	bool tos_set, ack_timeout_set, afonly_set, afonly, reuseaddr;

	struct vb_list groups;                 /* struct vb_cma_group.node */
	struct ibv_qp_init_attr *qp_init_attr; /* of an endpoint that listens */
	void *connect;                         /* data in front of the private data */
	size_t connect_len;
};

static inline struct vb_cma_id *vb_cma_id(struct rdma_cm_id *id)
{
	return (struct vb_cma_id *)id;
}

static inline bool vb_cma_is_infiniband(const struct vb_cma_id *id)
{
	return id->device && !id->device->ethernet;
}

/* Identified by GIDs: its messages have no IP addresses. */
static inline bool vb_cma_is_by_gid(const struct vb_cma_id *id)
{
	return id->id.route.addr.src_addr.sa_family == AF_IB;
}

struct vb_cma_group;

struct vb_cma_event {
	struct rdma_cm_event event; /* first: what the application holds */
	struct vb_list node;        /* in the queue of a channel */
	struct vb_cma_id *owner;    /* whose event it is: of a request, the listener */
	struct vb_cma_group *group; /* of multicast events */
	uint64_t due_ns;            /* while it is held back */
	bool lap; /* the peer's wish for another path in reserve: nobody sees it */
	uint8_t private_data[256];
};

/* --- cma.c: the whole --- */

/*
 * Finds the engine and the devices; every call that makes something begins with it. 0, -ENODEV,
 * -EPROTO (the libibverbs beside us is another one).
 */
int vb_cma_begin(void);
/* Makes the connection manager of this process and joins it to the service thread. */
int vb_cma_start(void);
const struct vb_engine_table *vb_cma_engine(void);
struct vb_cm *vb_cma_cm(void);
/* Counts forks: what a parent made is not the child's. */
unsigned vb_cma_generation(void);
/* -EINVAL with a sentence: it was made before a fork, by the parent. */
int vb_cma_stale(unsigned generation, const char *call);
struct vb_list *vb_cma_ids(void);

void vb_cma_lock(void);
void vb_cma_unlock(void);
/* Waits on cond with the lock of the library; no cancellation point. */
void vb_cma_wait(pthread_cond_t *cond);
/* Sets the timer to what the connection manager wants; under the lock, after each use of it. */
void vb_cma_rearm(void);

/* --- channel.c, event.c; all under the lock but create, destroy and take --- */

int vb_cma_channel_create(struct vb_cma_channel **channel);
void vb_cma_channel_destroy(struct vb_cma_channel *channel);
/* The oldest event, waiting for one unless fd is O_NONBLOCK. */
int vb_cma_channel_take(struct vb_cma_channel *channel, struct vb_cma_event **event);
/* What it queues is counted by its owner once it is taken. */
void vb_cma_channel_queue(struct vb_cma_channel *channel, struct vb_cma_event *event);
/* What was queued is counted now. */
void vb_cma_channels_ring(void);
void vb_cma_channel_withdraw(struct vb_cma_channel *channel, struct vb_cma_event *event);

static inline struct vb_cma_channel *vb_cma_channel_of(struct vb_cma_id *id)
{
	return (struct vb_cma_channel *)id->id.channel;
}

/* NULL: no memory. */
struct vb_cma_event *vb_cma_event_create(struct vb_cma_id *owner, enum rdma_cm_event_type type,
					 int status);
/* Creates and queues. */
int vb_cma_event_raise(struct vb_cma_id *owner, enum rdma_cm_event_type type, int status);
/* Copies bytes behind the event and points conn.private_data (or ud.private_data) there. */
void vb_cma_event_private(struct vb_cma_event *event, bool ud, const void *data, size_t len);

/* --- id.c --- */

int vb_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space ps, enum ibv_qp_type qp_type);
/* NULL: to a channel of its own. */
int vb_cma_migrate(struct vb_cma_id *id, struct rdma_event_channel *channel);

int vb_cma_id_create(struct vb_cma_channel *channel, void *context, enum rdma_port_space ps,
		     enum ibv_qp_type qp_type, struct vb_cma_id **id);
/* Under the lock: an id that the application never saw, or is done with. */
void vb_cma_id_free(struct vb_cma_id *id);
/* Under the lock: no connection and no port any more. */
void vb_cma_id_hang_up(struct vb_cma_id *id);
/* Under the lock: that, and no events. */
void vb_cma_id_silence(struct vb_cma_id *id);
/* -EINVAL with a sentence unless id is of this process and in that state. Under the lock. */
int vb_cma_id_expect(struct vb_cma_id *id, enum vb_cma_state state, const char *call);
/* Bound to a device: id.verbs, id.pd and the port. Without the lock. */
int vb_cma_id_attach(struct vb_cma_id *id, struct ibv_device *device);
void vb_cma_id_detach(struct vb_cma_id *id);

/* --- sync.c --- */

/* Of a synchronous id: the event of its last call, or its request, is not looked at any more. */
void vb_cma_done_with_event(struct vb_cma_id *id);
/* It has this one now, and is done with the one before. */
void vb_cma_keep_event(struct vb_cma_id *id, struct rdma_cm_event *event);
/*
 * Of a synchronous id: waits for the event of the call and gives its status, 0 or -errno. Of
 * another the event may be out, and the id destroyed by who fetched it, before the call returns:
 * whether it is synchronous is looked at before.
 */
int vb_cma_complete(struct vb_cma_id *id, bool sync);

#endif
