/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversions between structs, and from GIDs to Ethernet addresses. Built with their sources and
 * a GID table of two entries in place of a device.
 */
#include <errno.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "net/gid.h"
#include "system/forward.h"

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/* The calls explain nothing here. */
void vb_explain(const char *format, ...)
{
	(void)format;
}

void vb_explain_rest(const char *function, int err)
{
	(void)function;
	(void)err;
}

const char *vb_gid_print(const union ibv_gid *gid, char *text)
{
	(void)gid;
	*text = '\0';
	return text;
}

/* There are no devices of the system. */
_Atomic bool vb_system_in_use;

bool vb_system_knows(const struct ibv_context *context)
{
	return false;
}

int vb_system_ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t mac[6], uint16_t *vid)
{
	return -EOPNOTSUPP;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	return port_num == 1 && index >= 0 && index < 2 ? 0 : -1;
}

/* A different value in each field. */
static struct ib_uverbs_qp_attr kern_attr = {
	.qp_attr_mask = 1,
	.qp_state = IBV_QPS_RTR,
	.cur_qp_state = IBV_QPS_INIT,
	.path_mtu = IBV_MTU_2048,
	.path_mig_state = IBV_MIG_ARMED,
	.qkey = 5,
	.rq_psn = 6,
	.sq_psn = 7,
	.dest_qp_num = 8,
	.qp_access_flags = 9,
	.ah_attr = { .grh = { .flow_label = 10,
			      .sgid_index = 11,
			      .hop_limit = 12,
			      .traffic_class = 13 },
		     .dlid = 14,
		     .sl = 15,
		     .src_path_bits = 16,
		     .static_rate = 17,
		     .is_global = 1,
		     .port_num = 18 },
	.alt_ah_attr = { .dlid = 19, .port_num = 20 },
	.max_send_wr = 21,
	.max_recv_wr = 22,
	.max_send_sge = 23,
	.max_recv_sge = 24,
	.max_inline_data = 25,
	.pkey_index = 26,
	.alt_pkey_index = 27,
	.en_sqd_async_notify = 28,
	.sq_draining = 29,
	.max_rd_atomic = 30,
	.max_dest_rd_atomic = 31,
	.min_rnr_timer = 32,
	.port_num = 33,
	.timeout = 34,
	.retry_cnt = 35,
	.rnr_retry = 36,
	.alt_port_num = 37,
	.alt_timeout = 38,
};

static struct ibv_qp_attr want_attr = {
	.qp_state = IBV_QPS_SQD,
	.cur_qp_state = IBV_QPS_INIT,
	.path_mtu = IBV_MTU_2048,
	.path_mig_state = IBV_MIG_ARMED,
	.qkey = 5,
	.rq_psn = 6,
	.sq_psn = 7,
	.dest_qp_num = 8,
	.qp_access_flags = 9,
	.cap = { .max_send_wr = 21,
		 .max_recv_wr = 22,
		 .max_send_sge = 23,
		 .max_recv_sge = 24,
		 .max_inline_data = 25 },
	.ah_attr = { .grh = { .flow_label = 10,
			      .sgid_index = 11,
			      .hop_limit = 12,
			      .traffic_class = 13 },
		     .dlid = 14,
		     .sl = 15,
		     .src_path_bits = 16,
		     .static_rate = 17,
		     .is_global = 1,
		     .port_num = 18 },
	.alt_ah_attr = { .dlid = 19, .port_num = 20 },
	.pkey_index = 26,
	.alt_pkey_index = 27,
	.en_sqd_async_notify = 28,
	.sq_draining = 29,
	.max_rd_atomic = 30,
	.max_dest_rd_atomic = 31,
	.min_rnr_timer = 32,
	.port_num = 33,
	.timeout = 34,
	.retry_cnt = 35,
	.rnr_retry = 36,
	.alt_port_num = 37,
	.alt_timeout = 38,
};

/* Every field compared. */
static void qp_attributes_are_copied_field_by_field(void **state)
{
	struct ibv_qp_attr got;

	for (unsigned i = 0; i < 16; i++)
		kern_attr.ah_attr.grh.dgid[i] = want_attr.ah_attr.grh.dgid.raw[i] =
			(uint8_t)(0xa0 + i);
	memset(&got, 0, sizeof(got));
	got.qp_state = IBV_QPS_SQD; /* the caller's, and it stays */
	ibv_copy_qp_attr_from_kern(&got, &kern_attr);
	assert_memory_equal(&got, &want_attr, sizeof(got));
}

static void a_path_record_survives_the_round_trip(void **state)
{
	struct ibv_sa_path_rec path = {
		.dlid = 1,
		.slid = 2,
		.raw_traffic = 1,
		.flow_label = 4,
		.hop_limit = 5,
		.traffic_class = 6,
		.reversible = 1,
		.numb_path = 8,
		.pkey = 9,
		.sl = 10,
		.mtu_selector = 11,
		.mtu = 12,
		.rate_selector = 13,
		.rate = 14,
		.packet_life_time_selector = 15,
		.packet_life_time = 16,
		.preference = 17,
	};
	struct ib_user_path_rec kern;
	struct ibv_sa_path_rec back;

	for (unsigned i = 0; i < 16; i++) {
		path.dgid.raw[i] = (uint8_t)(0xb0 + i);
		path.sgid.raw[i] = (uint8_t)(0xc0 + i);
	}
	memset(&kern, 0, sizeof(kern));
	memset(&back, 0, sizeof(back));
	ibv_copy_path_rec_to_kern(&kern, &path);
	assert_int_equal(kern.dgid[15], 0xbf);
	assert_int_equal(kern.slid, 2);
	assert_int_equal(kern.packet_life_time_selector, 15);
	ibv_copy_path_rec_from_kern(&back, &kern);
	assert_memory_equal(&back, &path, sizeof(back));
}

static const struct {
	const char *what;
	uint8_t dgid[16];
	int sgid_index, answer;
	uint8_t mac[6];
} resolutions[] = {
	{ "link-local",
	  { 0xfe, 0x80, [8] = 0x02, 0xfc, 0x00, 0xff, 0xfe, 0x12, 0x34, 0x56 },
	  0,
	  0,
	  { 0x00, 0xfc, 0x00, 0x12, 0x34, 0x56 } },
	{ "link-local without a MAC", { 0xfe, 0x80, [15] = 1 }, 0, -EHOSTUNREACH, { 0 } },
	{ "IPv6 multicast", { 0xff, 0x0e, [12] = 1, 2, 3, 4 }, 1, 0, { 0x33, 0x33, 1, 2, 3, 4 } },
	{ "IPv4 multicast",
	  { [10] = 0xff, 0xff, 230, 0xff, 2, 3 },
	  1,
	  0,
	  { 0x01, 0x00, 0x5e, 0x7f, 2, 3 } },
	{ "IPv4 unicast", { [10] = 0xff, 0xff, 10, 0, 0, 1 }, 1, -EHOSTUNREACH, { 0 } },
	{ "global IPv6", { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 }, 1, -EHOSTUNREACH, { 0 } },
	{ "no such source GID", { 0xff, 0x0e }, 2, -EINVAL, { 0 } },
};

static void ethernet_addresses_come_from_the_gid_or_not_at_all(void **state)
{
	for (size_t i = 0; i < sizeof(resolutions) / sizeof(resolutions[0]); i++) {
		struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
		uint8_t mac[ETHERNET_LL_SIZE] = { 0 };
		uint16_t vid = 7;

		print_message("%s\n", resolutions[i].what);
		attr.grh.sgid_index = (uint8_t)resolutions[i].sgid_index;
		memcpy(attr.grh.dgid.raw, resolutions[i].dgid, 16);
		errno = 0;
		assert_int_equal(ibv_resolve_eth_l2_from_gid(NULL, &attr, mac, &vid),
				 resolutions[i].answer);
		assert_int_equal(errno, -resolutions[i].answer);
		assert_memory_equal(mac, resolutions[i].mac, sizeof(mac));
		assert_int_equal(vid, resolutions[i].answer ? 7 : 0xffff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_attributes_are_copied_field_by_field),
		cmocka_unit_test(a_path_record_survives_the_round_trip),
		cmocka_unit_test(ethernet_addresses_come_from_the_gid_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
