/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device says of itself: flags, speeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "nic/device.h"

/* 0: on lo, 1: InfiniBand. */
static const struct vb_device *device(int index)
{
	struct vb_device *const *table;

	assert_int_equal(vb_device_table(&table), 2);
	return table[index];
}

/* What works, and nothing else: each bit has a test of its own elsewhere. */
static void capabilities_are_what_works(void **state)
{
	const unsigned common = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD |
				IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
				IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
				IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;

	vb_device_attr(device(0), &attr);
	assert_int_equal(attr.orig_attr.device_cap_flags,
			 common | IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING);
	vb_device_attr(device(1), &attr);
	assert_int_equal(attr.orig_attr.device_cap_flags, common | IBV_DEVICE_AUTO_PATH_MIG);
	assert_int_equal(vb_device_port_attr(device(0), 1, &port), 0);
	assert_int_equal(port.port_cap_flags,
			 IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
	assert_int_equal(vb_device_port_attr(device(1), 1, &port), 0);
	assert_true(port.port_cap_flags & IBV_PORT_AUTO_MIGR_SUP);
	assert_true(port.port_cap_flags & IBV_PORT_CLIENT_REG_SUP);
	/* The second mask is there, as the first one says. */
	assert_true(port.port_cap_flags & IBV_PORT_CAP_MASK2_SUP && port.port_cap_flags2);
}

static void speeds_are_those_of_linux(void **state)
{
	static const struct {
		unsigned mbps, width, speed;
	} rows[] = {
		{ 10, VB_WIDTH_1X, VB_SPEED_SDR },      { 1000, VB_WIDTH_1X, VB_SPEED_SDR },
		{ 2500, VB_WIDTH_1X, VB_SPEED_FDR10 },  { 10000, VB_WIDTH_1X, VB_SPEED_FDR10 },
		{ 20000, VB_WIDTH_4X, VB_SPEED_DDR },   { 25000, VB_WIDTH_1X, VB_SPEED_EDR },
		{ 40000, VB_WIDTH_4X, VB_SPEED_FDR10 }, { 50000, VB_WIDTH_2X, VB_SPEED_EDR },
		{ 100000, VB_WIDTH_4X, VB_SPEED_EDR },  { 200000, VB_WIDTH_4X, VB_SPEED_HDR },
		{ 400000, VB_WIDTH_4X, VB_SPEED_NDR },  { 800000, VB_WIDTH_4X, VB_SPEED_XDR },
		{ 0, VB_WIDTH_4X, VB_SPEED_EDR }, /* unknown */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct vb_link_rate rate = vb_link_rate(rows[i].mbps);

		assert_int_equal(rate.width, rows[i].width);
		assert_int_equal(rate.speed, rows[i].speed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capabilities_are_what_works),
		cmocka_unit_test(speeds_are_those_of_linux),
	};

	setenv("VERBENA_DEVICES", "lo,ib", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
