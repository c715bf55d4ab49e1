/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subnet administration (IBA 15.2) of a subnet whose manager is the own host: a request and what is
 * known go in, the answer comes out. No I/O, no state.
 */
#ifndef VB_MAD_SA_H
#define VB_MAD_SA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mad/port.h"
#include "wire/mad.h"

enum {
	VB_SA_CLASS_VERSION = 2,
	VB_SA_SERVICE_RECORD = 0x0031, /* attribute */
	VB_SA_DATA_AT = 56,            /* records begin here */
	VB_SA_GID_SIZE = 16,
	VB_SA_PORTS_MAX = 256,
	VB_SA_GROUPS_MAX = 256,
	VB_SA_SERVICES_MAX = 256,
	VB_SA_SERVICES_OWN = 64, /* that a process registers */
	VB_SA_SERVICE_SIZE = 176,
	/* Fields of a ServiceRecord: the lease in seconds, the name with zeros behind it. */
	VB_SA_SERVICE_ID_AT = 0,
	VB_SA_SERVICE_GID_AT = 8,
	VB_SA_SERVICE_PKEY_AT = 24,
	VB_SA_LEASE_AT = 28,
	VB_SA_SERVICE_NAME_AT = 48,
	VB_SA_SERVICE_NAME_SIZE = 64,
	/* Components of a request for ServiceRecords. */
	VB_SA_SERVICE_ID = 1 << 0,
	VB_SA_SERVICE_NAME = 1 << 6,
	VB_SA_COMPONENTS_AT = 48, /* in a request; 64 bits */
	/* The longest answer: every service. */
	VB_SA_ANSWER_MAX = VB_SA_DATA_AT + VB_SA_SERVICES_MAX * VB_SA_SERVICE_SIZE,
};

#define VB_SA_LEASE_EVER UINT32_MAX

/* The status of a MAD has these, too (IBA 15.2.4). */
enum vb_sa_status {
	VB_SA_NO_RESOURCES = 0x0100,
	VB_SA_INVALID = 0x0200,
	VB_SA_NO_RECORDS = 0x0300,
	VB_SA_TOO_MANY_RECORDS = 0x0400,
	VB_SA_INVALID_GID = 0x0500,
	VB_SA_INSUFFICIENT = 0x0600,
	VB_SA_DENIED = 0x0700,
};

/* A port of the subnet that can be reached from the own one; the own port, too. */
struct vb_sa_port {
	uint8_t gid[VB_SA_GID_SIZE];
	uint16_t lid;
};

/* A multicast group that a program of this host has joined. */
struct vb_sa_group {
	uint8_t mgid[VB_SA_GID_SIZE];
	uint8_t join_state;
};

/* A service that a program of this host has registered; its lease is what is left of it. */
struct vb_sa_service {
	uint8_t record[VB_SA_SERVICE_SIZE]; /* its key is known if it is the process's own */
	bool is_own;
};

struct vb_sa_view {
	struct vb_mad_port own;
	struct vb_sa_port ports[VB_SA_PORTS_MAX]; /* [0] is the own one */
	unsigned port_count;
	struct vb_sa_group groups[VB_SA_GROUPS_MAX];
	unsigned group_count;
	struct vb_sa_service services[VB_SA_SERVICES_MAX];
	unsigned service_count;
};

/* What the caller does for a request that was granted. */
enum vb_sa_act { VB_SA_NOTHING, VB_SA_JOIN, VB_SA_LEAVE, VB_SA_REGISTER, VB_SA_WITHDRAW };
struct vb_sa_effect {
	enum vb_sa_act act;
	struct vb_sa_group group;
	uint8_t service[VB_SA_SERVICE_SIZE];
};

/* The length of the answer; 0: the MAD gets none. Needs room for VB_SA_ANSWER_MAX bytes. */
size_t vb_sa_answer(const struct vb_sa_view *view, const uint8_t request[VB_MAD_SIZE],
		    uint8_t *answer, struct vb_sa_effect *effect);

/* The LID that a request for a path names as its target; 0: none, or another request. */
uint16_t vb_sa_path_lid(const uint8_t request[VB_MAD_SIZE]);

/* The multicast LID of a group: the same on every host. */
uint16_t vb_sa_mlid(const uint8_t mgid[VB_SA_GID_SIZE]);

/* Do the records name the same service? */
bool vb_sa_service_is(const uint8_t a[VB_SA_SERVICE_SIZE], const uint8_t b[VB_SA_SERVICE_SIZE]);
uint64_t vb_sa_service_id(const uint8_t record[VB_SA_SERVICE_SIZE]);
/* Nobody but the registrant learns the key. */
void vb_sa_service_hide(uint8_t record[VB_SA_SERVICE_SIZE]);
/* It is a service of the own port, and its lease is not over. */
bool vb_sa_service_is_of(const struct vb_sa_view *view, const uint8_t record[VB_SA_SERVICE_SIZE]);

/* --- for the agent's own files --- */

/* A request, parsed. Components that it does not name are not compared. */
struct vb_sa_query {
	const struct vb_sa_view *view;
	uint16_t attribute_id;
	uint64_t components;
	const uint8_t *data; /* the record of the request */
};

/* The records that fit, one after the other. */
struct vb_sa_records {
	uint8_t *at; /* zero behind it */
	unsigned count;
	uint16_t size; /* of one, with padding: a multiple of 8 */
};

/* Returns the status. */
uint16_t vb_sa_get(const struct vb_sa_query *query, struct vb_sa_records *records);
uint16_t vb_sa_change_service(const struct vb_sa_query *query, bool adds,
			      struct vb_sa_records *records, struct vb_sa_effect *effect);
uint64_t vb_sa_service_components(void); /* that requests may name */
uint16_t vb_sa_change_group(const struct vb_sa_query *query, bool join,
			    struct vb_sa_records *records, struct vb_sa_effect *effect);

#endif
