/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the general services interface, for its own files. */
#ifndef VB_GSI_IMPL_H
#define VB_GSI_IMPL_H

#include "engine/wire/wire.h"
#include "gsi/gsi.h"
#include "wire/cm.h"

/* MADs counted since the process began; names are in gsi.c. */
enum vb_gsi_count {
	VB_GSI_SENT,      /* left as packets */
	VB_GSI_RECEIVED,  /* came as packets */
	VB_GSI_ROUTED,    /* given to a process of this host, by this one */
	VB_GSI_TAKEN,     /* taken by this process */
	VB_GSI_ANSWERED,  /* answered by an agent, or for an endpoint that does not exist */
	VB_GSI_WAITED,    /* had to wait for room in a queue */
	VB_GSI_MALFORMED, /* the connection manager's class, but no message of it */
	VB_GSI_REFUSED, /* packets with a wrong Q_Key, P_Key or length, or from loopback; forged */
	VB_GSI_NOBODY,  /* for no endpoint, and without an answer */
	VB_GSI_FULL,    /* the process did not read in time */
	VB_GSI_FLOOD,   /* more than a host is expected to send */
	VB_GSI_NO_WAY,  /* no way to that address */
	VB_GSI_COUNTS,
};

/* A request that was given to a claim. If its sender takes it back before the answer, its REJ names
 * no id of this side: then this record finds the claim. */
enum { VB_GSI_REQUESTS = 256 };
struct vb_gsi_request {
	union ibv_gid src;
	uint32_t comm_id; /* of the sender; 0: unused */
	struct vb_cm_target target;
};

/* MADs for agents, until the service thread takes them (gsi/inbox.c). Under gsi->lock. */
enum { VB_GSI_INBOX = 256 };
struct vb_gsi_inbox {
	struct vb_gsi_datagram *ring; /* owned; NULL: never needed */
	uint32_t put, taken;
	int event;             /* wakes the service thread; -1: never needed */
	unsigned asking_count; /* requests that wait for other processes; service thread only */
};

/* The number of MADs that may come. Time adds to it. */
enum { VB_GSI_SOURCES = 64 };
struct vb_gsi_tokens {
	uint64_t count, earned_ns;
};

/* The names that this process has bound, and datagrams that wait for room at names of others. */
struct vb_gsi {
	struct vb_nic *nic;
	pthread_mutex_t lock;  /* for all fields down to services */
	bool open;             /* nic->cm takes datagrams */
	int out;               /* socket that writes to names of others */
	int timer;             /* runs while datagrams wait; -1: never needed */
	struct vb_list claims; /* struct claimed */
	struct vb_list lines;  /* struct line: names with waiting datagrams (gsi/out.c) */
	unsigned held_count;   /* datagrams in all lines */
	long again_ns;         /* interval of the timer; 0: it is off */
	struct vb_gsi_request requests[VB_GSI_REQUESTS]; /* ring */
	unsigned next_request;
	struct vb_gsi_inbox inbox;
	struct vb_list groups;   /* struct membership (gsi/sa.c) */
	struct vb_list services; /* struct service (gsi/sa_service.c) */
	/* For MADs from the wire: all, and by a hash of the source address. Under the lock of the
	 * first lane. */
	struct vb_gsi_tokens tokens;
	struct vb_gsi_tokens tokens_of[VB_GSI_SOURCES];
	uint64_t source_key; /* of that hash; written once */
	_Atomic uint64_t counts[VB_GSI_COUNTS];
};

/* Made on demand; NULL: no memory or descriptors. The caller may hold any lock but the gsi's. */
struct vb_gsi *vb_gsi_get(struct vb_nic *nic);

static inline void vb_gsi_count(struct vb_gsi *gsi, enum vb_gsi_count count)
{
	atomic_fetch_add_explicit(&gsi->counts[count], 1, memory_order_relaxed);
}

/* --- gsi/out.c --- */

/* A socket that writes to names of others, or -1. */
int vb_gsi_open_out(void);

enum vb_gsi_fate { VB_GSI_GIVEN, VB_GSI_ABSENT, VB_GSI_LOST };

/* Writes a datagram to a name, at once or when there is room. ABSENT: no process has the name. */
enum vb_gsi_fate vb_gsi_write(struct vb_gsi *gsi, const struct vb_cm_target *target,
			      const struct vb_gsi_datagram *datagram);

/* --- gsi/dispatch.c --- */

/*
 * Gives a datagram to its process on this host. True: there is none, and *answer is the host's
 * answer, for the sender.
 */
bool vb_gsi_route(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
		  struct vb_gsi_datagram *answer);

/* --- gsi/mad_name.c --- */

/* To the process that has sent the request of this transaction. */
enum vb_gsi_fate vb_gsi_to_file(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				uint64_t transaction_id);
/* To the process that has registered the class. */
enum vb_gsi_fate vb_gsi_to_server(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
				  const struct vb_mad *mad);

/* --- gsi/inbox.c --- */

/* An agent of this host takes the MAD, and its answer leaves later. */
void vb_gsi_to_agent(struct vb_gsi *gsi, const struct vb_gsi_datagram *request);

/* --- gsi/packet.c --- */

/* Sends the MAD as a packet, through the own UDP port. 0 or -errno. */
int vb_gsi_send_packet(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram);

#endif
