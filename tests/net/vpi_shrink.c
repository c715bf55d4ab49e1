/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection with a path MTU of 4096 goes on when the interfaces take less than that. Server and
 * client connect two RC QPs by LID and send each other messages; halfway the client runs the
 * command.
 *
 *   vpi_shrink -p PORT                     server
 *   vpi_shrink -p PORT -x COMMAND ADDRESS  client
 *
 * Exit status 0: every message arrived.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpi_pair.h"

enum { MESSAGES = 20, SIZE = 50000, PSN = 100 };

struct end {
	uint32_t lid, qpn;
};

static uint8_t buffer[2 * SIZE];

static void connect_qp(struct vpi *vpi, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qpn,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.min_rnr_timer = 1,
		.timeout = 18, /* a second, eight times */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .dlid = (uint16_t)peer->lid, .port_num = 1 },
	};

	vpi_connect(vpi, &attr, 0, 0);
}

/* Both send and receive: each message has its number in every byte. */
static void round_trip(struct vpi *vpi, int number)
{
	struct ibv_sge sge = { (uintptr_t)buffer, SIZE, vpi->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	memset(buffer, number, SIZE);
	vpi_must(!ibv_post_send(vpi->qp, &wr, &bad), "post_send");
	vpi_wait(vpi);
	vpi_wait(vpi);
	for (int i = 0; i < SIZE; i++)
		vpi_must(buffer[SIZE + i] == number, "a byte is wrong");
}

int main(int argc, char **argv)
{
	struct end self, peer;
	struct vpi vpi;

	vpi_open(&vpi, argc, argv, IBV_QPT_RC, buffer, sizeof(buffer));
	self = (struct end){ .lid = vpi.port.lid, .qpn = vpi.qp->qp_num };
	vpi_exchange(&vpi, &self, &peer, sizeof(self));
	connect_qp(&vpi, &peer);
	for (int i = 0; i < MESSAGES; i++) {
		if (vpi.client && i == MESSAGES / 2)
			vpi_must(!system(vpi.command), "the command");
		vpi_recv(&vpi, buffer + SIZE, SIZE);
		vpi_meet(&vpi);
		round_trip(&vpi, i);
	}
	vpi_meet(&vpi);
	puts("every message arrived");
	return 0;
}
