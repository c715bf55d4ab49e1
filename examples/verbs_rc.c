/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, a reliable connection, and three ways to move data over it:
 *
 *   1. the server SENDs a message into a receive that the client posted;
 *   2. the client READs a message out of the server's memory;
 *   3. the client WRITEs a message into the server's memory.
 *
 * The processes exchange their addresses (memory address, key, QP number, LID, GID) over TCP. TCP
 * also keeps them in step: the server does not notice a READ or a WRITE.
 *
 *   verbs_rc [-d DEVICE] [-i PORT] [-g GID-INDEX] [-p TCP-PORT] [SERVER]
 *
 * Without SERVER the program is the server. A device with Ethernet link layer needs -g.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs_tcp.h"

enum { BUFFER_SIZE = 64 };

static const char sent[] = "a message by SEND", to_read[] = "a message to be READ",
		  written[] = "a message by WRITE";

static struct {
	const char *device, *server, *tcp_port;
	int ib_port, gid_index;
} options = { .tcp_port = "19875", .ib_port = 1, .gid_index = -1 };

/* The address of a side, for the other one; in network byte order on the way. */
struct place {
	uint64_t address;
	uint32_t rkey, qpn;
	uint16_t lid;
	uint8_t gid[16];
} __attribute__((packed));

static struct {
	int tcp;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char buffer[BUFFER_SIZE];
	struct place remote; /* in host byte order */
} here;

static void check(const char *what, int err)
{
	errno = err;
	if (err)
		die(what);
}

/* --- resources: device, PD, CQ, MR, QP --- */

static struct ibv_device *find_device(struct ibv_device **list)
{
	for (; *list; list++)
		if (!options.device || !strcmp(ibv_get_device_name(*list), options.device))
			return *list;
	fprintf(stderr, "no device%s%s\n", options.device ? " called " : "",
		options.device ? options.device : "");
	exit(1);
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list)
		die("ibv_get_device_list");
	here.context = ibv_open_device(find_device(list));
	if (!here.context)
		die("ibv_open_device");
	ibv_free_device_list(list); /* not before the device is open */
	check("ibv_query_port", ibv_query_port(here.context, (uint8_t)options.ib_port, &here.port));
}

static void create_resources(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1, /* every request makes a completion */
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	here.pd = ibv_alloc_pd(here.context);
	here.cq = ibv_create_cq(here.context, 2, NULL, NULL, 0);
	if (!here.pd || !here.cq)
		die("ibv_alloc_pd or ibv_create_cq");
	here.mr = ibv_reg_mr(here.pd, here.buffer, sizeof(here.buffer),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_WRITE);
	if (!here.mr)
		die("ibv_reg_mr");
	attr.send_cq = here.cq;
	attr.recv_cq = here.cq;
	here.qp = ibv_create_qp(here.pd, &attr);
	if (!here.qp)
		die("ibv_create_qp");
	printf("QP number 0x%06x, LID 0x%04x\n", here.qp->qp_num, here.port.lid);
}

/* --- the connection: INIT, RTR, RTS --- */

static void exchange_places(void)
{
	struct place mine = {
		.address = htobe64((uintptr_t)here.buffer),
		.rkey = htobe32(here.mr->rkey),
		.qpn = htobe32(here.qp->qp_num),
		.lid = htobe16(here.port.lid),
	};
	union ibv_gid gid = { 0 };

	if (options.gid_index >= 0 &&
	    ibv_query_gid(here.context, (uint8_t)options.ib_port, options.gid_index, &gid))
		die("ibv_query_gid");
	memcpy(mine.gid, gid.raw, sizeof(mine.gid));
	tcp_exchange(here.tcp, &mine, &here.remote, sizeof(mine));
	here.remote.address = be64toh(here.remote.address);
	here.remote.rkey = be32toh(here.remote.rkey);
	here.remote.qpn = be32toh(here.remote.qpn);
	here.remote.lid = be16toh(here.remote.lid);
	printf("peer: address 0x%llx, rkey 0x%08x, QP number 0x%06x, LID 0x%04x\n",
	       (unsigned long long)here.remote.address, here.remote.rkey, here.remote.qpn,
	       here.remote.lid);
}

static void to_init(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)options.ib_port,
		.pkey_index = 0,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	check("to INIT",
	      ibv_modify_qp(here.qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_ready_to_receive(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = here.remote.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = { .dlid = here.remote.lid, .port_num = (uint8_t)options.ib_port },
	};

	if (options.gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, here.remote.gid, sizeof(here.remote.gid));
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.sgid_index = (uint8_t)options.gid_index;
	}
	check("to RTR", ibv_modify_qp(here.qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER));
}

static void to_ready_to_send(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14, /* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7, /* for ever */
		.max_rd_atomic = 1,
	};

	check("to RTS",
	      ibv_modify_qp(here.qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* --- work --- */

static struct ibv_sge whole_buffer(void)
{
	return (struct ibv_sge){ (uintptr_t)here.buffer, BUFFER_SIZE, here.mr->lkey };
}

static void post_receive(void)
{
	struct ibv_sge sge = whole_buffer();
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	check("ibv_post_recv", ibv_post_recv(here.qp, &wr, &bad));
}

static void post_send(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = whole_buffer();
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

	if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = here.remote.address;
		wr.wr.rdma.rkey = here.remote.rkey;
	}
	check("ibv_post_send", ibv_post_send(here.qp, &wr, &bad));
}

static void wait_completion(void)
{
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(here.cq, 1, &wc)))
		;
	if (count < 0)
		die("ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void fill(const char *text)
{
	memset(here.buffer, 0, sizeof(here.buffer));
	strcpy(here.buffer, text);
}

/* Prints the text in the buffer, and fails if it is another than expected. */
static void expect(const char *text)
{
	printf("the buffer has: %.*s\n", BUFFER_SIZE, here.buffer);
	if (strncmp(here.buffer, text, BUFFER_SIZE)) {
		fprintf(stderr, "expected: %s\n", text);
		exit(1);
	}
}

static void connect_qps(void)
{
	exchange_places();
	to_init();
	if (options.server)
		post_receive(); /* before the server can send */
	to_ready_to_receive();
	to_ready_to_send();
	tcp_synchronize(here.tcp);
}

static void run_server(void)
{
	fill(sent);
	post_send(IBV_WR_SEND);
	wait_completion();
	fill(to_read);
	tcp_synchronize(here.tcp); /* the client may READ */
	tcp_synchronize(here.tcp); /* the client has READ and WRITten */
	expect(written);
}

static void run_client(void)
{
	wait_completion();
	expect(sent);
	tcp_synchronize(here.tcp);
	post_send(IBV_WR_RDMA_READ);
	wait_completion();
	expect(to_read);
	fill(written);
	post_send(IBV_WR_RDMA_WRITE);
	wait_completion();
	tcp_synchronize(here.tcp);
}

/* In reverse order: an object in use by another one cannot be destroyed. */
static void destroy_resources(void)
{
	check("ibv_destroy_qp", ibv_destroy_qp(here.qp));
	check("ibv_dereg_mr", ibv_dereg_mr(here.mr));
	check("ibv_destroy_cq", ibv_destroy_cq(here.cq));
	check("ibv_dealloc_pd", ibv_dealloc_pd(here.pd));
	if (ibv_close_device(here.context))
		die("ibv_close_device");
	close(here.tcp);
}

static void parse_options(int argc, char **argv)
{
	int letter;

	while ((letter = getopt(argc, argv, "d:i:g:p:")) != -1) {
		if (letter == 'd') {
			options.device = optarg;
		} else if (letter == 'i') {
			options.ib_port = atoi(optarg);
		} else if (letter == 'g') {
			options.gid_index = atoi(optarg);
		} else if (letter == 'p') {
			options.tcp_port = optarg;
		} else {
			fprintf(stderr, "usage: verbs_rc [-d DEVICE] [-i PORT] [-g GID-INDEX] "
					"[-p TCP-PORT] [SERVER]\n");
			exit(2);
		}
	}
	options.server = argv[optind];
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	open_device();
	here.tcp = tcp_meet(options.server, options.tcp_port);
	create_resources();
	connect_qps();
	if (options.server)
		run_client();
	else
		run_server();
	destroy_resources();
	printf("done\n");
	return 0;
}
