/* SPDX-License-Identifier: BSD-2-Clause */
/* The one line of a message of the connection manager. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample_cm.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* clang-format off */
static const struct {
	struct vb_cm_message message;
	const char *line;
} rows[] = {
	{ { .attribute = VB_CM_RTU, .transaction_id = 0x2f, .rtu = { 1, 2, { 0 } } },
	  "RTU tid 0x2f id 0x00000001 > 0x00000002" },
	{ { .attribute = VB_CM_DREP, .drep = { 1, 2, { 0xab, 0, 0xcd } } },
	  "DREP tid 0x0 id 0x00000001 > 0x00000002 private ab00cd" },
	{ { .attribute = VB_CM_DREQ, .dreq = { 1, 2, 0x28, { [219] = 1 } } },
	  "DREQ tid 0x0 id 0x00000001 > 0x00000002 qp 0x000028 private "
	  "00000000000000000000000000000000+204 B" },
	{ { .attribute = VB_CM_MRA, .mra = { 1, 2, VB_CM_ANSWERS_REP, 22, { 0 } } },
	  "MRA tid 0x0 id 0x00000001 > 0x00000002 of REP timeout 22" },
	{ { .attribute = VB_CM_REJ, .rej = { 0, 2, VB_CM_ANSWERS_REQ, 8, VB_CM_REJ_TIMEOUT,
		{ 1, 2, 3, 4, 5, 6, 7, 8 }, { 0 } } },
	  "REJ tid 0x0 id 0x00000000 > 0x00000002 of REQ reason 4 (timeout) info "
	  "0102030405060708" },
	{ { .attribute = VB_CM_REJ, .rej = { .answers = 3, .reason = 34 } },
	  "REJ tid 0x0 id 0x00000000 > 0x00000000 of reserved reason 34 (reserved)" },
	{ { .attribute = VB_CM_REP, .attribute_modifier = 5, .rep = { .local_comm_id = 1,
		.remote_comm_id = 2, .qpn = 0x30, .starting_psn = 7, .rnr_retry_count = 7,
		.srq = true, .flow_control = true, .vendor_id = 0x15b3, .failover = 1,
		.qkey = 3, .eecn = 4 } },
	  "REP tid 0x0 id 0x00000001 > 0x00000002 guid 0x0000000000000000 qp 0x000030 psn 7 "
	  "resources 0 depth 0 rnr-retries 7 ack-delay 0 failover 1 qkey 0x00000003 eec 0x000004 "
	  "credits srq ece 0x0015b3 0x00000005" },
	{ { .attribute = VB_CM_SIDR_REP, .sidr_rep = { .request_id = 3,
		.status = VB_CM_SIDR_UNSUPPORTED, .info_length = 1, .info = { 0xee } } },
	  "SIDR_REP tid 0x0 id > 0x00000003 status 1 (unsupported) service 0x0000000000000000 "
	  "qp 0x000000 qkey 0x00000000 info ee" },
	{ { .attribute = VB_CM_SIDR_REQ, .sidr_req = { .request_id = 3, .pkey = 0x7fff,
		.service_id = 0x01111c06, .private_data = { 0, 0x40, 0, 9, [16] = 10, 0, 0, 1,
		[32] = 10, 0, 0, 2, 0xaa } } },
	  "SIDR_REQ tid 0x0 id 0x00000003 service 0x0000000001111c06 pkey 0x7fff "
	  "ip ::ffff:10.0.0.1 port 9 > ::ffff:10.0.0.2 private aa" },
	{ { .attribute = VB_CM_SIDR_REQ, .sidr_req = { .request_id = 3, .pkey = 0xffff,
		.service_id = 0x1000000001111c06, .private_data = { 0, 0x40 } } },
	  "SIDR_REQ tid 0x0 id 0x00000003 service 0x1000000001111c06 private 0040" },
	{ { .attribute = VB_CM_REQ, .req = { .local_comm_id = 1, .pkey = 0xffff,
		.transport = VB_CM_TRANSPORT_UC, .mtu = 5, .srq = true,
		.primary = { .local_lid = 0xffff, .remote_lid = 0xffff, .hop_limit = 64 },
		.alternate = { .local_lid = 1, .remote_lid = 2, .packet_rate = 3, .sl = 4,
			.subnet_local = true } } },
	  "REQ tid 0x0 id 0x00000001 service 0x0000000000000000 guid 0x0000000000000000 UC "
	  "qp 0x000000 psn 0 mtu 5 resources 0 depth 0 retries 0/0 cm-timeouts 0/0 cm-retries 0 "
	  "srq path :: > :: flow 0x00000 class 0 hops 64 ack-timeout 0 alternate :: > :: "
	  "lid 1 > 2 flow 0x00000 class 0 hops 0 rate 3 sl 4 subnet-local ack-timeout 0" },
	{ { .attribute = VB_CM_REQ, .req = { .pkey = 0xffff, .local_eecn = 0x31,
		.transport = VB_CM_TRANSPORT_EXTENDED, .extended_transport = VB_CM_EXTENDED_XRC,
		.primary = { .local_lid = 0xffff, .remote_lid = 0xffff } } },
	  "REQ tid 0x0 id 0x00000000 service 0x0000000000000000 guid 0x0000000000000000 XRC "
	  "eec 0x000031 > 0x000000 qp 0x000000 psn 0 mtu 0 resources 0 depth 0 retries 0/0 "
	  "cm-timeouts 0/0 cm-retries 0 path :: > :: flow 0x00000 class 0 hops 0 ack-timeout 0" },
	{ { .attribute = VB_CM_LAP, .lap = { .local_comm_id = 1, .remote_comm_id = 2,
		.remote_qpn = 0x28, .remote_cm_timeout = 17,
		.alternate = { .local_lid = 0xffff, .remote_lid = 0xffff, .traffic_class = 2 } } },
	  "LAP tid 0x0 id 0x00000001 > 0x00000002 qp 0x000028 cm-timeout 17 alternate :: > :: "
	  "flow 0x00000 class 2 hops 0 ack-timeout 0" },
	{ { .attribute = VB_CM_APR, .apr = { 1, 2, 0, VB_CM_APR_UNSUPPORTED, { 0 }, { 0 } } },
	  "APR tid 0x0 id 0x00000001 > 0x00000002 status 2" },
	{ { .attribute = 0x1b }, "unknown" },
};
/* clang-format on */

static void a_line_names_what_the_message_holds(void **state)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		char line[VB_CM_LINE_SIZE];

		assert_string_equal(vb_cm_print(&rows[i].message, line, sizeof(line)),
				    rows[i].line);
	}
}

/* Everything that can be set is. */
static void the_longest_line_fits(void **state)
{
	for (unsigned attribute = SAMPLE_FIRST; attribute <= SAMPLE_LAST; attribute++) {
		char line[2 * VB_CM_LINE_SIZE];
		struct vb_cm_message message;

		memset(&message, 0x7f, sizeof(message));
		message.attribute = attribute;
		if (attribute == VB_CM_REQ) {
			message.req.transport = VB_CM_TRANSPORT_EXTENDED;
			message.req.flow_control = message.req.srq = true;
			message.req.rdc_exists = message.req.sap_supported = true;
			message.req.primary.subnet_local = true;
			message.req.alternate.subnet_local = true;
			message.req.service_id = 0x7fffffff;
			message.req.private_data[0] = 0;
			message.req.private_data[1] = 0x60;
		}
		if (attribute == VB_CM_REP)
			message.rep.flow_control = message.rep.srq = true;
		if (attribute == VB_CM_LAP)
			message.lap.alternate.subnet_local = true;
		vb_cm_print(&message, line, sizeof(line));
		assert_in_range(strlen(line), 1, VB_CM_LINE_SIZE - 1);
	}
}

/* In a block of exactly that size. */
static void a_line_is_cut_at_the_size_given(void **state)
{
	uint64_t seed = 1;
	struct vb_cm_message message = sample_message(VB_CM_REQ, &seed);
	char whole[VB_CM_LINE_SIZE];

	vb_cm_print(&message, whole, sizeof(whole));
	for (size_t size = 1; size < sizeof(whole); size++) {
		char *line = malloc(size);

		assert_ptr_equal(vb_cm_print(&message, line, size), line);
		assert_int_equal(strlen(line), strlen(whole) < size ? strlen(whole) : size - 1);
		assert_memory_equal(line, whole, strlen(line));
		free(line);
	}
}

static void reasons_have_names(void **state)
{
	assert_string_equal(vb_cm_reason_name(VB_CM_REJ_INVALID_SERVICE_ID), "invalid service id");
	assert_string_equal(vb_cm_reason_name(28), "consumer");
	assert_string_equal(vb_cm_reason_name(0), "reserved");
	assert_string_equal(vb_cm_reason_name(36), "reserved");
	assert_string_equal(vb_cm_reason_name(0xffff), "reserved");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_what_the_message_holds),
		cmocka_unit_test(the_longest_line_fits),
		cmocka_unit_test(a_line_is_cut_at_the_size_given),
		cmocka_unit_test(reasons_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
