/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams by LID: the client sends one without a GRH and one with, short ones and such as the
 * port's MTU allows, which is more than that of the interface. The server answers each from its
 * completion alone. Both look at what the completions say.
 *
 *   vpi_datagram -p PORT                       server
 *   vpi_datagram -p PORT [-x COMMAND] ADDRESS  client, which runs the command halfway
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpi_pair.h"

enum { QKEY = 0x11111111, SL = 6, SHORT = 700, LONG = 4096, GRH = 40, TRIES = 20 };

struct end {
	uint32_t lid, qpn;
	union ibv_gid gid;
};

static uint8_t buffer[2 * LONG + GRH], *const arrived = buffer + LONG;
static uint32_t size; /* of this one */

static void ready(struct vpi *vpi)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	vpi_modify(vpi, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		   "INIT");
	attr.qp_state = IBV_QPS_RTR;
	vpi_modify(vpi, &attr, IBV_QP_STATE, "RTR");
	attr.qp_state = IBV_QPS_RTS;
	vpi_modify(vpi, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

static void send_datagram(struct vpi *vpi, struct ibv_ah *ah, uint32_t qpn, int number)
{
	struct ibv_sge sge = { (uintptr_t)buffer, size, vpi->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY } };
	struct ibv_send_wr *bad;

	memset(buffer, number, size);
	vpi_must(!ibv_post_send(vpi->qp, &wr, &bad), "post_send");
}

static void check(const struct ibv_wc *wc, const struct end *peer, bool grh, int number)
{
	vpi_must(wc->opcode == IBV_WC_RECV && wc->byte_len == GRH + size, "length");
	vpi_must(wc->src_qp == peer->qpn, "src_qp");
	vpi_must(wc->slid == peer->lid, "slid");
	vpi_must(wc->sl == SL, "sl");
	vpi_must(!!(wc->wc_flags & IBV_WC_GRH) == grh, "IBV_WC_GRH");
	for (uint32_t i = 0; i < size; i++)
		vpi_must(arrived[GRH + i] == number, "a byte is wrong");
}

/* Takes the completions of a send and a receive, in any order. */
static struct ibv_wc both(struct vpi *vpi)
{
	struct ibv_wc one = vpi_wait(vpi), two = vpi_wait(vpi);

	return one.opcode == IBV_WC_RECV ? one : two;
}

static void ask(struct vpi *vpi, const struct end *peer, bool grh)
{
	struct ibv_ah_attr attr = { .dlid = (uint16_t)peer->lid,
				    .sl = SL,
				    .port_num = 1,
				    .is_global = grh,
				    .grh = { .dgid = peer->gid, .hop_limit = 9 } };
	struct ibv_ah *ah = ibv_create_ah(vpi->pd, &attr);
	struct ibv_wc wc;

	vpi_must(ah != NULL, "create_ah");
	send_datagram(vpi, ah, peer->qpn, 1 + grh);
	wc = both(vpi);
	check(&wc, peer, grh, 3 + grh);
	vpi_must(!ibv_destroy_ah(ah), "destroy_ah");
}

static void answer(struct vpi *vpi, const struct end *peer, bool grh)
{
	struct ibv_wc wc = vpi_wait(vpi);
	struct ibv_ah *ah;

	check(&wc, peer, grh, 1 + grh);
	ah = ibv_create_ah_from_wc(vpi->pd, &wc, (struct ibv_grh *)arrived, 1);
	vpi_must(ah != NULL, "create_ah_from_wc");
	send_datagram(vpi, ah, wc.src_qp, 3 + grh);
	vpi_wait(vpi);
	vpi_must(!ibv_destroy_ah(ah), "destroy_ah");
}

int main(int argc, char **argv)
{
	struct end self, peer;
	struct vpi vpi;

	vpi_open(&vpi, argc, argv, IBV_QPT_UD, buffer, sizeof(buffer));
	ready(&vpi);
	self = (struct end){ .lid = vpi.port.lid, .qpn = vpi.qp->qp_num };
	vpi_must(!ibv_query_gid(vpi.ctx, 1, 0, &self.gid), "query_gid");
	for (int i = 0; i < TRIES; i++) {
		size = i & 2 ? LONG : SHORT;
		vpi_recv(&vpi, arrived, GRH + LONG);
		if (vpi.client && i == TRIES / 2)
			vpi_must(!system(vpi.command), "the command");
		vpi_exchange(&vpi, &self, &peer, sizeof(self));
		if (vpi.client)
			ask(&vpi, &peer, i & 1);
		else
			answer(&vpi, &peer, i & 1);
	}
	vpi_meet(&vpi);
	puts("every datagram was answered");
	return 0;
}
