/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/probe.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/gid.h"
#include "rdmacm/io.h"
#include "wire/cm.h"

#define FIRST_NS        1000000000ull
#define INTERVAL_NS_MAX 5000000000ull
#define EVERYBODY_NS    100000000ull /* between two rounds that ask about every connection */

enum {
	HOSTS = 64,       /* probes go to more hosts, but their ICMP reports are not heard */
	PROCESSES = 1024, /* a power of two */
	/*
	 * A living process may be without the port for a moment: another user's process had it,
	 * and processes try again once a second.
	 */
	REFUSALS = 3,
	/* A host sends about one ICMP message a second to another host, so most knocks get none. */
	SILENCES = 10,
};

static uint64_t next_ns = VB_NEVER_NS, interval_ns;
static bool everybody;        /* the next round asks about every connection, not one per process */
static uint64_t everybody_ns; /* the time of the last such round */

/* --- hosts, and their reports --- */

static struct host {
	union ibv_gid gid;
	uint32_t scope;
	unsigned refusals;           /* knocks that ICMP refused, with few silences in between */
	unsigned silences;           /* knocks without an answer since the last refusal */
	uint64_t since_ns;           /* the time of the knock that was refused first */
	int knock;                   /* descriptor + 1 of the last knock; 0: none */
	uint64_t knock_ns, knock_id; /* its time and its transaction id */
	bool used, asked;            /* asked: a knock of this round, or one without answer yet */
	bool refused;                /* so often that connections ended, and not heard since */
} hosts[HOSTS];

static bool is_host(const struct host *host, const struct vb_cm_route *route)
{
	return host->used && host->scope == route->scope &&
	       !memcmp(&host->gid, &route->remote, sizeof(host->gid));
}

static struct host *host_of(const struct vb_cm_route *route)
{
	struct host *unused = NULL;

	for (int i = 0; i < HOSTS; i++) {
		if (is_host(&hosts[i], route))
			return &hosts[i];
		if (!hosts[i].used && !unused)
			unused = &hosts[i];
	}
	if (unused)
		*unused =
			(struct host){ .gid = route->remote, .scope = route->scope, .used = true };
	return unused;
}

static void take_refusal(struct host *host)
{
	if (!host->refusals++)
		host->since_ns = host->knock_ns;
	host->silences = 0;
}

void vb_cma_probe_heard(const struct vb_cm_route *route)
{
	for (int i = 0; i < HOSTS; i++)
		if (is_host(&hosts[i], route)) {
			hosts[i].refusals = 0;
			hosts[i].refused = false;
		}
}

bool vb_cma_probe_refused(const union ibv_gid *gid)
{
	for (int i = 0; i < HOSTS; i++)
		if (hosts[i].used && hosts[i].refused && vb_gid_equal(&hosts[i].gid, gid))
			return true;
	return false;
}

/* Packets of the host prove that another machine sent the refusals. */
static bool is_alive(const struct host *host)
{
	return vb_cma_engine()->heard_since(&host->gid, host->since_ns);
}

static void hear(struct host *host, uint64_t now_ns)
{
	char text[VB_GID_TEXT];

	host->asked = host->knock && now_ns - host->knock_ns < FIRST_NS;
	if (!host->knock || host->asked)
		return;
	if (vb_cma_engine()->gsi_refused(host->knock - 1, &host->gid, host->knock_id))
		take_refusal(host);
	else if (++host->silences >= SILENCES)
		host->refusals = 0;
	host->knock = 0;
	if (host->refusals < REFUSALS)
		return;
	if (is_alive(host)) {
		host->refusals = 0;
		return;
	}
	vb_explain_work(
		"no process of host %s has the RoCE port (UDP 4791) any more: connections with "
		"the host end, and requests to it fail",
		vb_gid_print(&host->gid, text));
	host->refusals = 0;
	host->refused = true;
	vb_cm_host_died(vb_cma_cm(), &host->gid, now_ns);
}

static void knock(struct host *host, const struct vb_cm_route *route,
		  const struct vb_cm_message *probe, uint64_t now_ns)
{
	struct vb_gsi_datagram datagram = {
		.src = route->local,
		.dst = route->remote,
		.scope = route->scope,
	};
	int fd;

	vb_cm_emit(probe, datagram.mad);
	fd = vb_cma_engine()->gsi_knock(&datagram);
	host->asked = true;
	host->knock = fd < 0 ? 0 : fd + 1;
	host->knock_ns = now_ns;
	host->knock_id = probe->transaction_id;
}

/* --- processes: one probe for each is enough --- */

static struct process {
	union ibv_gid host;
	uint32_t slot;
	uint32_t round;
} processes[PROCESSES];
static uint32_t this_round;

static bool is_asked(const struct vb_cm_endpoint *endpoint)
{
	const uint32_t id = endpoint->remote_id ? endpoint->remote_id : endpoint->mra_id;
	const uint32_t slot = id >> VB_COMM_ID_SLOT_SHIFT;
	const union ibv_gid *host = &endpoint->route.remote;
	struct process *place = &processes[(slot ^ host->raw[15]) & (PROCESSES - 1)];

	if (place->round == this_round && place->slot == slot &&
	    !memcmp(&place->host, host, sizeof(*host)))
		return true;
	/* Two processes that share a place may get two probes each. */
	*place = (struct process){ *host, slot, this_round };
	return false;
}

static void ask(struct vb_cma_id *id, uint64_t now_ns)
{
	const struct vb_cm_route *route = &id->endpoint.route;
	struct host *host = host_of(route);
	struct vb_cm_message probe;

	if (!vb_cm_probe(&id->endpoint, &probe))
		return;
	if (host && !host->asked)
		knock(host, route, &probe, now_ns);
	else
		vb_cma_io_send(NULL, route, &probe);
}

/* --- rounds --- */

/* The connection is established, or the peer owes an answer. */
static bool needs_peer(const struct vb_cm_endpoint *endpoint)
{
	return endpoint->state == VB_CM_ESTABLISHED || endpoint->state == VB_CM_REP_SENT ||
	       endpoint->state == VB_CM_REQ_SENT || endpoint->state == VB_CM_SIDR_REQ_SENT ||
	       endpoint->state == VB_CM_DREQ_SENT;
}

static bool is_elsewhere(const struct vb_cma_id *id)
{
	return id->has_endpoint && needs_peer(&id->endpoint) &&
	       !vb_cma_engine()->gid_is_local(&id->endpoint.route.remote);
}

static void forget_hosts(void)
{
	for (int i = 0; i < HOSTS; i++)
		if (hosts[i].knock)
			close(hosts[i].knock - 1);
	memset(hosts, 0, sizeof(hosts));
}

static void forget_unused_hosts(void)
{
	for (int i = 0; i < HOSTS; i++)
		hosts[i].used = hosts[i].asked;
}

static bool is_suspicious(void)
{
	for (int i = 0; i < HOSTS; i++)
		if (hosts[i].used && hosts[i].refusals)
			return true;
	return false;
}

static bool ask_all(uint64_t now_ns)
{
	const bool each = everybody;
	bool any = false;

	this_round++;
	everybody = false;
	if (each)
		everybody_ns = now_ns;
	vb_list_for(id, vb_cma_ids(), struct vb_cma_id, node) {
		if (!is_elsewhere(id))
			continue;
		any = true;
		if (!is_asked(&id->endpoint) || each)
			ask(id, now_ns);
	}
	return any;
}

void vb_cma_probe_tick(uint64_t now_ns)
{
	if (now_ns < next_ns)
		return;
	for (int i = 0; i < HOSTS; i++)
		hear(&hosts[i], now_ns);
	next_ns = VB_NEVER_NS;
	if (!ask_all(now_ns)) {
		forget_hosts();
		return;
	}
	forget_unused_hosts();
	interval_ns = is_suspicious()                     ? FIRST_NS
		      : 2 * interval_ns < INTERVAL_NS_MAX ? 2 * interval_ns
							  : INTERVAL_NS_MAX;
	next_ns = now_ns + interval_ns;
}

uint64_t vb_cma_probe_next_ns(void)
{
	return next_ns;
}

void vb_cma_probe_begin(uint64_t now_ns)
{
	interval_ns = FIRST_NS;
	if (now_ns + FIRST_NS < next_ns)
		next_ns = now_ns + FIRST_NS;
}

void vb_cma_probe_suspect(uint64_t now_ns)
{
	const uint64_t again_ns = everybody_ns + EVERYBODY_NS;

	everybody = true;
	if (again_ns < now_ns)
		next_ns = now_ns;
	else if (again_ns < next_ns)
		next_ns = again_ns;
}

void vb_cma_probe_forget(void)
{
	forget_hosts();
	next_ns = VB_NEVER_NS;
}
