/* SPDX-License-Identifier: BSD-2-Clause */
/* MADs as packets for QP 1, out of this process's UDP port and into it. */
#include <errno.h>
#include <string.h>

#include "engine/wire/wire_impl.h"
#include "gsi/impl.h"
#include "net/gid.h"
#include "nic/choice.h"

/* MADs that may come at once, and per second: from all hosts together, and from one host. */
enum {
	BURST = 8192,
	PER_SECOND = 50000,
	BURST_OF_ONE = 4096,
	PER_SECOND_OF_ONE = 25000,
};

/* --- out --- */

static int send_mad(struct vb_gsi *gsi, struct vb_roce *roce,
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
	struct vb_lane *lane;
	int err = vb_engine_start(gsi->nic);

	if (err)
		return err;
	lane = vb_wire_get(gsi->nic, &err);
	if (!lane)
		return err;
	vb_wire_lock(lane);
	err = vb_wire_begin(lane) ? send_mad(gsi, &lane->roce, datagram) : -ENOMEM;
	/* A packet to another process of this host: the kernel may have given it to us. Forward it
	 * now, because this process may be about to end. */
	if (!err && vb_gid_is_own(&datagram->dst))
		vb_wire_bring_on(lane, false);
	vb_wire_unlock(lane);
	return err;
}

/* --- in --- */

static void earn_tokens(struct vb_gsi_tokens *tokens, uint64_t most, uint64_t per_second,
			uint64_t now_ns)
{
	uint64_t earned = (now_ns - tokens->earned_ns) / (1000000000u / per_second);

	if (!earned)
		return;
	tokens->count = earned > most - tokens->count ? most : tokens->count + earned;
	tokens->earned_ns = now_ns;
}

static struct vb_gsi_tokens *tokens_of(struct vb_gsi *gsi, const union ibv_gid *src)
{
	uint64_t hash = gsi->source_key, words[2];

	memcpy(words, src->raw, sizeof(words));
	/* Upper bits move down before the multiplication: addresses differ in the last bytes. */
	for (int i = 0; i < 2; i++) {
		hash ^= words[i];
		hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
		hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return &gsi->tokens_of[hash % VB_GSI_SOURCES];
}

/* Only the MADs of the host that sends too many are dropped. */
static bool is_flood(struct vb_gsi *gsi, const union ibv_gid *src, uint64_t now_ns)
{
	struct vb_gsi_tokens *all = &gsi->tokens, *one = tokens_of(gsi, src);

	earn_tokens(all, BURST, PER_SECOND, now_ns);
	earn_tokens(one, BURST_OF_ONE, PER_SECOND_OF_ONE, now_ns);
	if (!all->count || !one->count)
		return true;
	all->count--;
	one->count--;
	return false;
}

/*
 * SMPs, and no other MADs, are for QP 0. A sender on this host writes to names itself, so a packet
 * from loopback is forged; except with VERBENA_PATH=wire.
 */
static bool is_acceptable(const struct vb_packet *packet, const struct vb_arrival *arrival,
			  const union ibv_gid *src)
{
	const bool smp = packet->dest_qpn == VB_SMI_QPN;

	if (packet->opcode != (VB_TRANSPORT_UD | VB_OP_SEND_ONLY) ||
	    packet->payload_length != VB_MAD_SIZE || packet->qkey != (smp ? 0 : VB_GSI_QKEY) ||
	    packet->src_qpn != packet->dest_qpn || smp != vb_mad_is_smp(packet->payload[1]))
		return false;
	if (arrival->peer || arrival->forwarded || arrival->fabric)
		return false;
	return !vb_gid_is_loopback(src) || vb_choice_udp_to_self();
}

static void mad_input(struct vb_lane *lane, const struct vb_packet *packet,
		      const struct vb_arrival *arrival)
{
	struct vb_gsi *gsi = vb_gsi_get(lane->nic);
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
	if (is_flood(gsi, &datagram.src, lane->roce.now_ns)) {
		vb_gsi_count(gsi, VB_GSI_FLOOD);
		return;
	}
	memcpy(datagram.mad, packet->payload, sizeof(datagram.mad));
	if (vb_gsi_route(gsi, &datagram, &answer))
		send_mad(gsi, &lane->roce, &answer);
}

void vb_gsi_serve(void)
{
	vb_wire_give_mads(mad_input);
}
