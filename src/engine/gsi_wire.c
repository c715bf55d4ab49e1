/* SPDX-License-Identifier: BSD-2-Clause */
/* MADs as packets for QP 1, out of and into this process's UDP port. */
#include "base/config.h"
#include "engine/gsi_impl.h"
#include "engine/wire_impl.h"
#include "nic/gid.h"

#include <errno.h>
#include <string.h>

enum {
	FLOOD_BURST = 4096,	  /* MADs that may come at once ... */
	FLOOD_PER_SECOND = 50000, /* ... and for long */
};

/* --- out --- */

static int transmit(struct vb_gsi *gsi, struct vb_roce *roce,
		    const struct vb_gsi_datagram *datagram)
{
	const struct vb_av av = {
		.sgid = datagram->src,
		.dgid = datagram->dst,
		.ifindex = (int)datagram->scope,
		.traffic_class = datagram->traffic_class,
		.grh = true,
		.local = vb_gid_is_own(&datagram->dst),
	};
	int err = vb_roce_mad(roce, &av, datagram->mad);

	vb_gsi_count(gsi, err ? VB_GSI_NO_WAY : VB_GSI_SENT);
	return err;
}

int vb_gsi_send_packet(struct vb_gsi *gsi, const struct vb_gsi_datagram *datagram)
{
	struct vb_wire *wire;
	int err = vb_engine_start(gsi->nic);

	if (err)
		return err;
	wire = vb_wire_get(gsi->nic, &err);
	if (!wire)
		return err;
	vb_wire_lock(wire);
	err = vb_wire_begin(wire) ? transmit(gsi, &wire->roce, datagram) : -ENOMEM;
	/* To another process of this host: the kernel may have given it to us, to be passed on, and
	 * this process may be about to end. */
	if (!err && vb_gid_is_own(&datagram->dst))
		vb_wire_bring_on(wire, false);
	vb_wire_unlock(wire);
	return err;
}

/* --- in --- */

static bool is_flood(struct vb_gsi *gsi, uint64_t now_ns)
{
	const uint64_t interval_ns = 1000000000u / FLOOD_PER_SECOND;
	uint64_t earned = (now_ns - gsi->tokens_ns) / interval_ns;

	if (earned) {
		gsi->tokens =
			earned > FLOOD_BURST - gsi->tokens ? FLOOD_BURST : gsi->tokens + earned;
		gsi->tokens_ns = now_ns;
	}
	if (!gsi->tokens)
		return true;
	gsi->tokens--;
	return false;
}

/* Whoever is on this host writes to its processes himself, unless he is told to make packets. */
static bool is_acceptable(const struct vb_packet *packet, const struct vb_arrival *arrival,
			  const union ibv_gid *src)
{
	if (packet->opcode != (VB_TRANSPORT_UD | VB_OP_SEND_ONLY) ||
	    packet->payload_length != VB_MAD_SIZE || packet->qkey != VB_GSI_QKEY)
		return false;
	if (arrival->peer || arrival->forwarded || arrival->fabric)
		return false;
	return !vb_gid_is_loopback(src) || vb_config_path() == VB_PATH_WIRE;
}

void vb_gsi_input(struct vb_wire *wire, const struct vb_packet *packet,
		  const struct vb_arrival *arrival)
{
	struct vb_gsi *gsi = vb_gsi_get(wire->nic);
	struct vb_gsi_datagram answer, datagram = {
		.magic = VB_GSI_MAGIC,
		.src = vb_flow_gid(arrival->flow, arrival->flow->src),
		.dst = vb_flow_gid(arrival->flow, arrival->flow->dst),
		.scope = arrival->scope,
		.src_port = arrival->flow->src_port,
		.traffic_class = arrival->traffic_class,
		.from_wire = 1,
	};

	if (!gsi)
		return;
	vb_gsi_count(gsi, VB_GSI_RECEIVED);
	if (!is_acceptable(packet, arrival, &datagram.src)) {
		vb_gsi_count(gsi, VB_GSI_REFUSED);
		return;
	}
	if (is_flood(gsi, wire->roce.now_ns)) {
		vb_gsi_count(gsi, VB_GSI_FLOOD);
		return;
	}
	memcpy(datagram.mad, packet->payload, sizeof(datagram.mad));
	if (vb_gsi_route(gsi, &datagram, &answer))
		transmit(gsi, &wire->roce, &answer);
}
