/* SPDX-License-Identifier: BSD-2-Clause */
#include "vpi_pair.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void vpi_must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* --- TCP --- */

static void connect_to(struct vpi *vpi, const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	vpi->sock = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, address, &to.sin_addr);
	vpi_must(!connect(vpi->sock, (void *)&to, sizeof(to)), "connect");
}

static void accept_one(struct vpi *vpi, int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	vpi_must(!bind(listener, (void *)&any, sizeof(any)) && !listen(listener, 1), "listen");
	vpi->sock = accept(listener, NULL, NULL);
	vpi_must(vpi->sock >= 0, "accept");
}

void vpi_exchange(struct vpi *vpi, const void *mine, void *other, size_t size)
{
	vpi_must(write(vpi->sock, mine, size) == (ssize_t)size, "write");
	vpi_must(recv(vpi->sock, other, size, MSG_WAITALL) == (ssize_t)size, "the peer has gone");
}

void vpi_meet(struct vpi *vpi)
{
	char word = 'x', other;

	vpi_exchange(vpi, &word, &other, 1);
}

/* --- verbs --- */

static void open_infiniband(struct vpi *vpi)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		vpi->ctx = ibv_open_device(list[i]);
		if (vpi->ctx && !ibv_query_port(vpi->ctx, 1, &vpi->port) &&
		    vpi->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
			return;
		if (vpi->ctx)
			ibv_close_device(vpi->ctx);
	}
	vpi_must(false, "no InfiniBand device");
}

static void make_qp(struct vpi *vpi, enum ibv_qp_type type, void *buffer, size_t size)
{
	struct ibv_qp_init_attr init = { .qp_type = type,
					 .sq_sig_all = 1,
					 .cap = { 8, 8, 1, 1, 0 } };

	open_infiniband(vpi);
	vpi->pd = ibv_alloc_pd(vpi->ctx);
	vpi->cq = ibv_create_cq(vpi->ctx, 32, NULL, NULL, 0);
	vpi_must(vpi->pd && vpi->cq, "alloc_pd, create_cq");
	vpi->mr = ibv_reg_mr(vpi->pd, buffer, size, IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = vpi->cq;
	vpi->qp = vpi->mr ? ibv_create_qp(vpi->pd, &init) : NULL;
	vpi_must(vpi->qp != NULL, "reg_mr, create_qp");
}

void vpi_open(struct vpi *vpi, int argc, char **argv, enum ibv_qp_type type, void *buffer,
	      size_t size)
{
	int option, port = 18515;

	*vpi = (struct vpi){ .command = "true" };
	while ((option = getopt(argc, argv, "p:x:")) != -1) {
		if (option == 'p')
			port = atoi(optarg);
		else if (option == 'x')
			vpi->command = optarg;
		else
			exit(2);
	}
	vpi->client = argv[optind] != NULL;
	make_qp(vpi, type, buffer, size);
	if (vpi->client)
		connect_to(vpi, argv[optind], port);
	else
		accept_one(vpi, port);
}

void vpi_modify(struct vpi *vpi, struct ibv_qp_attr *attr, int mask, const char *what)
{
	vpi_must(!ibv_modify_qp(vpi->qp, attr, mask), what);
}

void vpi_connect(struct vpi *vpi, struct ibv_qp_attr *attr, int with_rtr, int with_rts)
{
	attr->qp_state = IBV_QPS_INIT;
	vpi_modify(vpi, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		   "INIT");
	attr->qp_state = IBV_QPS_RTR;
	vpi_modify(vpi, attr,
		   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | with_rtr,
		   "RTR");
	attr->qp_state = IBV_QPS_RTS;
	vpi_modify(vpi, attr,
		   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | with_rts,
		   "RTS");
}

void vpi_recv(struct vpi *vpi, void *to, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)to, length, vpi->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	vpi_must(!ibv_post_recv(vpi->qp, &wr, &bad), "post_recv");
}

struct ibv_wc vpi_wait(struct vpi *vpi)
{
	const time_t until = time(NULL) + VPI_DEADLINE_S;
	struct ibv_wc wc;

	while (ibv_poll_cq(vpi->cq, 1, &wc) < 1)
		vpi_must(time(NULL) < until, "nothing completes");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}
