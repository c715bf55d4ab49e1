/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA sockets: the object behind a descriptor, and the functions that the files of this folder
 * share with each other and with the exported functions. They return 0, a count, or -errno.
 *
 * Locks. `lock` guards everything. A thread holds it for a short time only, and releases it before
 * it sleeps or copies bytes of a stream. One thread sends and one receives at a time (`out`, `in`;
 * direction.c). Order: the lock of a listener, then that of a connection which the listener
 * accepted.
 *
 * Threads. A thread that calls makes the connection progress: it polls the CQ under `lock`. One
 * service thread per process takes connection events, accepts for listeners, sends keepalives and
 * answers questions for datagram QPs.
 */
#ifndef VB_RSOCKET_RSOCKET_H
#define VB_RSOCKET_RSOCKET_H

#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/list.h"
#include "rsocket/fd_table.h"
#include "rsocket/flow.h"
#include "rsocket/options.h"
#include "rsocket/settings.h"

enum vb_rs_state {
	VB_RS_INIT,
	VB_RS_BOUND,
	VB_RS_LISTENING,
	VB_RS_RESOLVING,  /* connect: address, then route */
	VB_RS_CONNECTING, /* connect: REQ sent */
	VB_RS_ACCEPTING,  /* accepted, not yet established */
	VB_RS_CONNECTED,
	VB_RS_DISCONNECTED, /* by either side; bytes that have arrived can still be read */
	VB_RS_FAILED,       /* before a connection was established */
	VB_RS_BROKEN,       /* after a connection was established */
};

union vb_rs_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_ib ib; /* streams only */
};

static inline socklen_t vb_rs_addr_size(int domain)
{
	return domain == AF_INET    ? sizeof(struct sockaddr_in)
	       : domain == AF_INET6 ? sizeof(struct sockaddr_in6)
				    : sizeof(struct sockaddr_ib);
}

/* Notifies a sleeper of a change. notify is called under the lock of the rsocket. */
struct vb_rs_watch {
	struct vb_list node;
	void (*notify)(struct vb_rs_watch *watch);
	int event_fd;
};

/* A mapping of this side: memory that the peer may write. */
struct vb_rs_mapping {
	struct vb_list node;
	struct ibv_mr *mr;
	uint64_t offset;
	int index;      /* in the peer's table; -1: local only */
	bool announced; /* written into the peer's table */
};

struct vb_rs_stream {
	struct vb_rs_tx tx;
	uint32_t sq_free;      /* work requests for data */
	uint32_t control_free; /* work requests for messages without a credit */
	uint32_t posted;       /* work requests of both kinds that have not completed */
	uint32_t inline_size;
	struct ibv_mr *send_mr;
	uint8_t *send_buffer;
	uint32_t send_size, send_head, send_used; /* ring */
	uint8_t *control_buffer;                  /* VB_RS_CONTROL_COUNT entries, after the ring */
	unsigned control_next;

	struct vb_rs_rx rx;
	uint32_t receives; /* completed receives to post again */
	struct ibv_mr *recv_mr;
	uint8_t *recv_buffer;

	struct ibv_mr *table_mr;
	uint8_t *table; /* the own SGL and table of mappings, which the peer writes */
	struct vb_rs_conn peer;
	unsigned peer_slot; /* the slot of the peer's SGL to write next */

	struct vb_list mappings;
	uint8_t *mapping_used; /* by index in the peer's table */

	/* Used by the service, under its lock. */
	uint64_t keepalive_due_ns, keepalive_interval_ns;
	struct vb_list keepalive_node;
	struct vb_rs *keepalive_rs; /* a reference, while listed */

	bool said_disconnect;
};

struct vb_rs_listener {
	struct vb_list requests; /* not accepted yet, or not established yet */
	struct vb_list ready;    /* established, for accept */
	unsigned begun;          /* the number of accepted requests in both lists */
	unsigned backlog;
};

struct vb_rs_direction {
	bool busy;        /* a thread sends, or receives */
	bool asleep;      /* that thread waits, for room or for bytes */
	unsigned awaited; /* threads that wait until it is done */
};

struct vb_rs_datagram; /* datagram.h */

struct vb_rs {
	struct vb_fd_object object;
	int domain, type;
	unsigned generation; /* of the process that made it; see vb_rs_is_stale */
	pthread_mutex_t lock;
	atomic_uint service_waits; /* the service thread wants lock */
	atomic_uint empty_looks;   /* receives that found no byte and did not wait */

	/* Under lock from here on. */
	enum vb_rs_state state;
	bool nonblock;
	bool read_shut, write_shut; /* by this side */
	bool peer_shut;             /* the peer sends nothing any more */
	bool reset_told;            /* a send after the peer's close has returned ECONNRESET */
	bool closed;
	int error; /* for SO_ERROR; a positive errno */
	struct vb_rs_direction out, in;
	uint32_t receive_low; /* bytes that the receiving thread waits for */
	struct vb_list watches;
	struct vb_rs_options options;

	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool armed;            /* the CQ, and no thread has taken its event yet */
	struct rdma_cm_id *id; /* of streams */
	union vb_rs_addr local, peer;
	struct vb_rs_stream *stream;
	struct vb_rs_listener listener;
	struct vb_rs_datagram *datagram;

	struct vb_rs *parent;       /* until accept: the listener; a reference */
	struct vb_list accept_node; /* in requests or ready; of a listener: in the service's list */
	bool begun;                 /* parent->listener.begun counts it */
};

/* --- socket.c: opening, closing, names --- */
int vb_rs_open(int domain, int type, int protocol, struct vb_rs **out);
struct vb_rs *vb_rs_alloc(int domain, int type, const struct vb_rs_options *options);
/* Makes an identifier on the service's channel. */
int vb_rs_create_id(struct vb_rs *rs, struct rdma_cm_id **id);
void vb_rs_get(struct vb_rs *rs);
void vb_rs_put(struct vb_rs *rs);
void vb_rs_undo_get(void *rs); /* for vb_undo_push */
int vb_rs_bind(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size);
/* Binds to the wildcard and any port; under the lock. */
int vb_rs_bind_any(struct vb_rs *rs);
int vb_rs_name_local(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size);
int vb_rs_name_peer(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size);
int vb_rs_close(struct vb_rs *rs); /* keeps the caller's reference */
bool vb_rs_is_stale(const struct vb_rs *rs);
void vb_rs_set_nonblock(struct vb_rs *rs, bool nonblock);
/* 0: addr is a whole address of the rsocket's family. */
int vb_rs_check_addr(const struct vb_rs *rs, const struct sockaddr *addr, socklen_t size);
void vb_rs_copy_addr(const union vb_rs_addr *from, struct sockaddr *addr, socklen_t *size);
/* Converts to the rsocket's family: an IPv6 rsocket has mapped IPv4 addresses, as a socket has. */
void vb_rs_take_name(const struct vb_rs *rs, const struct sockaddr *from, union vb_rs_addr *name);

/*
 * Calls of the program take the lock with vb_rs_lock, the service thread with vb_rs_lock_service. A
 * program that calls in a loop would take the lock again before a waiting thread runs. So the
 * program lets the service thread in first.
 */
static inline void vb_rs_lock(struct vb_rs *rs)
{
	enum { YIELDS = 64 };

	for (int i = 0;
	     i < YIELDS && atomic_load_explicit(&rs->service_waits, memory_order_relaxed); i++)
		sched_yield();
	pthread_mutex_lock(&rs->lock);
}

static inline void vb_rs_lock_service(struct vb_rs *rs)
{
	atomic_fetch_add_explicit(&rs->service_waits, 1, memory_order_relaxed);
	pthread_mutex_lock(&rs->lock);
	atomic_fetch_sub_explicit(&rs->service_waits, 1, memory_order_relaxed);
}

/* --- connect.c, accept.c: the connection manager's events, in the service thread --- */
int vb_rs_connect(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size);
bool vb_rs_connect_decided(struct vb_rs *rs);
/* True: rs was being accepted, and is now established or lost. */
bool vb_rs_connect_event(struct vb_rs *rs, const struct rdma_cm_event *event);
int vb_rs_listen(struct vb_rs *rs, int backlog);
int vb_rs_accept(struct vb_rs *rs, struct vb_rs **out);
/* Makes an rsocket of the listener from a request; NULL: the request is refused. */
struct vb_rs *vb_rs_request(struct vb_rs *listener, const struct rdma_cm_event *event);
/* Accepts as many requests as the backlog has room for. */
void vb_rs_accept_more(struct vb_rs *listener);
/* An accepted rs is established or lost. The caller holds a reference. */
void vb_rs_accept_done(struct vb_rs *rs);
void vb_rs_listener_close(struct vb_rs *rs);

/* --- endpoint.c: QP, CQ and memory of a stream --- */
int vb_rs_endpoint_create(struct vb_rs *rs);
void vb_rs_endpoint_destroy(struct vb_rs *rs);
void vb_rs_endpoint_describe(const struct vb_rs *rs, uint8_t bytes[VB_RS_CONN_SIZE]);
void vb_rs_endpoint_start(struct vb_rs *rs, const struct vb_rs_conn *peer);

/* --- progress.c: completions, credits, control messages; under lock --- */
void vb_rs_progress(struct vb_rs *rs);
void vb_rs_break(struct vb_rs *rs, int error);
int vb_rs_post(struct vb_rs *rs, struct ibv_send_wr *wr);
int vb_rs_post_control(struct vb_rs *rs, enum vb_rs_control control);
bool vb_rs_all_sent(struct vb_rs *rs);

/* A wr_id has the kind of the work request, and in the lower half its bytes of the send buffer. */
enum vb_rs_work { VB_RS_WORK_RECEIVE, VB_RS_WORK_DATA, VB_RS_WORK_CONTROL };
static inline uint64_t vb_rs_wr_id(enum vb_rs_work work, uint32_t buffer_size)
{
	return (uint64_t)work << 32 | buffer_size;
}

/* --- wait.c --- */
typedef bool vb_rs_test(struct vb_rs *rs);
/*
 * Under lock, which is released during the wait. 0: the test holds; -EAGAIN: timeout; -EINTR. A
 * cancellation point (base/cancel.h): callers push what they hold besides the lock.
 */
int vb_rs_wait(struct vb_rs *rs, vb_rs_test *test, uint64_t deadline_ns);
void vb_rs_notify(struct vb_rs *rs, const struct vb_rs_watch *but);
/* True: the CQ may have completions that came before it was armed; look again before sleeping. */
bool vb_rs_arm(struct vb_rs *rs, const struct vb_rs_watch *self);
/* The eventfd of this thread; -errno. */
int vb_rs_thread_event(void);
void vb_rs_event_drain(int event_fd);
void vb_rs_event_write(struct vb_rs_watch *watch);
uint64_t vb_rs_deadline(bool nonblock, uint64_t timeout_ns);
/* Does an interrupted call go on, as SA_RESTART asks? */
bool vb_rs_restart(void);

/* --- direction.c --- */
/* Under lock. The caller is the sending, or receiving, thread until vb_rs_end; or -errno. */
int vb_rs_begin(struct vb_rs *rs, struct vb_rs_direction *direction, uint64_t deadline_ns);
void vb_rs_end(struct vb_rs *rs, struct vb_rs_direction *direction);
/* A wait of that thread for room, or for bytes. */
int vb_rs_wait_in(struct vb_rs *rs, struct vb_rs_direction *direction, vb_rs_test *test,
		  uint64_t deadline_ns);
/* For vb_undo_push. */
void vb_rs_undo_out(void *rs);
void vb_rs_undo_in(void *rs);

/* --- ready.c --- */
/* Events of poll(2) that hold now; under lock. */
short vb_rs_ready(struct vb_rs *rs, short events);
/* Does anyone poll the CQ? Of a stream not before the connection exists. */
bool vb_rs_polls_cq(const struct vb_rs *rs);
/* The descriptor that becomes readable when an armed rsocket has completions; -1: none yet. */
int vb_rs_completion_fd(const struct vb_rs *rs);

/* --- send.c, recv.c: streams --- */
ssize_t vb_rs_sendv(struct vb_rs *rs, const struct iovec *iov, int count, int flags);
ssize_t vb_rs_recvv(struct vb_rs *rs, const struct iovec *iov, int count, int flags);
bool vb_rs_can_send(struct vb_rs *rs);
/* The number of bytes that a read can take now. */
uint32_t vb_rs_readable_size(struct vb_rs *rs);

/* --- shutdown.c --- */
int vb_rs_shutdown(struct vb_rs *rs, int how);
/* Sends VB_RS_DISCONNECT, and waits up to deadline_ns until the peer has everything. */
void vb_rs_finish(struct vb_rs *rs, uint64_t deadline_ns);

/* --- iomap.c --- */
off_t vb_rs_iomap(struct vb_rs *rs, void *buffer, size_t size, int prot, int flags, off_t offset);
int vb_rs_iounmap(struct vb_rs *rs, void *buffer, size_t size);
ssize_t vb_rs_iowrite(struct vb_rs *rs, const void *buffer, size_t size, off_t offset, int flags);
/* Tells the peer about new mappings; under lock, by the sending thread. */
int vb_rs_announce_mappings(struct vb_rs *rs, uint64_t deadline_ns);
void vb_rs_mappings_free(struct vb_rs *rs);

/* --- service.c --- */
/* Starts the thread with the first call, and returns the channel for identifiers. */
int vb_rs_service_start(struct rdma_event_channel **channel);
void vb_rs_service_keepalive(struct vb_rs *rs); /* after changes of options; under its lock */
void vb_rs_service_forget(struct vb_rs *rs);
void vb_rs_service_accept(struct vb_rs *listener); /* the backlog has room again */
unsigned vb_rs_generation(void);

/* Calls that return a count, or -1 and set errno. */
static inline ssize_t vb_rs_return_count(ssize_t result)
{
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

#endif
