/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs: who may have them, what they send, what they receive. */
#include "ct_raw.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/capability.h>

/* ---- objects --------------------------------------------------------------------------------- */

static void give_up_net_raw(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	CT_EQ(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_NET_RAW);
	CT_EQ(syscall(SYS_capset, &header, data), 0);
}

static struct ibv_qp_init_attr init_of(struct ct *t)
{
	struct ibv_cq *cq = ct_object(t->near, t->near->scq);

	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};
}

static void needs_the_right(struct ct *t)
{
	struct ibv_qp_init_attr init = init_of(t);

	give_up_net_raw();
	for (int i = 0; i < 3; i++)
		CT_NULL(ibv_create_qp(ct_object(t->near, t->near->pd), &init), EPERM);
}

static void states(struct ct *t)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init = init_of(t), told;
	struct raw_box box;

	raw_open(t, &box, 0);
	CT_EQ(ibv_query_qp(box.qp, &attr, IBV_QP_STATE, &told), 0);
	CT_EQ(attr.qp_state, IBV_QPS_RTS);
	CT_EQ(told.qp_type, IBV_QPT_RAW_PACKET);
	CT_TRUE(told.cap.max_send_wr >= init.cap.max_send_wr);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET };
	CT_EQ(ibv_modify_qp(box.qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	CT_ERROR(ibv_modify_qp(box.qp, &attr, IBV_QP_STATE), EINVAL); /* no port */
	attr.port_num = 2;
	CT_ERROR(ibv_modify_qp(box.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	attr.port_num = 1;
	CT_ERROR(ibv_modify_qp(box.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
	raw_to_rts(box.qp);
	raw_close(&box);
}

/* ---- sending --------------------------------------------------------------------------------- */

static enum ibv_wc_status fails(struct raw_box *box, struct ibv_send_wr *wr)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->wr_id = 77;
	CT_EQ(ibv_post_send(box->qp, wr, &bad), 0);
	wc = raw_wait(box->cq);
	CT_EQ(wc.wr_id, 77);
	/* Only sending failed: it goes on from SQE. */
	CT_EQ(ibv_modify_qp(box->qp, &attr, IBV_QP_STATE), 0);
	return wc.status;
}

static void bad_sends(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_sge sge = { t->near->base, 13, t->near->mr.lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ibv_flow *flow;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	flow = raw_flow(&b, &rule);
	CT_EQ(fails(&a, &wr), IBV_WC_LOC_LEN_ERR); /* shorter than a header */
	sge.length = 70000;
	CT_EQ(fails(&a, &wr), IBV_WC_LOC_LEN_ERR);
	sge.length = 100;
	sge.lkey ^= 0x100;
	CT_EQ(fails(&a, &wr), IBV_WC_LOC_PROT_ERR);
	sge.lkey ^= 0x100;
	wr.opcode = IBV_WR_RDMA_WRITE;
	CT_EQ(fails(&a, &wr), IBV_WC_LOC_QP_OP_ERR);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = 1 << 20;
	CT_EQ(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	CT_EQ(ibv_destroy_flow(flow), 0);
	flow = raw_flow(&b, &rule);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 1);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&a);
	raw_close(&b);
}

/* Only the upper limit can be tested: a busy machine may always be slower. */
static void keeps_to_its_rate(struct ct *t)
{
	enum { KBPS = 2000, COUNT = 60, BURST = 1000 };
	const double least_s = (COUNT * RAW_LENGTH - BURST - RAW_LENGTH) * 8.0 / (KBPS * 1e3);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .rate_limit = KBPS };
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = KBPS, .max_burst_sz = BURST };
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_qp_init_attr init;
	struct ibv_flow *flow;
	struct raw_box a, b;
	double start_s;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	CT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0);
	CT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
	CT_EQ(attr.rate_limit, KBPS);
	flow = raw_flow(&b, &rule);
	CT_EQ(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	start_s = ct_now_s();
	for (int i = 0; i < COUNT; i++)
		raw_send(&a, &frame, 0);
	CT_TRUE(ct_now_s() - start_s > least_s);
	CT_EQ(raw_count(&b, frame.mark), COUNT);
	limit = (struct ibv_qp_rate_limit_attr){ 0 };
	CT_EQ(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 1);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&a);
	raw_close(&b);
}

/* What the interface takes in one frame: its MTU and an Ethernet header. */
static uint32_t interface_takes(struct ct *t)
{
	struct ibv_gid_entry entry;
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), err;

	CT_EQ(ibv_query_gid_ex(ct_context(t->near), 1, 0, &entry, 0), 0);
	CT_TRUE(if_indextoname(entry.ndev_ifindex, request.ifr_name) != NULL);
	err = ioctl(fd, SIOCGIFMTU, &request);
	close(fd);
	CT_EQ(err, 0);
	return (uint32_t)request.ifr_mtu + 14;
}

/* Only a VLAN tag may make a frame longer than the MTU, wherever it is for. */
static void longer_than_the_mtu(struct ct *t)
{
	const uint32_t most = interface_takes(t);
	struct ibv_sge sge = { t->near->base + RAW_SEND_AT, most, t->near->mr.lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND,
					.sg_list = &sge,
					.num_sge = 1,
					.send_flags = IBV_SEND_SIGNALED };
	struct raw_frame frame = raw_frame(2), tagged = frame;
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_flow *flow;
	uint8_t *at;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	at = (uint8_t *)(uintptr_t)sge.addr;
	memset(at, 0, most + 5);
	for (int there = 0; there < 2; there++) { /* for nobody; for a QP of this process */
		flow = there ? raw_flow(&b, &rule) : NULL;
		raw_build(&frame, at);
		sge.length = most;
		CT_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		CT_EQ(raw_wait(a.cq).status, IBV_WC_SUCCESS);
		for (uint32_t more = 1; more <= 4; more++) {
			sge.length = most + more;
			CT_EQ(fails(&a, &wr), IBV_WC_LOC_LEN_ERR);
		}
		tagged.vlan = 7;
		raw_build(&tagged, at);
		wr.wr_id = 3;
		CT_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
		CT_EQ(raw_wait(a.cq).status, IBV_WC_SUCCESS);
		if (flow)
			CT_EQ(ibv_destroy_flow(flow), 0);
	}
	raw_close(&a);
	raw_close(&b);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static uint32_t longest(const struct ct *t)
{
	uint32_t length = (128u << t->near->port.active_mtu) + 14;

	return length < RAW_ROOM ? length : RAW_ROOM;
}

static void arrives_as_sent(struct ct *t)
{
	/* The last one is more than any packet of RoCE on the interface, less its headers. */
	const uint16_t lengths[] = { 18, 60, 61, 300, (uint16_t)longest(t) };
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b, other;
	struct ibv_flow *flow;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	raw_open(t, &other, 2);
	raw_send(&a, &frame, 0); /* no rule yet: nobody's */
	flow = raw_flow(&b, &rule);
	for (int i = 0; i < CT_COUNT(lengths); i++) {
		uint8_t wanted[RAW_ROOM];
		const uint8_t *bytes;
		struct ibv_wc wc;

		frame.length = lengths[i];
		raw_build(&frame, wanted);
		raw_send(&a, &frame, lengths[i] <= 128 ? IBV_SEND_INLINE : 0);
		CT_TRUE(raw_got(&b, frame.mark, &wc, &bytes));
		CT_EQ(wc.byte_len, lengths[i]);
		CT_EQ(wc.qp_num, b.qp->qp_num);
		CT_EQ(memcmp(bytes, wanted, lengths[i]), 0);
		CT_EQ(raw_count(&b, frame.mark), 0);
	}
	CT_EQ(raw_count(&other, frame.mark), 0);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 0);
	raw_close(&a);
	raw_close(&b);
	raw_close(&other);
}

/* A frame for which there is no receive, or a short one, is gone, and the next one is not. */
static void without_room(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_flow *flow;
	struct ibv_wc wc;
	int count = 0;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	flow = raw_flow(&b, &rule);
	for (int i = 0; i < RAW_DEPTH + 10; i++)
		raw_send(&a, &frame, 0);
	while (raw_poll(b.cq, &wc) == 1)
		count++;
	CT_EQ(count, RAW_DEPTH);
	raw_send(&a, &frame, 0);
	CT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
	{
		struct ibv_sge sge = { t->near->base + b.at, RAW_LENGTH - 1, t->near->mr.lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 };

		CT_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
		raw_send(&a, &frame, 0);
		CT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
		frame.length = RAW_LENGTH - 1;
		raw_send(&a, &frame, 0);
		CT_EQ(raw_wait(b.cq).wr_id, 5);
	}
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&a);
	raw_close(&b);
}

/* ---- checksums ------------------------------------------------------------------------------- */

static uint16_t sum_of(const uint8_t *at, uint32_t length, uint32_t sum)
{
	for (uint32_t i = 0; i < length; i++)
		sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static bool sums_are_right(const uint8_t *frame, bool v6, uint8_t proto, uint32_t length)
{
	const uint8_t *ip = frame + 14, *l4 = ip + (v6 ? 40 : 20);
	uint32_t l4_length = length - 14 - (v6 ? 40 : 20), addresses = v6 ? 32 : 8;
	uint32_t pseudo = sum_of(v6 ? ip + 8 : ip + 12, addresses, proto + l4_length);

	return (v6 || sum_of(ip, 20, 0) == 0xffff) && sum_of(l4, l4_length, pseudo) == 0xffff;
}

static void checksums(struct ct *t)
{
	static const struct {
		uint16_t type;
		uint8_t proto;
		uint16_t length;
	} rows[] = {
		{ RAW_IPV4, IPPROTO_UDP, 100 },
		{ RAW_IPV4, IPPROTO_TCP, 101 },
		{ RAW_IPV6, IPPROTO_UDP, 151 },
		{ RAW_IPV6, IPPROTO_TCP, 260 },
	};
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_flow *flow;
	struct ibv_wc wc;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	flow = raw_flow(&b, &rule);
	for (int i = 0; i < CT_COUNT(rows); i++) {
		bool v6 = rows[i].type == RAW_IPV6;
		const uint8_t *bytes;

		frame.type = rows[i].type;
		frame.proto = rows[i].proto;
		frame.length = rows[i].length;
		frame.src_ip[0] = 10;
		frame.dst_ip[3] = 7;
		frame.src_port = 1234;
		raw_send(&a, &frame, IBV_SEND_IP_CSUM);
		CT_TRUE(raw_got(&b, frame.mark, &wc, &bytes));
		CT_TRUE(sums_are_right(bytes, v6, frame.proto, frame.length));
		CT_TRUE(wc.wc_flags & IBV_WC_IP_CSUM_OK);
		raw_send(&a, &frame, 0); /* as it is: zeros */
		CT_TRUE(raw_got(&b, frame.mark, &wc, &bytes));
		CT_TRUE(!sums_are_right(bytes, v6, frame.proto, frame.length));
		CT_TRUE(!(wc.wc_flags & IBV_WC_IP_CSUM_OK));
	}
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&a);
	raw_close(&b);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Gives up what it inherited, and has raw QPs of its own; the failed step is its exit status. */
static int child(struct ct *t, struct raw_box *inherited, struct ibv_flow *flow)
{
	struct ibv_pd *pd = ibv_alloc_pd(ct_context(t->near));
	struct ibv_cq *cq = ibv_create_cq(ct_context(t->near), 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = init_of(t);
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_qp *qp;
	struct ibv_flow *own;

	init.send_cq = init.recv_cq = cq;
	if (ibv_create_flow(inherited->qp, &rule.attr) || errno != EINVAL)
		return 1;
	if (ibv_destroy_flow(flow) || ibv_destroy_qp(inherited->qp))
		return 2;
	qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;
	own = qp ? ibv_create_flow(qp, &rule.attr) : NULL;
	if (!own || !ibv_destroy_qp(qp) || ibv_destroy_flow(own) || ibv_destroy_qp(qp))
		return 3;
	return ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ? 4 : 0;
}

static void survives_fork(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct raw_box a, b;
	struct ibv_flow *flow;
	int status = -1;
	pid_t pid;

	raw_open(t, &a, 0);
	raw_open(t, &b, 1);
	flow = raw_flow(&b, &rule);
	raw_send(&a, &frame, 0);
	pid = fork();
	CT_TRUE(pid >= 0);
	if (!pid) {
		alarm(CT_DEADLINE_MS / 1000);
		_exit(child(t, &b, flow));
	}
	CT_EQ(waitpid(pid, &status, 0), pid);
	CT_EQ(status, 0);
	raw_send(&a, &frame, 0);
	CT_EQ(raw_count(&b, frame.mark), 2);
	CT_EQ(ibv_destroy_flow(flow), 0);
	raw_close(&a);
	raw_close(&b);
}

/* ---- between ends ---------------------------------------------------------------------------- */

static void far_open(struct ct *t, struct ct_qp *qp)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int handle = ct_qp_create(t->far, &init, t->far->pd, t->far->scq, t->far->rcq, 0, qp);

	if (handle == -EPERM)
		ct_skip("raw packet QPs need CAP_NET_RAW");
	CT_TRUE(handle > 0);
	CT_EQ(ct_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	CT_EQ(ct_to_state(qp, IBV_QPS_RTR), 0);
	CT_EQ(ct_to_state(qp, IBV_QPS_RTS), 0);
}

static void far_send(struct ct *t, const struct ct_qp *qp, const struct raw_frame *frame)
{
	uint64_t bytes[RAW_LENGTH / 8];
	struct ibv_sge sge = ct_sge(t->far, 0, raw_build(frame, (uint8_t *)bytes));
	struct ibv_send_wr wr = { .wr_id = 3,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	for (unsigned i = 0; i < RAW_LENGTH / 8; i++)
		ct_poke(t->far, 8 * i, bytes[i]);
	ct_post(qp, &wr);
	ct_expect(t->far, t->far->scq, 3, IBV_WC_SUCCESS);
}

/* The one that waits sleeps: an event has to wake it. */
static void from_the_other_end(struct ct *t)
{
	struct raw_frame frame = raw_frame(2);
	struct raw_rule rule = raw_rule_for(&frame);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ct_context(t->near));
	struct ibv_cq *cq, *fired;
	struct raw_box box;
	struct ibv_flow *flow;
	struct ct_qp far;
	struct ibv_wc wc;
	void *context;

	raw_open(t, &box, 2);
	far_open(t, &far);
	/* The same QP again, with a CQ that has a channel. */
	CT_EQ(ibv_destroy_qp(box.qp), 0);
	CT_EQ(ibv_destroy_cq(box.cq), 0);
	CT_TRUE(channel != NULL);
	cq = ibv_create_cq(ct_context(t->near), 100, NULL, channel, 0);
	CT_TRUE(cq != NULL);
	{
		struct ibv_qp_init_attr init = init_of(t);

		init.send_cq = init.recv_cq = box.cq = cq;
		box.qp = ibv_create_qp(ct_object(t->near, t->near->pd), &init);
		CT_TRUE(box.qp != NULL);
	}
	raw_to_rts(box.qp);
	raw_post(t, box.qp, box.at, 0);
	flow = raw_flow(&box, &rule);
	for (int i = 0; i < 5; i++) {
		CT_EQ(ibv_req_notify_cq(cq, 0), 0);
		far_send(t, &far, &frame);
		CT_EQ(ibv_get_cq_event(channel, &fired, &context), 0);
		CT_TRUE(fired == cq);
		ibv_ack_cq_events(cq, 1);
		CT_TRUE(raw_got(&box, frame.mark, &wc, NULL));
		CT_EQ(wc.byte_len, RAW_LENGTH);
		CT_EQ(ibv_poll_cq(cq, 1, &wc), 0); /* once */
	}
	CT_EQ(ibv_destroy_flow(flow), 0);
	CT_EQ(ibv_destroy_qp(box.qp), 0);
	CT_EQ(ibv_destroy_cq(cq), 0);
	CT_EQ(ibv_destroy_comp_channel(channel), 0);
}

const struct ct_case ct_raw_cases[] = {
	{ "a raw packet QP needs CAP_NET_RAW", needs_the_right, CT_SOLO },
	{ "the states of a raw packet QP want a port and nothing else", states, CT_SOLO },
	{ "a frame arrives as it was sent, where a rule is", arrives_as_sent, CT_SOLO },
	{ "a frame that cannot be sent is an error of that request", bad_sends, CT_SOLO },
	{ "a frame longer than the MTU is LOC_LEN, but for its VLAN tag", longer_than_the_mtu,
	  CT_SOLO },
	{ "a raw packet QP keeps to its rate", keeps_to_its_rate, CT_SOLO },
	{ "a frame without a receive that holds it is dropped", without_room, CT_SOLO },
	{ "checksums are filled in and checked", checksums, CT_SOLO },
	{ "raw QPs are the parent's after fork, and the child can have its own", survives_fork,
	  CT_SOLO },
	{ "frames of the other end wake a sleeper", from_the_other_end, CT_RC },
	{ 0 },
};
