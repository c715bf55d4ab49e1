/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any messages on a slot socket, whose other end may be another user's process: the input is a list
 * of them. Through the port they come to QPs, none of which is connected over this socket.
 *
 *   fuzzer -> there [socket pair] peer -> port -> arrivals -> engine -> QPs of roce_stage.c
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../sim/sim.h"
#include "port/impl.h"
#include "roce_stage.h"
#include "wire/bytes.h"

enum {
	HEAD_LENGTH = 56, /* magic, lengths, ports, family, addresses */
	HOW_WELL_FORMED = 1,
	HOW_FORWARDED = 2,
	HOW_OWN_QP = 4,
	HOW_ICRC = 8,
	HOW_DESCRIPTOR = 16,
	HOW_HANG_UP = 32,
	MESSAGES_MAX = 32,
};

static struct vb_port *port;
static struct vb_peer *peer;
static struct vb_endpoint endpoint; /* of an address whose port another user holds */
static int outer, there = -1;
static struct stage stage;
static uint64_t sum;

static unsigned input(void *arg, const struct vb_arrival *arrival)
{
	(void)arg;
	fuzz_check(arrival->length && arrival->length <= VB_DATAGRAM_MAX);
	fuzz_check(arrival->forwarded ? !arrival->peer : arrival->peer == peer);
	for (uint32_t i = 0; i < arrival->length; i++)
		sum += arrival->bytes[i];
	if (arrival->peer) {
		/* Over another's socket nobody reaches a connected QP; datagrams come in. */
		struct vb_wired_counters before = vb_roce_counters(&stage.roce);
		struct vb_wired_counters after;
		uint32_t psn = stage.end[STAGE_RC].wired->resp.expected_psn;

		vb_roce_input(&stage.roce, arrival);
		after = vb_roce_counters(&stage.roce);
		fuzz_check(!memcmp(&before, &after, sizeof(before)));
		fuzz_check(psn == stage.end[STAGE_RC].wired->resp.expected_psn);
		return 1;
	}
	return vb_roce_input(&stage.roce, arrival);
}

static void peer_make(void)
{
	int ends[2];

	peer = vb_peer_new();
	fuzz_check(peer && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends));
	peer->socket = ends[0];
	peer->slot = stage.roce.nic->seg.head->slot % VB_SLOT_MAX + 1;
	atomic_store(&peer->state, VB_PEER_NO_PATH);
	there = ends[1];
	fuzz_check(!vb_port_adopt(port, peer));
}

static void open_port(void)
{
	static const uint8_t own[4] = { 10, 0, 0, 1 };

	if (!port) {
		outer = epoll_create1(EPOLL_CLOEXEC);
		port = vb_port_new(sim_nic(), outer, 0);
		fuzz_check(port);
		memcpy(endpoint.address.bytes, own, sizeof(own));
		endpoint.fd = -1;
		port->endpoints[port->endpoint_count++] = &endpoint;
	}
	if (there < 0)
		peer_make();
}

/* What was sent before is taken in first; then the service thread has the socket. */
static void hang_up(void)
{
	struct epoll_event event;
	bool returned = false;

	close(there);
	there = -1;
	while (vb_port_receive(port, false, 64, input, NULL))
		;
	while (epoll_wait(outer, &event, 1, 0) == 1 && !returned)
		returned = event.data.ptr == peer;
	fuzz_check(returned);
	epoll_ctl(outer, EPOLL_CTL_DEL, peer->socket, NULL);
	close(peer->socket);
	peer->socket = -1;
	vb_peer_put(peer);
}

static void mend_packet(uint8_t *packet, uint32_t length, uint8_t how, uint8_t which)
{
	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH)
		return;
	if (how & HOW_OWN_QP)
		vb_put24(packet + 5, stage.end[which % STAGE_QPS].qp->ibv.qp_num);
	if (how & HOW_ICRC)
		vb_icrc_put(&stage.back, 0, packet, length - VB_ICRC_LENGTH);
}

/* Makes a message of it that is looked at further; what is left of it is the fuzzer's. */
static void mend(uint8_t *bytes, uint32_t size, uint8_t how, uint8_t which)
{
	const uint64_t magic = VB_SLOT_PACKETS_MAGIC;
	uint32_t length = size - HEAD_LENGTH, segment;

	memcpy(&segment, bytes + 12, 4);
	segment = length ? segment % length + 1 : 1;
	memcpy(bytes, &magic, 8);
	memcpy(bytes + 8, &length, 4);
	memcpy(bytes + 12, &segment, 4);
	memcpy(bytes + 16, &stage.back.src_port, 2);
	memcpy(bytes + 18, &stage.back.dst_port, 2);
	bytes[20] = 0;
	bytes[21] = how & HOW_FORWARDED ? 1 : 0;
	memcpy(bytes + 24, stage.back.src, 16);
	memcpy(bytes + 40, stage.back.dst, 16);
	for (uint32_t at = 0; at < length; at += segment)
		mend_packet(bytes + HEAD_LENGTH + at, length - at < segment ? length - at : segment,
			    how, which++);
}

/* Descriptors that come along must not stay: the end of the pipe is seen. */
static void put(const uint8_t *bytes, size_t size, bool with_descriptor)
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)bytes, size };
	struct msghdr head = { .msg_iov = &iov, .msg_iovlen = 1 };
	int ends[2] = { -1, -1 };
	char byte;

	if (with_descriptor) {
		fuzz_check(!pipe2(ends, O_NONBLOCK | O_CLOEXEC));
		memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(int));
		head.msg_control = &control;
		head.msg_controllen = sizeof(control);
	}
	fuzz_check(sendmsg(there, &head, 0) == (ssize_t)size);
	if (with_descriptor)
		close(ends[1]);
	while (vb_port_receive(port, false, 64, input, NULL))
		;
	if (with_descriptor) {
		fuzz_check(read(ends[0], &byte, 1) == 0);
		close(ends[0]);
	}
}

/* how, size in two bytes, bytes. Returns what it took. */
static size_t message(const uint8_t *bytes, size_t length)
{
	uint8_t how = bytes[0];
	size_t size = vb_get16(bytes + 1), left = length - 3;
	uint8_t *copy;

	size = size < left ? size : left;
	if (!size) /* to a SEQPACKET socket that is its end */
		return 3;
	copy = malloc(size);
	fuzz_check(copy);
	memcpy(copy, bytes + 3, size);
	if (how & HOW_WELL_FORMED && size >= HEAD_LENGTH)
		mend(copy, (uint32_t)size, how, how >> 6);
	put(copy, size, how & HOW_DESCRIPTOR);
	free(copy);
	stage_wait_ns(&stage, 1000);
	if (how & HOW_HANG_UP) {
		hang_up();
		peer_make();
	}
	return 3 + size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	stage_open(&stage);
	open_port();
	for (unsigned i = 0; i < STAGE_QPS; i++)
		for (unsigned k = 0; k < 4; k++)
			stage_post_recv(&stage, i, 256 * k, 256);
	for (unsigned i = 0; i < MESSAGES_MAX && length > 3; i++) {
		size_t took = message(bytes, length);

		bytes += took;
		length -= took;
	}
	stage_close(&stage);
	return 0;
}
