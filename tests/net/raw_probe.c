/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs by verbs alone, for tests of several hosts. MACs in hex, without colons.
 *
 *   raw_probe echo OWN               prints "ready", then sends each frame for OWN back
 *   raw_probe ping OWN PEER COUNT [VLAN]   each frame must come back as it was sent; a frame that
 *                                    does not is sent again, for ten seconds
 *   raw_probe udp PORT               prints "ready", waits for a datagram of the host itself to
 *                                    this port, and says whether its checksum was right
 *   raw_probe quiet OWN              prints "ready" with a rule for OWN, and ends with the input
 *   raw_probe late OWN               prints "ready" with the list of devices, and has its QP and a
 *                                    rule for OWN when the input ends
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, ROOM = 2048, TYPE = 0x88b5, LENGTH = 400, PATIENCE_S = 10, AGAIN_S = 1 };

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *memory; /* receives, then the frame that is sent */

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void move_qp(enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1 };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask))
		fail("ibv_modify_qp");
}

static void post(uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)memory + slot * ROOM, ROOM, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(qp, &wr, &bad))
		fail("ibv_post_recv");
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
	};

	cq = pd ? ibv_create_cq(context, DEPTH + 8, NULL, NULL, 0) : NULL;
	memory = calloc(DEPTH + 1, ROOM);
	mr = cq && memory ? ibv_reg_mr(pd, memory, (DEPTH + 1) * ROOM, IBV_ACCESS_LOCAL_WRITE)
			  : NULL;
	init.send_cq = init.recv_cq = cq;
	qp = mr ? ibv_create_qp(pd, &init) : NULL;
	if (!qp)
		fail("opening the device");
	move_qp(IBV_QPS_INIT, IBV_QP_PORT);
	for (uint64_t i = 0; i < DEPTH; i++)
		post(i);
	move_qp(IBV_QPS_RTR, 0);
	move_qp(IBV_QPS_RTS, 0);
}

struct rule {
	struct ibv_flow_attr attr;
	union {
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_tcp_udp udp;
	};
};

static void add_rule(struct rule *rule)
{
	rule->attr = (struct ibv_flow_attr){ .size = sizeof(*rule), .num_of_specs = 1, .port = 1 };
	if (!ibv_create_flow(qp, &rule->attr))
		fail("ibv_create_flow");
}

static void mac_of(const char *text, uint8_t mac[6])
{
	for (int i = 0; i < 6; i++)
		if (sscanf(text + 2 * i, "%2hhx", &mac[i]) != 1)
			exit(2);
}

static void add_address(const char *text)
{
	struct rule rule = { .eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) } };

	mac_of(text, rule.eth.val.dst_mac);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	add_rule(&rule);
}

static void send_frame(uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)memory + DEPTH * ROOM, length, mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .wr_id = DEPTH, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_send(qp, &wr, &bad))
		fail("ibv_post_send");
}

/* The next frame that arrived; NULL: none until then. */
static uint8_t *next_frame(struct ibv_wc *wc, time_t until_s)
{
	int got;

	while ((got = ibv_poll_cq(cq, 1, wc)) >= 0) {
		if (got && wc->status != IBV_WC_SUCCESS)
			break;
		if (got && wc->opcode == IBV_WC_RECV)
			return memory + wc->wr_id * ROOM;
		if (!got && time(NULL) > until_s)
			return NULL;
	}
	fprintf(stderr, "a completion failed: %s\n", ibv_wc_status_str(wc->status));
	exit(1);
}

static void echo(const char *own)
{
	uint8_t *out = memory + DEPTH * ROOM;

	add_address(own);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct ibv_wc wc;
		uint8_t *in = next_frame(&wc, 0);

		if (!in) {
			usleep(100);
			continue;
		}
		memcpy(out, in, wc.byte_len);
		memcpy(out, in + 6, 6);
		memcpy(out + 6, in, 6);
		send_frame(wc.byte_len);
		post(wc.wr_id);
	}
}

static uint32_t build(uint8_t *at, const char *own, const char *peer, uint32_t number,
		      uint16_t vlan)
{
	const uint16_t tag[2] = { htons(0x8100), htons(vlan) }, type = htons(TYPE);
	uint8_t *next = at + 12;

	memset(at, (int)number, LENGTH);
	mac_of(peer, at);
	mac_of(own, at + 6);
	if (vlan) {
		memcpy(next, tag, 4);
		next += 4;
	}
	memcpy(next, &type, 2);
	memcpy(next + 2, &number, 4);
	return LENGTH;
}

/* It is what we sent, with the addresses the other way round. */
static bool is_answer(const uint8_t *in, const struct ibv_wc *wc, const uint8_t *out)
{
	return wc->byte_len == LENGTH && !memcmp(in, out + 6, 6) && !memcmp(in + 6, out, 6) &&
	       !memcmp(in + 12, out + 12, LENGTH - 12);
}

static bool answered(const uint8_t *out)
{
	time_t until_s = time(NULL) + AGAIN_S;
	struct ibv_wc wc;
	uint8_t *in;

	while ((in = next_frame(&wc, until_s))) {
		bool right = is_answer(in, &wc, out);

		post(wc.wr_id);
		if (right)
			return true;
	}
	return false;
}

static void ping(const char *own, const char *peer, uint32_t count, uint16_t vlan)
{
	uint8_t *out = memory + DEPTH * ROOM;
	uint32_t again = 0;

	add_address(own);
	for (uint32_t i = 1; i <= count; i++) {
		time_t until_s = time(NULL) + PATIENCE_S;

		build(out, own, peer, i, vlan);
		send_frame(LENGTH);
		for (; !answered(out); again++) {
			if (time(NULL) > until_s) {
				fprintf(stderr, "frame %u never came back\n", i);
				exit(1);
			}
			send_frame(LENGTH);
		}
	}
	printf("%u frames came back, %u were sent again\n", count, again);
}

static void udp(uint16_t port)
{
	struct rule rule = { .udp = { .type = IBV_FLOW_SPEC_UDP, .size = sizeof(rule.udp) } };
	struct ibv_wc wc;

	rule.udp.val.dst_port = htons(port);
	rule.udp.mask.dst_port = 0xffff;
	add_rule(&rule);
	puts("ready");
	fflush(stdout);
	if (!next_frame(&wc, time(NULL) + PATIENCE_S))
		exit(1);
	printf("%u bytes, checksum %s\n", wc.byte_len,
	       wc.wc_flags & IBV_WC_IP_CSUM_OK ? "good" : "bad");
}

static void quiet(const char *own)
{
	char byte;

	add_address(own);
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
}

static void late(const char *own)
{
	ibv_free_device_list(ibv_get_device_list(NULL));
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	open_all();
	quiet(own);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "late")) {
		late(argv[2]);
		return 0;
	}
	open_all();
	if (!strcmp(argv[1], "echo"))
		echo(argv[2]);
	else if (!strcmp(argv[1], "udp"))
		udp((uint16_t)atoi(argv[2]));
	else if (!strcmp(argv[1], "quiet"))
		quiet(argv[2]);
	else if (!strcmp(argv[1], "ping") && argc > 4)
		ping(argv[2], argv[3], (uint32_t)atoi(argv[4]),
		     argc > 5 ? (uint16_t)strtol(argv[5], NULL, 0) : 0);
	else
		return 2;
	return 0;
}
