/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process of another user that says to a process of this host whatever it likes, through its slot
 * socket. Prints "sent" once the other side has read it, and stays until it is given a line.
 *
 *   stranger HOW QPN SOURCE DESTINATION      IPv4 addresses, those that the packet carries
 *
 * HOW: packet: an RC SEND; datagram: a UD SEND; forwarded: an RC SEND that is said to have come in
 * through the UDP port; segment: nothing, but what it was given of the other's memory is
 * overwritten.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "nic/nic.h"
#include "port/impl.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum { PAYLOAD = 64, QKEY = 0x01234567, SOURCE_PORT = 0xc123, PATIENCE_MS = 10000 };

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "stranger: %s\n", what);
	exit(1);
}

static struct vb_peer *attach(uint32_t slot)
{
	struct vb_nic *nic = vb_nic_get();
	struct vb_peer *peer;

	if (!nic || vb_engine_start(nic))
		fail("no NIC");
	vb_attach_start(nic, slot);
	peer = vb_nic_peer(nic, slot);
	for (int i = 0; peer && !vb_slot_is_attached(peer) && i < PATIENCE_MS; i++)
		usleep(1000);
	if (!peer || !vb_slot_is_attached(peer))
		fail("not attached");
	return peer;
}

static uint32_t make(const struct vb_icrc_flow *flow, bool datagram, uint32_t qpn, uint8_t *out)
{
	const struct vb_packet packet = {
		.opcode = VB_OP_SEND_ONLY | (datagram ? VB_TRANSPORT_UD : VB_TRANSPORT_RC),
		.migreq = true,
		.pkey = 0xffff,
		.dest_qpn = qpn,
		.qkey = QKEY,
		.src_qpn = 0x4242,
		.payload_length = PAYLOAD,
	};
	size_t length = vb_packet_emit(&packet, out);

	memset(out + length, 0xee, PAYLOAD);
	vb_icrc_put(flow, 0, out, length + PAYLOAD);
	return (uint32_t)(length + PAYLOAD + VB_ICRC_LENGTH);
}

static void await_read(const struct vb_peer *peer)
{
	int unread = 1;

	for (int i = 0; i < PATIENCE_MS && unread; i++) {
		if (ioctl(peer->socket, SIOCOUTQ, &unread))
			fail("SIOCOUTQ");
		usleep(1000);
	}
	if (unread)
		fail("nobody reads");
}

static void overwrite(const struct vb_peer *peer)
{
	for (uint32_t i = 0; i < atomic_load(&peer->map_count); i++)
		memset(peer->maps[i].base, 0xff, peer->maps[i].size);
}

int main(int argc, char **argv)
{
	struct vb_icrc_flow flow = { .src_port = SOURCE_PORT, .dst_port = VB_UDP_PORT_ROCE };
	struct vb_slot_message message;
	uint8_t bytes[VB_PACKET_MAX];
	struct vb_peer *peer;
	uint32_t qpn;
	char byte;

	if (argc != 5 || inet_pton(AF_INET, argv[3], flow.src) != 1 ||
	    inet_pton(AF_INET, argv[4], flow.dst) != 1)
		fail("usage: stranger HOW QPN SOURCE DESTINATION");
	qpn = (uint32_t)strtoul(argv[2], NULL, 0);
	vb_icrc_flow_init(&flow);
	message = vb_slot_message_of(&flow);
	message.length = message.segment = make(&flow, !strcmp(argv[1], "datagram"), qpn, bytes);
	message.forwarded = !strcmp(argv[1], "forwarded");
	peer = attach(qpn >> VB_QP_INDEX_BITS);
	if (!strcmp(argv[1], "segment"))
		overwrite(peer);
	else if (!vb_slot_write(peer, &message, bytes))
		fail("not written");
	await_read(peer);
	printf("sent\n");
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		fail("input");
	return 0;
}
