/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which way messages go: one function decides, from what is known about the destination and from
 * VERBENA_PATH. Nothing else reads VERBENA_PATH. The file lies this low because the address of a
 * multicast group depends on it (nic/group.c); everything above asks here as well.
 */
#ifndef VB_NIC_CHOICE_H
#define VB_NIC_CHOICE_H

#include "base/config.h"
#include "nic/device.h"
#include "shm/peer.h"

enum vb_choice {
	VB_CHOICE_LOCAL,  /* through memory: the posting thread executes the work request itself */
	VB_CHOICE_ATTACH, /* to a process of this host that was not asked yet: its answer decides */
	VB_CHOICE_SLOT,   /* packets through the slot socket of the process */
	VB_CHOICE_MEMORY, /* packets through a queue of this process */
	VB_CHOICE_UDP,    /* packets through UDP */
	VB_CHOICE_GROUP,  /* packets to the members of a multicast group within this host */
};

/* The process of this host that has the destination. */
enum vb_choice_process {
	VB_PROCESS_NONE,    /* no process is meant: QP 1 belongs to the host */
	VB_PROCESS_UNASKED, /* not attached, or its answer is still to come */
	VB_PROCESS_SELF,
	VB_PROCESS_OTHER, /* attached */
};

struct vb_choice_facts {
	bool local;       /* the destination is an address of this host */
	bool multicast;   /* it is a group ... */
	bool within_host; /* ... that no packet leaves this host for */
	enum vb_choice_process process;
	bool touchable;  /* the two processes can read each other's memory */
	bool by_packets; /* one of the two QPs says in its entry that it wants packets */
};

/* The decision: no state, no side effect. */
enum vb_choice vb_choice_of(enum vb_path_choice configured, const struct vb_choice_facts *facts);
/* The same with this process's VERBENA_PATH. */
enum vb_choice vb_choose(const struct vb_choice_facts *facts);

static inline bool vb_choice_is_packets(enum vb_choice choice)
{
	return choice != VB_CHOICE_LOCAL && choice != VB_CHOICE_ATTACH;
}

/* An address, and the process that has it if one was found; by_packets is left to the caller. */
static inline struct vb_choice_facts vb_choice_facts(const struct vb_av *av,
						     const struct vb_peer *peer)
{
	const int state = peer ? atomic_load(&peer->state) : VB_PEER_GONE;
	struct vb_choice_facts facts = {
		.local = av->local,
		.multicast = av->multicast,
		.within_host = av->within_host,
		.process = VB_PROCESS_UNASKED,
	};

	if (state == VB_PEER_READY || state == VB_PEER_NO_PATH) {
		facts.process = peer->self ? VB_PROCESS_SELF : VB_PROCESS_OTHER;
		facts.touchable = state == VB_PEER_READY && !atomic_load(&peer->denied);
	}
	return facts;
}

/* --- what VERBENA_PATH means for a host as a whole --- */

/* Do messages from this host to itself leave as UDP packets? Then its loopback address listens. */
bool vb_choice_udp_to_self(void);
/* Do messages within this host never become UDP packets? Then groups have no sockets, either. */
bool vb_choice_never_udp_to_self(void);
/* May two processes prove that they can touch each other's memory? */
bool vb_choice_may_touch(void);
/* Does the queue of this process lead on to other processes, which answer through their sockets? */
bool vb_choice_memory_leads_on(void);

#endif
