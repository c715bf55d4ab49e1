/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames and boxes: see ct_raw.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "ct_raw.h"

/* ---- frames ---------------------------------------------------------------------------------- */

void raw_mac(uint8_t mac[6], bool multicast, uint8_t n)
{
	uint32_t pid = (uint32_t)getpid();
	const uint8_t made[6] = { multicast ? 3 : 2,   0x76,         (uint8_t)(pid >> 16),
				  (uint8_t)(pid >> 8), (uint8_t)pid, n };

	memcpy(mac, made, 6);
}

struct raw_frame raw_frame(uint8_t n)
{
	static uint32_t last_mark;
	struct raw_frame frame = { .type = RAW_TYPE };

	frame.mark = (uint32_t)getpid() << 10 | ++last_mark % 1024;
	raw_mac(frame.dst, false, n);
	raw_mac(frame.src, false, 1);
	return frame;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

static uint8_t *put16(uint8_t *at, uint16_t value)
{
	value = htons(value);
	return put(at, &value, 2);
}

static void build_ipv4(const struct raw_frame *f, uint8_t *at, uint16_t length)
{
	at[0] = 0x45;
	at[1] = f->tos;
	put16(at + 2, length);
	put16(at + 6, 0x4000); /* don't fragment */
	at[8] = f->ttl;
	at[9] = f->proto;
	put(put(at + 12, f->src_ip, 4), f->dst_ip, 4);
}

static void build_ipv6(const struct raw_frame *f, uint8_t *at, uint16_t length)
{
	uint32_t first = htonl(6u << 28 | (uint32_t)f->tos << 20 | f->label);

	put(at, &first, 4);
	put16(at + 4, (uint16_t)(length - 40));
	at[6] = f->proto;
	at[7] = f->ttl;
	put(put(at + 8, f->src_ip, 16), f->dst_ip, 16);
}

uint32_t raw_build(const struct raw_frame *f, uint8_t *start)
{
	uint32_t length = f->length ? f->length : RAW_LENGTH;
	uint8_t *at = start, *l4;
	uint16_t rest;

	memset(start, 0, length);
	at = put(put(at, f->dst, 6), f->src, 6);
	if (f->vlan)
		at = put16(put16(at, 0x8100), f->vlan);
	at = put16(at, f->type);
	rest = (uint16_t)(start + length - at);
	l4 = at + (f->type == RAW_IPV4 ? 20 : 40);
	if (f->type == RAW_IPV4)
		build_ipv4(f, at, rest);
	else if (f->type == RAW_IPV6)
		build_ipv6(f, at, rest);
	if (f->src_port || f->dst_port)
		put16(put16(l4, f->src_port), f->dst_port);
	if (f->proto == IPPROTO_UDP)
		put16(l4 + 4, (uint16_t)(start + length - l4));
	if (f->proto == IPPROTO_TCP)
		l4[12] = 5 << 4;
	memcpy(start + length - 4, &f->mark, 4);
	return length;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

void raw_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

void raw_post(struct ct *t, struct ibv_qp *qp, uint64_t at, uint64_t wr_id)
{
	struct ibv_sge sge = { t->near->base + at, RAW_ROOM, t->near->mr.lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	CT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

void raw_open(struct ct *t, struct raw_box *box, int number)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = RAW_DEPTH,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 128 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
	};

	box->t = t;
	box->at = (uint64_t)number * RAW_DEPTH * RAW_ROOM;
	CT_TRUE(box->at + RAW_DEPTH * RAW_ROOM <= RAW_SEND_AT);
	box->cq = ibv_create_cq(ct_context(t->near), RAW_DEPTH + 16, NULL, NULL, 0);
	CT_TRUE(box->cq != NULL);
	init.send_cq = init.recv_cq = box->cq;
	box->qp = ibv_create_qp(ct_object(t->near, t->near->pd), &init);
	if (!box->qp && errno == EPERM)
		ct_skip("raw packet QPs need CAP_NET_RAW");
	CT_TRUE(box->qp != NULL);
	raw_to_rts(box->qp);
	for (uint64_t i = 0; i < RAW_DEPTH; i++)
		raw_post(t, box->qp, box->at + i * RAW_ROOM, i);
}

void raw_close(struct raw_box *box)
{
	CT_EQ(ibv_destroy_qp(box->qp), 0);
	CT_EQ(ibv_destroy_cq(box->cq), 0);
}

struct ibv_wc raw_wait(struct ibv_cq *cq)
{
	double deadline_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	struct ibv_wc wc;
	int got;

	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		if (ct_now_s() > deadline_s)
			ct_fail("no completion came");
	CT_EQ(got, 1);
	return wc;
}

/* On a CQ of its own, so that what arrives meanwhile stays where it is. */
void raw_send(struct raw_box *box, const struct raw_frame *frame, unsigned flags)
{
	uint8_t *at = (uint8_t *)(uintptr_t)box->t->near->base + RAW_SEND_AT;
	struct ibv_sge sge = { (uintptr_t)at, raw_build(frame, at), box->t->near->mr.lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1000,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = flags,
	};
	struct ibv_wc wc;

	CT_EQ(ibv_post_send(box->qp, &wr, &bad), 0);
	do /* the sender's own receives */
		wc = raw_wait(box->cq);
	while (wc.opcode == IBV_WC_RECV);
	CT_EQ(wc.wr_id, 1000);
	CT_EQ(wc.status, IBV_WC_SUCCESS);
}

int raw_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int got = ibv_poll_cq(cq, 1, wc);

	for (int ms = 0; !got && ms < 10 && getenv("VERBENA_ADVERSARY"); ms++) {
		usleep(1000);
		got = ibv_poll_cq(cq, 1, wc);
	}
	return got;
}

bool raw_got(struct raw_box *box, uint32_t mark, struct ibv_wc *wc, const uint8_t **bytes)
{
	while (raw_poll(box->cq, wc) == 1) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)box->t->near->base + box->at +
				    wc->wr_id * RAW_ROOM;

		CT_EQ(wc->status, IBV_WC_SUCCESS);
		CT_EQ(wc->opcode, IBV_WC_RECV);
		raw_post(box->t, box->qp, box->at + wc->wr_id * RAW_ROOM, wc->wr_id);
		if (wc->byte_len < 18 || memcmp(at + wc->byte_len - 4, &mark, 4))
			continue; /* not ours */
		if (bytes)
			*bytes = at;
		return true;
	}
	return false;
}

int raw_count(struct raw_box *box, uint32_t mark)
{
	struct ibv_wc wc;
	int count = 0;

	while (raw_got(box, mark, &wc, NULL))
		count++;
	return count;
}

/* ---- rules ----------------------------------------------------------------------------------- */

struct raw_rule raw_rule(void)
{
	return (struct raw_rule){ .attr = { .port = 1, .size = sizeof(struct ibv_flow_attr) } };
}

void raw_add(struct raw_rule *rule, const void *spec, uint16_t size)
{
	memcpy(rule->specs + rule->used, spec, size);
	rule->used += size;
	rule->attr.size = (uint16_t)(rule->attr.size + size);
	rule->attr.num_of_specs++;
}

struct ibv_flow_spec_eth raw_eth(const struct raw_frame *frame)
{
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth) };

	memcpy(eth.val.dst_mac, frame->dst, 6);
	memcpy(eth.val.src_mac, frame->src, 6);
	eth.val.ether_type = htons(frame->type);
	eth.val.vlan_tag = htons(frame->vlan);
	return eth;
}

struct raw_rule raw_rule_for(const struct raw_frame *frame)
{
	struct ibv_flow_spec_eth eth = raw_eth(frame);
	struct raw_rule rule = raw_rule();

	memset(eth.mask.dst_mac, 0xff, 6);
	raw_add(&rule, &eth, sizeof(eth));
	return rule;
}

struct ibv_flow *raw_flow(struct raw_box *box, struct raw_rule *rule)
{
	struct ibv_flow *flow = ibv_create_flow(box->qp, &rule->attr);

	CT_TRUE(flow != NULL);
	return flow;
}
