/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of the general services interface. */
#ifndef VB_GSI_IMPL_H
#define VB_GSI_IMPL_H

#include "engine/wire/wire.h"
#include "gsi/gsi.h"
#include "wire/cm.h"

/* Counted since the process began; names are in gsi.c. */
enum vb_gsi_count {
	VB_GSI_SENT,      /* MADs that left as packets */
	VB_GSI_RECEIVED,  /* those that came as packets */
	VB_GSI_ROUTED,    /* given to a process of this host, by this one */
	VB_GSI_TAKEN,     /* taken by this process */
	VB_GSI_ANSWERED,  /* without anybody there: REJ, SIDR_REP, DREP */
	VB_GSI_WAITED,    /* for room in a queue, once or more often */
	VB_GSI_MALFORMED, /* no message of the connection manager */
	VB_GSI_REFUSED, /* packets with a wrong Q_Key, P_Key or length, or from loopback; forged */
	VB_GSI_NOBODY,  /* there was nobody, and no answer to give */
	VB_GSI_FULL,    /* a process did not take them */
	VB_GSI_FLOOD,   /* more than a host is expected to send */
	VB_GSI_NO_WAY,  /* no packet could be made to that address */
	VB_GSI_COUNTS,
};

/* A request that was given to a claim: who takes it back before he has an answer knows no id of the
 * other side. */
enum { VB_GSI_REQUESTS = 256 };
struct vb_gsi_request {
	union ibv_gid src;
	uint32_t comm_id; /* of the sender; 0: unused */
	struct vb_cm_target target;
};

/* How many MADs may come: earned with time. */
enum { VB_GSI_SOURCES = 64 };
struct vb_gsi_tokens {
	uint64_t count, earned_ns;
};

/* The own names that are bound, and what waits to be written to others' names. */
struct vb_gsi {
	struct vb_nic *nic;
	pthread_mutex_t lock;
	bool open;             /* nic->cm takes datagrams; under lock */
	int out;               /* writes to others */
	int timer;             /* runs while something waits; -1: never needed */
	struct vb_list claims; /* struct claimed */
	struct vb_list lines;  /* names that datagrams wait for (gsi/out.c) */
	unsigned held_count;   /* datagrams in them */
	long again_ns;         /* the interval of timer; 0: it is off */
	struct vb_gsi_request requests[VB_GSI_REQUESTS]; /* ring, under lock */
	unsigned next_request;
	struct vb_gsi_tokens tokens; /* of MADs from the wire; under the wire lock */
	struct vb_gsi_tokens
		tokens_of[VB_GSI_SOURCES]; /* by a hash of the source address; the same */
	uint64_t source_key;               /* of that hash */
	_Atomic uint64_t counts[VB_GSI_COUNTS];
};

/* Made on demand; NULL: no memory or descriptors. Under any lock but the gsi's. */
struct vb_gsi *vb_gsi_get(struct vb_nic *nic);

static inline void vb_gsi_count(struct vb_gsi *gsi, enum vb_gsi_count count)
{
	atomic_fetch_add_explicit(&gsi->counts[count], 1, memory_order_relaxed);
}

/* --- gsi/out.c --- */

/* What writes to others' names, or -1. */
int vb_gsi_open_out(void);

enum vb_gsi_fate { VB_GSI_GIVEN, VB_GSI_ABSENT, VB_GSI_LOST };

/* Writes a datagram to a name, at once or when there is room. ABSENT: nobody has that name. */
enum vb_gsi_fate vb_gsi_write(struct vb_gsi *gsi, const struct vb_cm_target *target,
			      const struct vb_gsi_datagram *datagram);

/* --- gsi/dispatch.c --- */

/*
 * Gives a datagram to the process of this host that it belongs to. If there is none, and there is
 * something to be said about it, makes the answer, which goes back to where it came from.
 */
bool vb_gsi_route(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram,
		  struct vb_gsi_datagram *answer);

/* --- gsi/packet.c --- */

/* As a packet, through the own UDP port. 0 or -errno. */
int vb_gsi_send_packet(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram);

#endif
