/* SPDX-License-Identifier: BSD-2-Clause */
/* Subnet administration: records by components of the request, groups, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mad/sa.h"
#include "sample_port.h"
#include "wire/bytes.h"

enum { NODE = 0x11, PORT_INFO = 0x12, SM_INFO = 0x18, PATH = 0x35, MEMBER = 0x38 };
enum { COMPONENTS_AT = 48, OFFSET_AT = 44 };

static struct vb_sa_view view;
static uint8_t request[VB_MAD_SIZE], answer[VB_SA_ANSWER_MAX];
static struct vb_sa_effect effect;
static uint8_t *const wanted = request + VB_SA_DATA_AT;
static const uint8_t *const record = answer + VB_SA_DATA_AT;

static const uint8_t group_mgid[VB_SA_GID_SIZE] = { 0xff, 0x12, [15] = 7 };

/* The own port, LID 0x102, and ports 2 and 3. */
static int make_view(void **state)
{
	memset(&view, 0, sizeof(view));
	view.own = sample_port();
	view.port_count = 3;
	for (uint8_t i = 0; i < 3; i++) {
		view.ports[i].gid[0] = 0xfe;
		view.ports[i].gid[15] = (uint8_t)(0xa0 + i);
		view.ports[i].lid = i ? (uint16_t)(i + 1) : 0x102;
	}
	return 0;
}

static void begin(uint8_t method, uint16_t attribute, uint64_t components)
{
	sample_request(request, VB_MAD_CLASS_SUBN_ADM, method, attribute, 0);
	vb_put64(request + COMPONENTS_AT, components);
}

static uint16_t ask(size_t length)
{
	struct vb_mad mad;

	memset(answer, 0xee, sizeof(answer));
	assert_int_equal(vb_sa_answer(&view, request, answer, &effect), length);
	vb_mad_parse(answer, &mad);
	assert_true(mad.method & VB_MAD_RESPONSE);
	assert_true(mad.transaction_id == 0x0123456789abcdef);
	return mad.status;
}

static void own_records_are_told(void **state)
{
	begin(VB_MAD_GET, NODE, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(vb_get16(answer + OFFSET_AT), 14);
	assert_int_equal(vb_get16(record), 0x102);
	assert_true(vb_get64(record + 16) == 0x2021222324252627);
	assert_string_equal((const char *)record + 44, "host verbena1");
	begin(VB_MAD_GET, PORT_INFO, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(vb_get32(record), 0x01020100);
	assert_int_equal(vb_get16(record + 20), 0x102);
	begin(VB_MAD_GET, SM_INFO, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(record[24], 3);
	begin(VB_MAD_GET, VB_MAD_ATTRIBUTE_CLASS_PORT_INFO, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(vb_get16(record), 0x0102);
}

static void components_choose_records(void **state)
{
	begin(VB_MAD_GET, NODE, 1); /* LID */
	vb_put16(wanted, 0x102);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	vb_put16(wanted, 0x103);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_NO_RECORDS);
	begin(VB_MAD_GET, PORT_INFO, 1 << 30); /* no component that can be compared */
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID);
}

static void a_table_has_all_paths(void **state)
{
	begin(VB_MAD_GET_TABLE, PATH, 0);
	assert_int_equal(ask(VB_SA_DATA_AT + 3 * 64), VB_MAD_OK);
	assert_int_equal(vb_get32(answer + 24), 0x01010700); /* RMPP: data, whole */
	assert_int_equal(vb_get32(answer + 32), 3 * 64 + 20);
	assert_int_equal(vb_get16(record + 2 * 64 + 40), 3);
	begin(VB_MAD_GET, PATH, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_TOO_MANY_RECORDS);
}

static void a_path_leads_from_here_to_the_port(void **state)
{
	begin(VB_MAD_GET, PATH, 1 << 4 | 1 << 5 | 1 << 12); /* DLID, SLID, NumbPath */
	vb_put16(wanted + 40, 2);
	vb_put16(wanted + 42, 0x102);
	wanted[49] = 1;
	assert_int_equal(vb_sa_path_lid(request), 2);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(record[8 + 15], 0xa1);
	assert_int_equal(record[24 + 15], 0xa0);
	assert_int_equal(vb_get32(record + 40), 0x00020102);
	assert_int_equal(record[49], 0x81);
	assert_int_equal(vb_get16(record + 50), 0xffff);
	assert_int_equal(record[54], 2 << 6 | 4);
	assert_int_equal(record[55], 2 << 6 | 16);
	vb_put16(wanted + 42, 9); /* not from here */
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_NO_RECORDS);
}

static void want_member(uint8_t method, uint8_t join_state)
{
	begin(method, MEMBER, 1 << 0 | 1 << 1 | 1 << 16);
	memcpy(wanted, group_mgid, sizeof(group_mgid));
	memcpy(wanted + 16, view.ports[0].gid, VB_SA_GID_SIZE);
	wanted[48] = join_state;
}

static void a_port_joins_and_leaves_a_group(void **state)
{
	want_member(VB_MAD_SET, 1);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(effect.act, VB_SA_JOIN);
	assert_memory_equal(effect.group.mgid, group_mgid, sizeof(group_mgid));
	assert_int_equal(vb_get16(record + 36), vb_sa_mlid(group_mgid));
	assert_true(vb_get16(record + 36) >= 0xc000 && vb_get16(record + 36) < 0xfffe);
	assert_int_equal(record[48], 2 << 4 | 1); /* scope, join state */
	want_member(VB_MAD_DELETE, 1);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID); /* not joined */
	assert_int_equal(effect.act, VB_SA_NOTHING);
	view.groups[0] = (struct vb_sa_group){ .join_state = 1 };
	memcpy(view.groups[0].mgid, group_mgid, sizeof(group_mgid));
	view.group_count = 1;
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(effect.act, VB_SA_LEAVE);
	want_member(VB_MAD_SET, 4); /* another state of the same member */
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(effect.group.join_state, 5);
	begin(VB_MAD_GET_TABLE, MEMBER, 0);
	assert_int_equal(ask(VB_SA_DATA_AT + 56), VB_MAD_OK);
	assert_memory_equal(record, group_mgid, sizeof(group_mgid));
}

static void bad_joins_are_refused(void **state)
{
	want_member(VB_MAD_SET, 1);
	wanted[0] = 0xfe; /* no multicast */
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID_GID);
	want_member(VB_MAD_SET, 1);
	wanted[31]++; /* a port of another host */
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID_GID);
	want_member(VB_MAD_SET, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID);
	want_member(VB_MAD_SET, 1);
	vb_put64(request + COMPONENTS_AT, 1);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INSUFFICIENT);
	assert_int_equal(effect.act, VB_SA_NOTHING);
}

static void want_service(uint8_t method, uint64_t components)
{
	begin(method, VB_SA_SERVICE_RECORD, components);
	vb_put64(wanted, 0x77);
	memcpy(wanted + 8, view.ports[0].gid, VB_SA_GID_SIZE);
	vb_put32(wanted + VB_SA_LEASE_AT, 30);
	wanted[32] = 9;
}

static void a_service_is_registered_as_it_was_named(void **state)
{
	want_service(VB_MAD_SET, 3); /* neither lease nor key count */
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(effect.act, VB_SA_REGISTER);
	assert_int_equal(vb_get16(record + 24), view.own.pkeys[0]);
	assert_int_equal(vb_get32(effect.service + VB_SA_LEASE_AT), VB_SA_LEASE_EVER);
	assert_int_equal(effect.service[32], 0);
	want_service(VB_MAD_SET, 3 | 1 << 4 | 1 << 5);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(vb_get32(record + VB_SA_LEASE_AT), 30);
	assert_int_equal(effect.service[32], 9);
	assert_int_equal(record[32], 0);      /* answers have no key */
	want_service(VB_MAD_SET, 3 | 1 << 2); /* a P_Key that the port does not have */
	vb_put16(wanted + 24, 0x1234);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INVALID);
	want_service(VB_MAD_SET, 1);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_INSUFFICIENT);
	assert_int_equal(effect.act, VB_SA_NOTHING);
}

static void services_are_compared_without_their_lease(void **state)
{
	want_service(VB_MAD_SET, 3 | 1 << 5);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	view.services[0].is_own = true;
	memcpy(view.services[0].record, effect.service, VB_SA_SERVICE_SIZE);
	view.service_count = 1;
	want_service(VB_MAD_GET, 1 | 1 << 4);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(vb_get16(answer + OFFSET_AT), VB_SA_SERVICE_SIZE / 8);
	assert_int_equal(record[32], 0);
	want_service(VB_MAD_GET, UINT64_C(1) << 36); /* the last data */
	wanted[175] = 1;
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_NO_RECORDS);
	want_service(VB_MAD_DELETE, 3);
	assert_int_equal(ask(VB_MAD_SIZE), VB_SA_DENIED);
	want_service(VB_MAD_DELETE, 3 | 1 << 5);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_OK);
	assert_int_equal(effect.act, VB_SA_WITHDRAW);
}

static void other_requests_are_refused(void **state)
{
	begin(VB_MAD_GET_TABLE, 0x20, 0); /* LinkRecord */
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_BAD_ATTRIBUTE);
	begin(VB_MAD_SET, NODE, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_BAD_ATTRIBUTE);
	begin(0x13, PATH, 0);
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_BAD_METHOD);
	begin(VB_MAD_GET, NODE, 0);
	request[2] = 1;
	assert_int_equal(ask(VB_MAD_SIZE), VB_MAD_BAD_VERSION);
	begin(VB_MAD_GET | VB_MAD_RESPONSE, NODE, 0);
	assert_int_equal(vb_sa_answer(&view, request, answer, &effect), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(own_records_are_told, make_view),
		cmocka_unit_test_setup(components_choose_records, make_view),
		cmocka_unit_test_setup(a_table_has_all_paths, make_view),
		cmocka_unit_test_setup(a_path_leads_from_here_to_the_port, make_view),
		cmocka_unit_test_setup(a_port_joins_and_leaves_a_group, make_view),
		cmocka_unit_test_setup(bad_joins_are_refused, make_view),
		cmocka_unit_test_setup(a_service_is_registered_as_it_was_named, make_view),
		cmocka_unit_test_setup(services_are_compared_without_their_lease, make_view),
		cmocka_unit_test_setup(other_requests_are_refused, make_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
