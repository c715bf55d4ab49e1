/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Throws packets that nobody asked for at a RoCE port, as fast as one thread can, until SIGTERM or
 * SIGINT; then says how many there were. Says as well that it has begun.
 *
 *   flood HOW SOURCE DESTINATION [QPN PSN]      IPv4 addresses
 *
 * HOW: garbage: random bytes; source: right in everything but its source address, which the caller
 * chooses; psn: far ahead and far behind; rkey: old requests with keys that do not exist; pkey: of
 * other partitions; qkey: datagrams with another Q_Key.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum {
	BATCH = 64,
	SHOWN = 4096, /* packets after which it is there, however little CPU it gets later */
	SOURCE_PORT = 0xc123,
	FAR = 1 << 21,
	PAYLOAD = 64,
	WRONG_KEY = 0x0badcafe,
};

struct target {
	uint32_t qpn, psn; /* of a packet that would be taken */
};

static struct {
	int socket;
	struct sockaddr_in to;
	struct vb_icrc_flow flow;
	struct target target;
	uint64_t random, sent;
} flood = { .random = 88172645463325252 };

static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static uint64_t random_next(void)
{
	flood.random ^= flood.random << 13;
	flood.random ^= flood.random >> 7;
	flood.random ^= flood.random << 17;
	return flood.random;
}

/* --- packets --- */

static uint32_t emit(const struct vb_packet *packet, uint8_t *out)
{
	size_t length = vb_packet_emit(packet, out);

	memset(out + length, 0xee, packet->payload_length);
	length += packet->payload_length;
	vb_icrc_put(&flood.flow, 0, out, length);
	return (uint32_t)length + VB_ICRC_LENGTH;
}

/* A request that the target would execute. */
static struct vb_packet request(uint8_t opcode, uint32_t payload_length)
{
	return (struct vb_packet){
		.opcode = opcode,
		.migreq = true,
		.ack_request = true,
		.pkey = 0xffff,
		.dest_qpn = flood.target.qpn,
		.psn = flood.target.psn,
		.rkey = WRONG_KEY,
		.dma_length = PAYLOAD,
		.qkey = WRONG_KEY,
		.src_qpn = 0x4242,
		.payload_length = payload_length,
	};
}

/* Bytes that nobody made: some of them look like packets up to the ICRC. */
static uint32_t garbage(uint8_t *out)
{
	uint32_t length = (uint32_t)(random_next() % 300);

	for (uint32_t i = 0; i < length; i += 8)
		vb_put64(out + i, random_next());
	if (length > VB_BTH_LENGTH && random_next() & 1) {
		out[0] = VB_OP_SEND_ONLY;
		out[1] = 0;
		vb_put24(out + 5, flood.target.qpn);
	}
	return length;
}

static uint32_t well_formed(uint8_t *out)
{
	static const uint8_t opcodes[] = { VB_OP_SEND_ONLY, VB_OP_WRITE_ONLY, VB_OP_ACKNOWLEDGE,
					   VB_OP_READ_REQUEST };
	uint8_t opcode = opcodes[random_next() % 4];
	bool carries = opcode == VB_OP_SEND_ONLY || opcode == VB_OP_WRITE_ONLY;
	struct vb_packet packet = request(opcode, carries ? PAYLOAD : 0);

	/* Near what is expected now: whoever watches the connection could do it. */
	packet.psn = vb_psn_add(packet.psn, (uint32_t)(random_next() % 4096));
	return emit(&packet, out);
}

static uint32_t other_pkey(uint8_t *out)
{
	struct vb_packet packet = request(VB_OP_SEND_ONLY, PAYLOAD);

	packet.pkey = (uint16_t)(random_next() % 0x7fff);
	packet.psn = vb_psn_add(packet.psn, (uint32_t)(random_next() % 4096));
	return emit(&packet, out);
}

static uint32_t other_psn(uint8_t *out)
{
	struct vb_packet packet = request(VB_OP_SEND_ONLY, PAYLOAD);
	uint32_t by = FAR + (uint32_t)(random_next() % FAR);

	packet.psn = vb_psn_add(packet.psn, random_next() & 1 ? by : VB_PSN_MASK + 1 - by);
	return emit(&packet, out);
}

static uint32_t other_rkey(uint8_t *out)
{
	static const uint8_t opcodes[] = { VB_OP_READ_REQUEST, VB_OP_WRITE_ONLY, VB_OP_FETCH_ADD };
	uint8_t opcode = opcodes[random_next() % 3];
	struct vb_packet packet = request(opcode, opcode == VB_OP_WRITE_ONLY ? PAYLOAD : 0);
	uint32_t by = 1 + (uint32_t)(random_next() % FAR);

	packet.psn = vb_psn_add(packet.psn, VB_PSN_MASK + 1 - by);
	return emit(&packet, out);
}

static uint32_t other_qkey(uint8_t *out)
{
	struct vb_packet packet = request(VB_TRANSPORT_UD | VB_OP_SEND_ONLY, PAYLOAD);

	return emit(&packet, out);
}

static const struct {
	const char *name;
	uint32_t (*make)(uint8_t *out);
} ways[] = {
	{ "garbage", garbage }, { "source", well_formed }, { "psn", other_psn },
	{ "rkey", other_rkey }, { "pkey", other_pkey },    { "qkey", other_qkey },
};

/* --- sending --- */

static struct sockaddr_in address(const char *text, uint16_t port, uint8_t *bytes)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &in.sin_addr) != 1) {
		fprintf(stderr, "flood: %s is no IPv4 address\n", text);
		exit(2);
	}
	memcpy(bytes, &in.sin_addr, 4);
	return in;
}

/* Not connected, and DF: the IP identification is 0 then, as the ICRC assumes. */
static void open_socket(const char *from, const char *to)
{
	const int discover = IP_PMTUDISC_DO;
	struct sockaddr_in own = address(from, SOURCE_PORT, flood.flow.src);

	flood.to = address(to, VB_UDP_PORT_ROCE, flood.flow.dst);
	flood.flow.src_port = SOURCE_PORT;
	flood.flow.dst_port = VB_UDP_PORT_ROCE;
	vb_icrc_flow_init(&flood.flow);
	flood.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (flood.socket < 0 ||
	    setsockopt(flood.socket, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) ||
	    bind(flood.socket, (struct sockaddr *)&own, sizeof(own))) {
		fprintf(stderr, "flood: %s: %s\n", from, strerror(errno));
		exit(1);
	}
}

static void send_batch(uint32_t (*make)(uint8_t *out))
{
	static uint8_t bytes[BATCH][VB_PACKET_MAX];
	struct mmsghdr heads[BATCH] = { 0 };
	struct iovec iov[BATCH];
	int sent;

	for (unsigned i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ bytes[i], make(bytes[i]) };
		heads[i].msg_hdr = (struct msghdr){ .msg_name = &flood.to,
						    .msg_namelen = sizeof(flood.to),
						    .msg_iov = &iov[i],
						    .msg_iovlen = 1 };
	}
	sent = sendmmsg(flood.socket, heads, BATCH, 0);
	flood.sent += sent > 0 ? (uint64_t)sent : 0;
}

int main(int argc, char **argv)
{
	unsigned way = 0;

	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: flood HOW SOURCE DESTINATION [QPN PSN]\n");
		return 2;
	}
	while (way < sizeof(ways) / sizeof(*ways) && strcmp(ways[way].name, argv[1]))
		way++;
	if (way == sizeof(ways) / sizeof(*ways)) {
		fprintf(stderr, "flood: %s?\n", argv[1]);
		return 2;
	}
	if (argc == 6)
		flood.target = (struct target){ (uint32_t)strtoul(argv[4], NULL, 0),
						(uint32_t)strtoul(argv[5], NULL, 0) };
	open_socket(argv[2], argv[3]);
	signal(SIGTERM, end);
	signal(SIGINT, end);
	while (!ended && flood.sent < SHOWN)
		send_batch(ways[way].make);
	printf("flood: is there\n");
	fflush(stdout);
	while (!ended)
		send_batch(ways[way].make);
	printf("flood: %" PRIu64 " packets\n", flood.sent);
	return 0;
}
