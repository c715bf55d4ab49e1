/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents of a port: every field is where the IBA puts it, and bad requests get its status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample_port.h"
#include "wire/bytes.h"

enum { NODE_DESCRIPTION = 0x10, NODE_INFO, SWITCH_INFO, GUID_INFO = 0x14, PORT_INFO, PKEY_TABLE };
enum { SM_INFO = 0x20, PORT_COUNTERS = 0x12, PORT_COUNTERS_EXT = 0x1d };

static uint8_t request[VB_MAD_SIZE], answer[VB_MAD_SIZE];
static uint16_t clear;
static const uint8_t *const data = answer + VB_SMP_DATA_AT;

static uint16_t ask(const struct vb_mad_port *port)
{
	struct vb_mad mad;

	memset(answer, 0xee, sizeof(answer));
	assert_true(vb_agent_answer(port, request, answer, &clear));
	vb_mad_parse(answer, &mad);
	assert_true(mad.method & VB_MAD_RESPONSE);
	assert_true(mad.transaction_id == 0x0123456789abcdef);
	assert_true(mad.attribute_id == vb_get16(request + 16));
	return mad.status;
}

static uint16_t get(uint8_t management_class, uint16_t attribute, uint32_t modifier)
{
	const struct vb_mad_port port = sample_port();

	sample_request(request, management_class, VB_MAD_GET, attribute, modifier);
	if (management_class == VB_MAD_CLASS_PERF)
		request[VB_PERF_DATA_AT + 1] = 1;
	return ask(&port);
}

static void node_info_has_guids_and_numbers(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_SUBN, NODE_INFO, 0), VB_MAD_OK);
	assert_int_equal(vb_get32(data), 0x01010101); /* versions, channel adapter, one port */
	assert_true(vb_get64(data + 4) == 0x1011121314151617);
	assert_true(vb_get64(data + 12) == 0x2021222324252627);
	assert_true(vb_get64(data + 20) == 0x3031323334353637);
	assert_int_equal(vb_get16(data + 28), 32);
	assert_int_equal(vb_get16(data + 30), 0x6162);
	assert_int_equal(vb_get32(data + 32), 0x51525354);
	assert_int_equal(vb_get32(data + 36), 0x01414243);
}

static void port_info_has_the_attributes_of_the_port(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_SUBN, PORT_INFO, 1), VB_MAD_OK);
	assert_true(vb_get64(data + 8) == 0xfe80000000000000);
	assert_int_equal(vb_get32(data + 16), 0x01020304);
	assert_int_equal(vb_get32(data + 20), 0x0201c822);
	assert_int_equal(vb_get32(data + 28), 0x011f1f02);
	assert_int_equal(data[32], 7 << 4 | 4);
	assert_int_equal(data[33], 5 << 4 | 2);
	assert_int_equal(data[34], 3);
	assert_int_equal(data[35], 4 << 4 | 7);
	assert_int_equal(data[36], 4 << 4 | 5);
	assert_int_equal(data[37], 1 << 4);
	assert_int_equal(data[41], 5);
	assert_int_equal(data[43], 1 << 4);
	assert_int_equal(vb_get32(data + 46), 0x81829192);
	assert_int_equal(data[50], 1);
	assert_int_equal(data[51], 18);
	assert_int_equal(data[52], 18);
	assert_int_equal(vb_get16(data + 60), 0x7172);
	assert_int_equal(data[62], 2 << 4 | 0xf);
	assert_int_equal(data[63], 0xf);
	assert_int_equal(get(VB_MAD_CLASS_SUBN, PORT_INFO, 2), VB_MAD_BAD_VALUE);
}

static void other_attributes_of_subnet_management_are_told(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_SUBN, NODE_DESCRIPTION, 0), VB_MAD_OK);
	assert_string_equal((const char *)data, "host verbena1");
	assert_int_equal(get(VB_MAD_CLASS_SUBN, GUID_INFO, 0), VB_MAD_OK);
	assert_true(vb_get64(data) == 0x3031323334353637 && !vb_get64(data + 8));
	assert_int_equal(get(VB_MAD_CLASS_SUBN, GUID_INFO, 1), VB_MAD_BAD_VALUE);
	assert_int_equal(get(VB_MAD_CLASS_SUBN, PKEY_TABLE, 0), VB_MAD_OK);
	assert_int_equal(vb_get32(data), 0xffff8001);
	assert_int_equal(vb_get16(data + 62), 0x7fff);
	assert_int_equal(get(VB_MAD_CLASS_SUBN, PKEY_TABLE, 1), VB_MAD_BAD_VALUE);
	assert_int_equal(get(VB_MAD_CLASS_SUBN, SM_INFO, 0), VB_MAD_OK);
	assert_true(vb_get64(data) == 0x3031323334353637);
	assert_int_equal(vb_get32(data + 16), 77);
	assert_int_equal(data[20], 3); /* priority 0, master */
}

static void an_answer_by_directed_route_is_on_its_way_back(void **state)
{
	const struct vb_mad_port port = sample_port();

	sample_request(request, VB_MAD_CLASS_SUBN_DIRECTED, VB_MAD_GET, NODE_INFO, 0);
	request[6] = 2; /* hop pointer */
	request[7] = 2; /* hop count */
	request[VB_SMP_PATH_AT + 1] = 9;
	assert_int_equal(ask(&port), VB_MAD_DIRECTION);
	assert_int_equal(vb_get16(answer + 6), 2);
	assert_int_equal(answer[VB_SMP_PATH_AT + 1], 9);
	assert_int_equal(get(VB_MAD_CLASS_SUBN_DIRECTED, SWITCH_INFO, 0),
			 VB_MAD_BAD_ATTRIBUTE | VB_MAD_DIRECTION);
}

static void counters_stop_at_their_largest_value(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_PERF, PORT_COUNTERS, 0), VB_MAD_OK);
	assert_int_equal(data[1], 1);
	assert_int_equal(vb_get16(data + 8), 0xffff);
	assert_int_equal(vb_get16(data + 14), 9);
	assert_true(vb_get32(data + 24) == 0xffffffff);
	assert_int_equal(vb_get32(data + 28), 0x66);
	assert_int_equal(vb_get32(data + 32), 0x77);
	assert_int_equal(vb_get32(data + 36), 0x88);
	assert_int_equal(clear, 0);
}

static void extended_counters_have_64_bits(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_PERF, PORT_COUNTERS_EXT, 0), VB_MAD_OK);
	assert_true(vb_get64(data + 8) == 0x1122334455);
	assert_true(vb_get64(data + 16) == 0x66 && vb_get64(data + 24) == 0x77);
	assert_true(vb_get64(data + 32) == 0x88 && vb_get64(data + 40) == 0x77);
	assert_int_equal(get(VB_MAD_CLASS_PERF, VB_MAD_ATTRIBUTE_CLASS_PORT_INFO, 0), VB_MAD_OK);
	assert_int_equal(vb_get32(data), 0x01010200); /* versions, extended counters */
	assert_int_equal(data[7], 18);
}

static uint16_t set_counters(uint16_t attribute, uint8_t port_number, uint16_t select)
{
	const struct vb_mad_port port = sample_port();

	sample_request(request, VB_MAD_CLASS_PERF, VB_MAD_SET, attribute, 0);
	request[VB_PERF_DATA_AT + 1] = port_number;
	vb_put16(request + VB_PERF_DATA_AT + 2, select);
	return ask(&port);
}

static void a_set_of_counters_clears_the_selected_ones(void **state)
{
	assert_int_equal(set_counters(PORT_COUNTERS, 1, 0xffff), VB_MAD_OK);
	assert_int_equal(clear, VB_PERF_RCV_ERRORS | VB_PERF_XMIT_DISCARDS | VB_PERF_XMIT_DATA |
					VB_PERF_RCV_DATA | VB_PERF_XMIT_PACKETS |
					VB_PERF_RCV_PACKETS);
	assert_int_equal(set_counters(PORT_COUNTERS, 1, VB_PERF_RCV_DATA), VB_MAD_OK);
	assert_int_equal(clear, VB_PERF_RCV_DATA);
	assert_int_equal(set_counters(PORT_COUNTERS_EXT, 1, 0x9), VB_MAD_OK);
	assert_int_equal(clear, VB_PERF_XMIT_DATA | VB_PERF_RCV_PACKETS);
	assert_int_equal(set_counters(PORT_COUNTERS, 2, 0xffff), VB_MAD_BAD_VALUE);
	assert_int_equal(clear, 0);
}

static void bad_requests_get_the_status_of_the_specification(void **state)
{
	const struct vb_mad_port port = sample_port();

	assert_int_equal(get(VB_MAD_CLASS_SUBN, SWITCH_INFO, 0), VB_MAD_BAD_ATTRIBUTE);
	assert_int_equal(get(VB_MAD_CLASS_PERF, 0x10, 0), VB_MAD_BAD_ATTRIBUTE);
	assert_int_equal(get(0x09, 0x10, 0), VB_MAD_BAD_VERSION);
	sample_request(request, VB_MAD_CLASS_SUBN, VB_MAD_SET, PORT_INFO, 1);
	assert_int_equal(ask(&port), VB_MAD_BAD_ATTRIBUTE);
	sample_request(request, VB_MAD_CLASS_SUBN, VB_MAD_GET_TABLE, PORT_INFO, 1);
	assert_int_equal(ask(&port), VB_MAD_BAD_METHOD);
	sample_request(request, VB_MAD_CLASS_SUBN, VB_MAD_GET, NODE_INFO, 0);
	request[0] = 2;
	assert_int_equal(ask(&port), VB_MAD_BAD_VERSION);
	request[0] = 1;
	request[2] = 2;
	assert_int_equal(ask(&port), VB_MAD_BAD_VERSION);
}

static void a_refusal_tells_nothing_of_the_port(void **state)
{
	assert_int_equal(get(VB_MAD_CLASS_SUBN, SWITCH_INFO, 0), VB_MAD_BAD_ATTRIBUTE);
	for (unsigned i = 0; i < VB_SMP_DATA_SIZE; i++)
		assert_int_equal(data[i], 0);
}

static void answers_and_messages_get_no_answer(void **state)
{
	static const uint8_t methods[] = { VB_MAD_SEND, VB_MAD_TRAP, VB_MAD_REPORT,
					   VB_MAD_TRAP_REPRESS, VB_MAD_GET | VB_MAD_RESPONSE };
	const struct vb_mad_port port = sample_port();

	for (size_t i = 0; i < sizeof(methods); i++) {
		sample_request(request, VB_MAD_CLASS_SUBN, methods[i], NODE_INFO, 0);
		assert_false(vb_agent_answer(&port, request, answer, &clear));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_info_has_guids_and_numbers),
		cmocka_unit_test(port_info_has_the_attributes_of_the_port),
		cmocka_unit_test(other_attributes_of_subnet_management_are_told),
		cmocka_unit_test(an_answer_by_directed_route_is_on_its_way_back),
		cmocka_unit_test(counters_stop_at_their_largest_value),
		cmocka_unit_test(extended_counters_have_64_bits),
		cmocka_unit_test(a_set_of_counters_clears_the_selected_ones),
		cmocka_unit_test(bad_requests_get_the_status_of_the_specification),
		cmocka_unit_test(a_refusal_tells_nothing_of_the_port),
		cmocka_unit_test(answers_and_messages_get_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
