/* SPDX-License-Identifier: BSD-2-Clause */
/* Explains packets that the kernel refuses to send: the QP only notices that no answer comes. */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "net/gid.h"
#include "port/impl.h"

static const char *reason_of(const struct vb_burst *burst, int err)
{
	const union ibv_gid src = vb_flow_gid(&burst->way->flow, burst->way->flow.src);

	vb_netif_snapshot_expire(); /* the change that is the reason may be a newer one */
	if (!vb_gid_is_own(&src))
		return "the source is no address of this host any more";
	if (err == EPERM)
		return "a firewall of this host forbids it";
	if (err == EACCES)
		return "a prohibit route of this host forbids it";
	if (err == EINVAL)
		return "a blackhole route of this host swallows them";
	return strerror(err);
}

void vb_port_explain_refused(struct vb_port *port, const struct vb_burst *burst, int err)
{
	uint32_t *told = &port->refused_qpns[burst->qpn % VB_REFUSED_QPNS];
	const struct vb_icrc_flow *flow = &burst->way->flow;
	char source[VB_GID_TEXT], destination[VB_GID_TEXT];
	union ibv_gid gid;

	if (!vb_config_explain() || *told == burst->qpn || err == EAGAIN || err == ENOBUFS)
		return;
	*told = burst->qpn;
	gid = vb_flow_gid(flow, flow->src);
	vb_gid_print(&gid, source);
	gid = vb_flow_gid(flow, flow->dst);
	vb_gid_print(&gid, destination);
	vb_explain_work("QP 0x%06x: packets from %s to %s do not leave: %s", burst->qpn, source,
			destination, reason_of(burst, err));
}
