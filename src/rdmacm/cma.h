/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers, event channels and events of librdmacm.
 *
 * One lock protects the connection manager (src/cm), all identifiers and all queues of events. The
 * callers of rdma_* take it, and so does the service thread of the engine, which brings messages
 * and timers. No thread calls verbs under it. The thread that calls rdma_* moves QPs; the service
 * thread only queues events.
 *
 * Lives. An identifier lives until the application has acknowledged all its events that left a
 * channel; a thread in rdma_get_cm_event works on the identifier before that. A QP lives until the
 * last thread has released it (qp.h). The program keeps a channel as long as identifiers are on it.
 */
#ifndef VB_RDMACM_CMA_H
#define VB_RDMACM_CMA_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/rdmacm.h"
#include "base/event_fd.h"
#include "base/list.h"
#include "base/log.h"
#include "cm/cm.h"
#include "rdmacm/address.h"
#include "rdmacm/device.h"
#include "verbs/engine_table.h"

enum vb_cma_state {
	VB_CMA_IDLE,
	VB_CMA_ADDR_BOUND,
	VB_CMA_ADDR_QUERY, /* rdma_resolve_addr waits for a neighbour */
	VB_CMA_ADDR_RESOLVED,
	VB_CMA_ROUTE_RESOLVED,
	VB_CMA_LISTEN,
	VB_CMA_CONNECT, /* since rdma_connect, or since its request came */
	VB_CMA_DISCONNECT,
	VB_CMA_REMOVED, /* the device or the channel is gone */
	VB_CMA_STATES,
};
const char *vb_cma_state_name(enum vb_cma_state state);

/* Private data: that of rdma_create_ep, then that of the call. */
struct vb_cma_data {
	uint8_t bytes[256];
	size_t length;
};

struct vb_cma_channel {
	struct rdma_event_channel channel; /* first: the application has its address */
	unsigned generation;               /* of the process that made it; see vb_cma_generation */
	struct vb_event_fd *fd; /* its lock comes before that of the connection manager */
	struct vb_list events;  /* struct vb_cma_event.node; fd counts them ... */
	uint64_t unrung;        /* ... but for this many, which it counts before the unlock */
	struct vb_list ring_node;
	struct vb_list ids;                /* struct vb_cma_id.channel_node */
	struct rdma_event_channel *system; /* of the system's librdmacm, or NULL (system.h) ... */
	int both_fd;                       /* ... and then the epoll of both: channel.fd */
};

struct vb_cma_id {
	struct rdma_cm_id id; /* first: the application has its address */
	unsigned generation;
	uint32_t number; /* of this process, for listings */
	enum vb_cma_state state;
	bool sync;          /* no other id is on the channel; calls wait for their event */
	bool told;          /* the application knows the id; false until its request is fetched */
	bool disconnecting; /* the application called rdma_disconnect */
	bool connect_error; /* CONNECT_ERROR was reported; no REJECTED or DISCONNECTED follows */
	bool removing;      /* rdma_destroy_id is at work: no more events */
	struct rdma_cm_id *shadow; /* in the system's librdmacm, or NULL (system.h) */
	bool is_systems;           /* the shadow does everything; else it may listen, too */
	struct vb_list node;       /* in the list of all identifiers */
	struct vb_list channel_node;
	uint32_t events_reported, events_acked;
	pthread_cond_t acked;
	unsigned qp_users;         /* holders of id.qp; see vb_cma_qp_hold */
	bool qp_ending;            /* rdma_destroy_qp detaches the QP from groups */
	pthread_cond_t qp_changed; /* qp_users or qp_ending has changed */

	struct vb_cma_device *device; /* counted; NULL: the id is not bound to a device */
	int ifindex;                  /* the interface that the id is bound to; 0: none */
	uint32_t scope;               /* the same number if an address is link-local */
	union ibv_gid sgid, dgid;     /* the addresses that messages go between ... */
	struct vb_ib_path ib;         /* ... and, on InfiniBand, the path between their ports */
	enum ibv_mtu route_mtu;       /* of the route to another host; 0: unknown */

	int claim; /* descriptor of the port, -1: none */

	struct vb_cm_endpoint endpoint; /* a connection or a listener */
	bool has_endpoint;
	bool passive;                 /* made by an incoming request */
	bool accepted;                /* passive: the application hears of no event before */
	struct vb_cma_event *request; /* passive: the event, until the request has filled it */
	bool address_gone;            /* ADDR_CHANGE was reported */

	/* Active: the arguments and the time of rdma_connect, for another try (connect_retry.h). */
	struct {
		bool flow_control;
		uint8_t rnr_retry_count;
		struct vb_cma_data data;
	} asked;
	uint64_t asked_ns, retry_ns;
	uint64_t since_ns; /* the last step of the handshake began then, for listings */
	bool lid_told;     /* the peer has told its LID: that of the path was wrong */
	bool at_once;      /* VB_OPTION_ID_AT_ONCE: no second try */
	struct vb_list retry_node;

	/* While rdma_resolve_addr waits for a neighbour (neighbour.h). */
	uint64_t neighbour_until_ns;
	struct vb_list neighbour_node;
	bool source_chosen; /* the route chose the source: the id was bound to a wildcard */

	/* The values of the connection, from rdma_connect, rdma_accept and the peer's messages. */
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

	struct rdma_addrinfo *info; /* resolved, until rdma_query_addrinfo takes it; owned */
	bool info_asked;            /* rdma_resolve_addrinfo has a question that is not settled */
	bool looking_up;            /* a thread is in that call; destroy waits for it */

	struct vb_list groups;                 /* struct vb_cma_group.node */
	struct ibv_qp_init_attr *qp_init_attr; /* rdma_create_ep: for the QPs of a listener */
	void *connect;                         /* rdma_create_ep: goes before private data */
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

static inline bool vb_cma_is_datagram(const struct vb_cma_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* The id has AF_IB addresses: its messages carry no IP addresses. */
static inline bool vb_cma_is_by_gid(const struct vb_cma_id *id)
{
	return id->id.route.addr.src_addr.sa_family == AF_IB;
}

struct vb_cma_group;

struct vb_cma_event {
	struct rdma_cm_event event;   /* first: the application has its address */
	struct vb_list node;          /* in the queue of a channel, or delayed */
	struct vb_cma_id *owner;      /* counts the event; for a request the listener */
	struct vb_cma_group *group;   /* of multicast events */
	uint64_t due_ns;              /* of a delayed event (disconnect_delay.h) */
	struct rdma_cm_event *system; /* an event of the system's librdmacm: this one is a copy */
	bool lap;                     /* a LAP came: the application does not see this event */
	uint8_t private_data[256];
};

/* --- cma.c: the library as a whole --- */

/*
 * Finds the engine and the devices; every call that makes an object begins with it. 0, -ENODEV, or
 * -EPROTO: the process has another libibverbs.
 */
int vb_cma_begin(void);
/* Makes the connection manager of this process and joins it to the service thread. */
int vb_cma_start(void);
const struct vb_engine_table *vb_cma_engine(void);
struct vb_cm *vb_cma_cm(void);
/* The number of forks. Objects of another generation belong to the parent. */
unsigned vb_cma_generation(void);
/* -EINVAL, explained: the parent made the object before the fork. */
int vb_cma_stale(unsigned generation, const char *call);
struct vb_list *vb_cma_ids(void);

void vb_cma_lock(void);
void vb_cma_unlock(void);
/* Waits on cond with the lock of the library, in a guard against cancellation (base/cancel.h). */
void vb_cma_wait(pthread_cond_t *cond);
/* Sets the timer to the next due time. Under the lock, after each use of the connection manager. */
void vb_cma_rearm(void);

/* --- channel.c, event.c: all under the lock except create, destroy and take --- */

int vb_cma_channel_create(struct vb_cma_channel **channel);
void vb_cma_channel_destroy(struct vb_cma_channel *channel);
/* Takes the oldest event, and waits for one unless fd is O_NONBLOCK. The owner counts the event. */
int vb_cma_channel_take(struct vb_cma_channel *channel, struct vb_cma_event **event);
/* The same, of the events of this library. */
int vb_cma_channel_take_own(struct vb_cma_channel *channel, struct vb_cma_event **event);
void vb_cma_channel_queue(struct vb_cma_channel *channel, struct vb_cma_event *event);
/* The descriptors count the events that were queued, and wake their readers. */
void vb_cma_channels_ring(void);
/* Takes an event out of the queue again. */
void vb_cma_channel_withdraw(struct vb_cma_channel *channel, struct vb_cma_event *event);

static inline struct vb_cma_channel *vb_cma_channel_of(struct vb_cma_id *id)
{
	return (struct vb_cma_channel *)id->id.channel;
}

/* NULL: no memory. */
struct vb_cma_event *vb_cma_event_create(struct vb_cma_id *owner, enum rdma_cm_event_type type,
					 int status);
/* Creates and queues an event. 0 or -ENOMEM. */
int vb_cma_event_raise(struct vb_cma_id *owner, enum rdma_cm_event_type type, int status);
/* Copies bytes behind the event and points conn.private_data (or ud.private_data) there. */
void vb_cma_event_private(struct vb_cma_event *event, bool ud, const void *data, size_t len);

/* --- id.c --- */

int vb_cma_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space ps, enum ibv_qp_type qp_type);
/* channel NULL: the id gets a channel of its own and becomes synchronous. */
int vb_cma_id_migrate(struct vb_cma_id *id, struct rdma_event_channel *channel);

/* Allocates an id and puts it on the channel. Under the lock. */
int vb_cma_id_add(struct vb_cma_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct vb_cma_id **id);
/* Frees an id that the application no longer knows. Under the lock. */
void vb_cma_id_free(struct vb_cma_id *id);
/* Ends the connection and frees the port. Under the lock. */
void vb_cma_id_hang_up(struct vb_cma_id *id);
/* Hangs up, and drops all events of the id. Under the lock. */
void vb_cma_id_silence(struct vb_cma_id *id);
/* -EINVAL, explained: the id belongs to the parent, or is in another state. Under the lock. */
int vb_cma_id_expect(struct vb_cma_id *id, enum vb_cma_state state, const char *call);
/* Binds the id to a device: sets id.verbs, id.pd and the port. Without the lock. */
int vb_cma_id_attach(struct vb_cma_id *id, struct ibv_device *device);
void vb_cma_id_detach(struct vb_cma_id *id);

/* --- connect.c, cm_events.c --- */

/* Sends the request that id->asked describes, with a new endpoint. Under the lock. */
int vb_cma_connect_send(struct vb_cma_id *id);
/* Turns the reports of the connection manager into events of identifiers. */
const struct vb_cm_ops *vb_cma_cm_ops(void);

/* --- resolve_addrinfo.c --- */

/* The application fetches ADDRINFO_ERROR: another question may follow. */
void vb_cma_info_failed(struct vb_cma_id *id);

/* --- sync.c: synchronous identifiers, which keep one event in id.event --- */

/* Acknowledges the event that the id keeps. Does nothing if the id is not synchronous. */
void vb_cma_event_done(struct vb_cma_id *id);
/* Keeps this event, and acknowledges the one before. */
void vb_cma_event_keep(struct vb_cma_id *id, struct rdma_cm_event *event);
/*
 * If sync, waits for the event of the call and returns its status, 0 or -errno. Callers read
 * id->sync before they cause the event: another thread may fetch the event of an id that is not
 * synchronous, and destroy the id.
 */
int vb_cma_event_wait(struct vb_cma_id *id, bool sync);

/* The result of a call with an argument that is NULL. */
int vb_cma_null(const char *call);

#endif
