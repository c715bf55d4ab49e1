/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs step by step, from the list of devices to the clean-up, in one process: two QPs of one
 * device are connected to each other, and exchange messages.
 *
 *   verbs_steps [DEVICE [GID-INDEX]]
 *
 * Without a GID index the program takes the first IPv4 GID on Ethernet, and no GID on InfiniBand:
 * LIDs are enough there.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 1, SIZE = 4096, LEFT = 0, RIGHT = 1 };

static struct ibv_context *context;
static struct ibv_port_attr port;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr[2];
static char buffer[2][SIZE] __attribute__((aligned(8)));
static int gid_index = -1;

static void step(const char *what)
{
	static int number;

	printf("%2d. %s\n", ++number, what);
}

/* Calls that return an error number. */
static void must(const char *call, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", call, strerror(err));
	exit(1);
}

/* Calls that return NULL and set errno. */
static void *must_have(const char *call, void *object)
{
	must(call, object ? 0 : errno);
	return object;
}

static void open_device(const char *name)
{
	struct ibv_device **list, *device = NULL;

	step("get the list of devices");
	list = must_have("ibv_get_device_list", ibv_get_device_list(NULL));
	for (int i = 0; list[i] && !device; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			device = list[i];
	if (!device) {
		fprintf(stderr, "there is no device %s\n", name ? name : "at all");
		exit(1);
	}
	step("open one of them");
	context = must_have("ibv_open_device", ibv_open_device(device));
	printf("    %s\n", ibv_get_device_name(device));
	ibv_free_device_list(list);
}

static void choose_gid(void)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;

	for (int i = 0; i < port.gid_tbl_len && gid_index < 0; i++)
		if (!ibv_query_gid(context, PORT, i, &gid) && !memcmp(gid.raw, ipv4, sizeof(ipv4)))
			gid_index = i;
}

static void query(void)
{
	struct ibv_device_attr attr;

	step("ask the device and its port what they can do");
	must("ibv_query_device", ibv_query_device(context, &attr));
	must("ibv_query_port", ibv_query_port(context, PORT, &port));
	printf("    up to %d QPs, port is %s, LID %u\n", attr.max_qp,
	       ibv_port_state_str(port.state), port.lid);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		choose_gid();
}

static void create(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_ATOMIC;

	step("allocate a protection domain");
	pd = must_have("ibv_alloc_pd", ibv_alloc_pd(context));
	step("register memory");
	for (int i = LEFT; i <= RIGHT; i++)
		mr[i] = must_have("ibv_reg_mr", ibv_reg_mr(pd, buffer[i], SIZE, access));
	step("create a completion channel, and a completion queue that reports to it");
	channel = must_have("ibv_create_comp_channel", ibv_create_comp_channel(context));
	cq = must_have("ibv_create_cq", ibv_create_cq(context, 16, NULL, channel, 0));
	attr.send_cq = cq;
	attr.recv_cq = cq;
	step("create two queue pairs");
	for (int i = LEFT; i <= RIGHT; i++)
		qp[i] = must_have("ibv_create_qp", ibv_create_qp(pd, &attr));
	printf("    numbers 0x%06x and 0x%06x\n", qp[LEFT]->qp_num, qp[RIGHT]->qp_num);
}

static void to_init(struct ibv_qp *one)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_ATOMIC };

	must("to INIT",
	     ibv_modify_qp(one, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct ibv_qp *one, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = port.lid, .port_num = PORT },
	};

	if (gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
		if (ibv_query_gid(context, PORT, gid_index, &attr.ah_attr.grh.dgid))
			must("ibv_query_gid", errno);
	}
	must("to RTR", ibv_modify_qp(one, &attr,
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(struct ibv_qp *one)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1 };

	must("to RTS",
	     ibv_modify_qp(one, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void connect_qps(void)
{
	step("bring both to INIT, where receives can be posted");
	to_init(qp[LEFT]);
	to_init(qp[RIGHT]);
	step("tell each where the other is: ready to receive");
	to_rtr(qp[LEFT], qp[RIGHT]->qp_num);
	to_rtr(qp[RIGHT], qp[LEFT]->qp_num);
	step("ready to send");
	to_rts(qp[LEFT]);
	to_rts(qp[RIGHT]);
}

/* Sleeps until the queue's event, then takes one completion. */
static void wait_completion(enum ibv_wc_opcode opcode)
{
	struct ibv_cq *which;
	struct ibv_wc wc;
	void *unused;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, &wc))) {
		must("ibv_req_notify_cq", ibv_req_notify_cq(cq, 0));
		count = ibv_poll_cq(cq, 1, &wc); /* a completion may have come in between */
		if (count)
			break;
		must("ibv_get_cq_event", ibv_get_cq_event(channel, &which, &unused) ? errno : 0);
		ibv_ack_cq_events(which, 1);
	}
	if (count < 0 || wc.status != IBV_WC_SUCCESS || wc.opcode != opcode) {
		fprintf(stderr, "completion: %s, opcode %d\n", ibv_wc_status_str(wc.status),
			wc.opcode);
		exit(1);
	}
}

static void post(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)buffer[LEFT], length, mr[LEFT]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)buffer[RIGHT];
		wr.wr.atomic.rkey = mr[RIGHT]->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)buffer[RIGHT];
		wr.wr.rdma.rkey = mr[RIGHT]->rkey;
	}
	must("ibv_post_send", ibv_post_send(qp[LEFT], &wr, &bad));
}

static void expect(const char *text, const char *in)
{
	printf("    %s\n", in);
	if (strcmp(text, in)) {
		fprintf(stderr, "expected: %s\n", text);
		exit(1);
	}
}

static void send_message(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer[RIGHT], SIZE, mr[RIGHT]->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	step("post a receive on one side");
	must("ibv_post_recv", ibv_post_recv(qp[RIGHT], &wr, &bad));
	step("send a message from the other, and wait for both completions");
	strcpy(buffer[LEFT], "sent and received");
	post(IBV_WR_SEND, SIZE);
	/* The completions of the two queues come in any order. */
	for (int got = 0; got != 3;) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(cq, 1, &wc);

		if (count < 0 || (count && wc.status != IBV_WC_SUCCESS))
			must("completion", EIO);
		if (count)
			got |= wc.opcode == IBV_WC_RECV ? 2 : 1;
	}
	expect("sent and received", buffer[RIGHT]);
}

static void move_data(void)
{
	uint64_t counter = 41;

	send_message();
	step("write into the other side's memory, of which it notices nothing");
	strcpy(buffer[LEFT], "written");
	post(IBV_WR_RDMA_WRITE, SIZE);
	wait_completion(IBV_WC_RDMA_WRITE);
	expect("written", buffer[RIGHT]);
	step("read from it");
	strcpy(buffer[RIGHT], "to be read");
	post(IBV_WR_RDMA_READ, SIZE);
	wait_completion(IBV_WC_RDMA_READ);
	expect("to be read", buffer[LEFT]);
	step("add to a number there, atomically");
	memcpy(buffer[RIGHT], &counter, sizeof(counter));
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(counter));
	wait_completion(IBV_WC_FETCH_ADD);
	memcpy(&counter, buffer[RIGHT], sizeof(counter));
	printf("    it is %llu now\n", (unsigned long long)counter);
	must("ATOMIC_FETCH_AND_ADD", counter == 42 ? 0 : EIO);
}

static void clean_up(void)
{
	step("destroy everything, in the reverse order");
	for (int i = LEFT; i <= RIGHT; i++)
		must("ibv_destroy_qp", ibv_destroy_qp(qp[i]));
	must("ibv_destroy_cq", ibv_destroy_cq(cq));
	must("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel));
	for (int i = LEFT; i <= RIGHT; i++)
		must("ibv_dereg_mr", ibv_dereg_mr(mr[i]));
	must("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	must("ibv_close_device", ibv_close_device(context) ? errno : 0);
}

int main(int argc, char **argv)
{
	if (argc > 3) {
		fprintf(stderr, "usage: verbs_steps [DEVICE [GID-INDEX]]\n");
		return 2;
	}
	if (argc > 2)
		gid_index = atoi(argv[2]);
	open_device(argc > 1 ? argv[1] : NULL);
	query();
	create();
	connect_qps();
	move_data();
	clean_up();
	return 0;
}
