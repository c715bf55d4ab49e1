/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection with an alternate path loses the primary one under way. Server and client connect
 * two RC QPs by LID and arm their alternate paths; then the client runs the command that cuts the
 * primary path, and both go on sending.
 *
 *   vpi_migrate -p PORT                     server
 *   vpi_migrate -p PORT -x COMMAND ADDRESS  client
 *
 * Exit status 0: every message arrived, in order, and this end was told of its migration.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpi_pair.h"

enum { MESSAGES = 40, CUT_AT = 20, ALT_SL = 1, SIZE = 5000, PSN = 100 };

struct end {
	uint32_t lid, qpn;
};

static uint8_t buffer[2 * SIZE];

static void connect_qp(struct vpi *vpi, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.min_rnr_timer = 1,
		.timeout = 12, /* 67 ms of retries */
		.retry_cnt = 3,
		.rnr_retry = 7,
		.ah_attr = { .dlid = (uint16_t)peer->lid, .port_num = 1 },
		.alt_ah_attr = { .dlid = (uint16_t)peer->lid, .port_num = 1, .sl = ALT_SL },
		.alt_port_num = 1,
		.alt_timeout = 18,
		.path_mig_state = IBV_MIG_REARM,
	};

	vpi_connect(vpi, &attr, IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE);
}

static void send_message(struct vpi *vpi, int number)
{
	struct ibv_sge sge = { (uintptr_t)buffer, SIZE, vpi->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	memset(buffer, number, SIZE);
	vpi_must(!ibv_post_send(vpi->qp, &wr, &bad), "post_send");
}

/* Both send and receive: each message has its number in every byte. */
static void round_trip(struct vpi *vpi, int number)
{
	send_message(vpi, number);
	vpi_wait(vpi);
	vpi_wait(vpi);
	for (int i = 0; i < SIZE; i++)
		vpi_must(buffer[SIZE + i] == number, "a byte is wrong");
	vpi_recv(vpi, buffer + SIZE, SIZE);
	vpi_meet(vpi); /* the next one finds it posted */
}

static enum ibv_mig_state mig_state(struct vpi *vpi)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	vpi_must(!ibv_query_qp(vpi->qp, &attr, IBV_QP_PATH_MIG_STATE, &init), "query_qp");
	return attr.path_mig_state;
}

static void cut(struct vpi *vpi)
{
	vpi_must(mig_state(vpi) == IBV_MIG_ARMED, "it is not armed");
	if (vpi->client)
		vpi_must(!system(vpi->command), vpi->command);
	vpi_meet(vpi);
}

static void take_event(struct vpi *vpi)
{
	struct pollfd fd = { .fd = vpi->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	vpi_must(poll(&fd, 1, VPI_DEADLINE_S * 1000) == 1, "no event");
	vpi_must(!ibv_get_async_event(vpi->ctx, &event), "get_async_event");
	printf("event: %s\n", ibv_event_type_str(event.event_type));
	vpi_must(event.event_type == IBV_EVENT_PATH_MIG && event.element.qp == vpi->qp,
		 "the event is not IBV_EVENT_PATH_MIG of the QP");
	ibv_ack_async_event(&event);
}

int main(int argc, char **argv)
{
	struct end self, peer;
	struct vpi vpi;

	vpi_open(&vpi, argc, argv, IBV_QPT_RC, buffer, sizeof(buffer));
	self = (struct end){ vpi.port.lid, vpi.qp->qp_num };
	vpi_exchange(&vpi, &self, &peer, sizeof(self));
	connect_qp(&vpi, &peer);
	vpi_recv(&vpi, buffer + SIZE, SIZE);
	vpi_meet(&vpi);
	for (int i = 1; i <= MESSAGES; i++) {
		if (i == CUT_AT)
			cut(&vpi);
		round_trip(&vpi, i);
	}
	take_event(&vpi);
	vpi_must(mig_state(&vpi) == IBV_MIG_MIGRATED, "it has not migrated");
	vpi_meet(&vpi);
	puts("every message arrived");
	return 0;
}
