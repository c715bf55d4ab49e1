/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported query calls: sizes of the caller, and the error convention of each man page. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "verbs/ops.h"

#undef ibv_get_device_list
#undef ibv_query_port

static struct ibv_device **list;
static struct ibv_context context, infiniband;

static int open_devices(void **state)
{
	int count = -1;

	setenv("VERBENA_DEVICES", "lo,ib", 1);
	list = ibv_get_device_list(&count);
	if (!list || count != 2 || list[2])
		return -1;
	context.device = list[0];
	infiniband.device = list[1];
	return 0;
}

static int close_devices(void **state)
{
	ibv_free_device_list(list);
	return 0;
}

/* How many bytes of a buffer full of 0xee were written, which must be a prefix. */
static size_t written(const unsigned char *buffer, size_t size)
{
	while (size && buffer[size - 1] == 0xee)
		size--;
	return size;
}

static void query_port_writes_what_the_caller_has_room_for(void **state)
{
	static const size_t sizes[] = { 48, 52, 56, 60 };
	unsigned char buffer[80];
	struct ibv_port_attr attr;
	uint32_t speed;

	for (size_t i = 0; i < 4; i++) {
		memset(buffer, 0xee, sizeof(buffer));
		assert_int_equal(vb_ops_query_port(&context, 1, (void *)buffer, sizes[i]), 0);
		assert_int_equal(written(buffer, sizeof(buffer)), sizes[i]);
		memcpy(&attr, buffer, 48);
		assert_int_equal(attr.gid_tbl_len, VB_GIDS);
		assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	}
	/* Newer headers have active_speed_ex there. */
	memcpy(&speed, buffer + 52, sizeof(speed));
	assert_int_equal(speed, attr.active_speed);
	assert_true(speed);
}

static void the_old_query_port_writes_48_bytes(void **state)
{
	unsigned char buffer[80];

	memset(buffer, 0xee, sizeof(buffer));
	assert_int_equal(ibv_query_port(&context, 1, (void *)buffer), 0);
	assert_int_equal(written(buffer, sizeof(buffer)), 48);
}

static void query_device_ex_writes_what_the_caller_has_room_for(void **state)
{
	const size_t sizes[] = { sizeof(struct ibv_device_attr), sizeof(struct ibv_device_attr_ex),
				 sizeof(struct ibv_device_attr_ex) + 24 };
	const struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	unsigned char buffer[512];

	for (size_t i = 0; i < 3; i++) {
		memset(buffer, 0xee, sizeof(buffer));
		assert_int_equal(vb_ops_query_device_ex(&context, NULL, (void *)buffer, sizes[i]),
				 0);
		assert_int_equal(written(buffer, sizeof(buffer)), sizes[i]);
	}
	assert_int_equal(vb_ops_query_device_ex(&context, &input, (void *)buffer, 400), EINVAL);
}

static void errors_are_told_as_each_man_page_says(void **state)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;
	int type;

	assert_int_equal(vb_ops_query_port(&context, 2, &port, sizeof(port)), EINVAL);
	errno = 0;
	assert_int_equal(ibv_query_gid(&context, 2, 0, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(&context, 1, VB_GIDS, &gid), -1);
	assert_int_equal(ibv_query_gid(&context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_pkey(&context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(&context, 1, 0x1234), -1);
	assert_int_equal(vb_verbs_gid_type(&context, 1, VB_GIDS, &type), -1);
	assert_int_equal(ibv_query_gid_ex(&context, 1, VB_GIDS, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(&context, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(&context, 1, 0, &entry, 1), EINVAL);
	assert_int_equal(ibv_query_gid_ex(&context, 1, VB_GIDS - 1, &entry, 0), ENODATA);
}

static void every_index_answers(void **state)
{
	union ibv_gid gid;
	__be16 pkey = 0;
	int type = -1;

	for (int i = 0; i < VB_GIDS; i++)
		assert_int_equal(ibv_query_gid(&context, 1, i, &gid), 0);
	assert_int_equal(ibv_query_pkey(&context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(&context, 1, pkey), 0);
	assert_int_equal(vb_verbs_gid_type(&context, 1, 0, &type), 0);
	assert_int_equal(type, 1);
	assert_int_equal(vb_verbs_gid_type(&infiniband, 1, 0, &type), 0);
	assert_int_equal(type, 0);
}

static void the_gid_table_holds_valid_entries_only(void **state)
{
	struct ibv_gid_entry entries[VB_GIDS];
	ssize_t count = ibv_query_gid_table(&context, entries, VB_GIDS, 0);

	assert_int_equal(count, 3); /* lo: link-local, 127.0.0.1, ::1 */
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(entries[i].gid_index, i);
		assert_int_equal(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
	}
	assert_int_equal(ibv_query_gid_table(&context, entries, 2, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(&context, entries, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(&infiniband, entries, VB_GIDS, 0), 1);
}

/* A program built with later headers passes a larger entry: the stride is the program's. */
static void the_gid_table_has_the_stride_of_the_caller(void **state)
{
	enum { STRIDE = sizeof(struct ibv_gid_entry) + 8 };
	unsigned char buffer[4 * STRIDE];
	struct ibv_gid_entry entry;

	memset(buffer, 0xee, sizeof(buffer));
	assert_int_equal(_ibv_query_gid_table(&context, (void *)buffer, 4, 0, STRIDE), 3);
	assert_int_equal(written(buffer, sizeof(buffer)), 3 * STRIDE);
	memcpy(&entry, buffer + 2 * STRIDE, sizeof(entry));
	assert_int_equal(entry.gid_index, 2);
	assert_int_equal(_ibv_query_gid_table(&context, (void *)buffer, 4, 0, 16), -EINVAL);
}

static void devices_have_names_and_guids(void **state)
{
	assert_string_equal(ibv_get_device_name(list[1]), "verbena1");
	assert_true(ibv_get_device_guid(list[0]) != 0);
	assert_true(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
}

/*
 * -1: the kernel has no index for the device, so that nobody asks NETLINK_RDMA about another one.
 */
static void devices_have_no_index_in_the_kernel(void **state)
{
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	assert_int_equal(ibv_get_device_index(list[1]), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_port_writes_what_the_caller_has_room_for),
		cmocka_unit_test(the_old_query_port_writes_48_bytes),
		cmocka_unit_test(query_device_ex_writes_what_the_caller_has_room_for),
		cmocka_unit_test(errors_are_told_as_each_man_page_says),
		cmocka_unit_test(every_index_answers),
		cmocka_unit_test(the_gid_table_holds_valid_entries_only),
		cmocka_unit_test(the_gid_table_has_the_stride_of_the_caller),
		cmocka_unit_test(devices_have_names_and_guids),
		cmocka_unit_test(devices_have_no_index_in_the_kernel),
	};

	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
