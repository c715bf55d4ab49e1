/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules on what the program asks of a QP: timers, addresses, limits. */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "check/create.h"
#include "check/report.h"
#include "common_facts.h"
#include "wire/rnr.h"

enum {
	TIMEOUT_LEAST = 8,         /* 4.096 us * 2^8: a millisecond */
	RNR_PATIENCE_NS = 1000000, /* what a thread needs that lost its CPU */
};

static _Atomic bool queried;

void vb_check_queried(void)
{
	atomic_store(&queried, true);
}

VB_PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (!vb_check_by_library(__builtin_return_address(0)))
		vb_check_queried();
	return VB_CHECK_REAL(ibv_query_device)(context, attr);
}

/* --- timers --- */

static void check_timeout(const struct vb_object *qp, uint8_t timeout, const struct vb_stack *stack)
{
	if (!timeout)
		vb_report(VB_RULE_TIMER, VB_CALLS({ "set by", stack }),
			  "QP 0x%06x has timeout 0, for ever: one lost packet, and it hangs.",
			  qp->qpn);
	else if (timeout < TIMEOUT_LEAST)
		vb_report(
			VB_RULE_TIMER, VB_CALLS({ "set by", stack }),
			"QP 0x%06x has timeout %u, that is %.0f us: a loaded network or host takes "
			"longer, and messages fail that were on their way.",
			qp->qpn, timeout, 4.096 * (1 << timeout));
}

static void check_rnr(const struct vb_object *qp, const struct vb_stack *stack)
{
	const uint64_t patience_ns = qp->rnr_retry * vb_rnr_timer_ns(qp->min_rnr_timer);

	if (qp->rnr_retry && qp->rnr_retry != VB_RNR_RETRY_FOREVER && patience_ns < RNR_PATIENCE_NS)
		vb_report(VB_RULE_TIMER, VB_CALLS({ "set by", stack }),
			  "QP 0x%06x has rnr_retry %u and min_rnr_timer %u: a receive that is %.2f "
			  "ms late makes a message fail.",
			  qp->qpn, qp->rnr_retry, qp->min_rnr_timer, (double)patience_ns / 1e6);
}

/* --- addresses --- */

static bool link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* The address as the interface has it, IPv4 behind 96 bits. */
static bool address_of(const struct sockaddr *sockaddr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (sockaddr && sockaddr->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)sockaddr)->sin6_addr, 16);
		return true;
	}
	if (!sockaddr || sockaddr->sa_family != AF_INET)
		return false;
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &((const struct sockaddr_in *)sockaddr)->sin_addr, 4);
	return true;
}

static bool same_link(const union ibv_gid *a, const union ibv_gid *b, const struct ifaddrs *at)
{
	union ibv_gid mask;
	const bool v4 = at->ifa_netmask && at->ifa_netmask->sa_family == AF_INET;

	if (!address_of(at->ifa_netmask, &mask))
		return true;
	for (int i = v4 ? 12 : 0; i < 16; i++)
		if ((a->raw[i] ^ b->raw[i]) & mask.raw[i])
			return false;
	return v4 == !memcmp(b->raw, "\0\0\0\0\0\0\0\0\0\0\377\377", 12);
}

/* True also if the interface of the source is not known. */
static bool on_link(const union ibv_gid *source, const union ibv_gid *target)
{
	struct ifaddrs *all, *at;
	union ibv_gid own;
	bool answer = true;

	if (link_local(target) || !memcmp(source, target, sizeof(*source)) || getifaddrs(&all))
		return true;
	for (at = all; at; at = at->ifa_next)
		if (address_of(at->ifa_addr, &own) && !memcmp(&own, source, sizeof(own)))
			answer = same_link(source, target, at);
	freeifaddrs(all);
	return answer;
}

/* 127.0.0.0/8 or ::1: the program means its own host. */
static bool loopback(const union ibv_gid *gid)
{
	static const uint8_t v4[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 },
			     v6[16] = { [15] = 1 };

	return !memcmp(gid->raw, v4, sizeof(v4)) || !memcmp(gid->raw, v6, sizeof(v6));
}

void vb_check_route(struct ibv_context *context, const struct ibv_ah_attr *attr, uint8_t port,
		    const struct vb_stack *stack)
{
	union ibv_gid source;

	if (!attr->is_global || attr->grh.dgid.raw[0] == 0xff || loopback(&attr->grh.dgid) ||
	    vb_check_by_library(stack->depth ? stack->pc[0] : NULL) ||
	    VB_CHECK_REAL(ibv_query_gid)(context, port, attr->grh.sgid_index, &source))
		return;
	if (link_local(&source) && !link_local(&attr->grh.dgid))
		vb_report(
			VB_RULE_ROUTE, VB_CALLS({ "set by", stack }),
			"GID index %u is a link-local address, and the peer's GID is not: between "
			"hosts no answer comes back beyond the link.",
			attr->grh.sgid_index);
	else if (attr->grh.hop_limit <= 1 && !on_link(&source, &attr->grh.dgid))
		vb_report(VB_RULE_ROUTE, VB_CALLS({ "set by", stack }),
			  "The hop limit is %u, and the peer's address is in another subnet: the "
			  "first router drops the packets.",
			  attr->grh.hop_limit);
}

/* --- limits --- */

static void check_limit(const char *what, uint64_t asked, const struct vb_common_fact *fact,
			const struct vb_stack *stack)
{
	if (asked > fact->value)
		vb_report(VB_RULE_LIMIT, VB_CALLS({ "asked by", stack }),
			  "%s %llu: %s grants %llu (%s), and the program has not asked the device "
			  "with ibv_query_device.",
			  what, (unsigned long long)asked, fact->device,
			  (unsigned long long)fact->value, fact->name);
}

static bool limits_wanted(const struct vb_stack *stack)
{
	return !atomic_load(&queried) && !vb_check_by_library(stack->depth ? stack->pc[0] : NULL);
}

void vb_check_limits(const struct ibv_qp_init_attr_ex *attr, const struct vb_stack *stack)
{
	if (!limits_wanted(stack))
		return;
	check_limit("max_send_wr", attr->cap.max_send_wr, &vb_common_max_qp_wr, stack);
	check_limit("max_recv_wr", attr->cap.max_recv_wr, &vb_common_max_qp_wr, stack);
	check_limit("max_send_sge", attr->cap.max_send_sge, &vb_common_max_sge, stack);
	check_limit("max_recv_sge", attr->cap.max_recv_sge, &vb_common_max_sge, stack);
	check_limit("max_inline_data", attr->cap.max_inline_data, &vb_common_max_inline_data,
		    stack);
}

void vb_check_attributes(struct vb_object *qp, const struct ibv_qp_attr *attr, int mask,
			 const struct vb_stack *stack)
{
	const bool by_library = vb_check_by_library(stack->depth ? stack->pc[0] : NULL);

	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = attr->rnr_retry;
	if (by_library)
		return;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->no_reads = attr->max_rd_atomic ? NULL : stack;
	if (mask & IBV_QP_TIMEOUT)
		check_timeout(qp, attr->timeout, stack);
	if (mask & IBV_QP_RNR_RETRY)
		check_rnr(qp, stack);
	if (mask & IBV_QP_AV)
		vb_check_route(((struct ibv_qp *)qp->handle)->context, &attr->ah_attr,
			       attr->ah_attr.port_num, stack);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && limits_wanted(stack))
		check_limit("max_rd_atomic", attr->max_rd_atomic, &vb_common_max_qp_init_rd_atom,
			    stack);
}
