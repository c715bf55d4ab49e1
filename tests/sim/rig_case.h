/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs that test one QP have in common: a rig around each test. */
#ifndef VB_TESTS_SIM_RIG_CASE_H
#define VB_TESTS_SIM_RIG_CASE_H

#include "rig.h"

static struct rig rig;

/* RC: the test opens the rig itself, when its attributes are as it wants them. */
static inline int rig_setup_rc(void **state)
{
	rig_defaults(&rig, IBV_QPT_RC);
	return 0;
}

static inline int rig_setup_uc(void **state)
{
	rig_defaults(&rig, IBV_QPT_UC);
	rig_open(&rig);
	return 0;
}

static inline int rig_setup_ud(void **state)
{
	rig_defaults(&rig, IBV_QPT_UD);
	rig_open(&rig);
	return 0;
}

static inline int rig_teardown(void **state)
{
	rig_close(&rig);
	return 0;
}

#define TEST_RC(name) cmocka_unit_test_setup_teardown(name, rig_setup_rc, rig_teardown)
#define TEST_UC(name) cmocka_unit_test_setup_teardown(name, rig_setup_uc, rig_teardown)
#define TEST_UD(name) cmocka_unit_test_setup_teardown(name, rig_setup_ud, rig_teardown)

#endif
