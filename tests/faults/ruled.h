/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that has read its rules, and the duet in it. Rules are read once, hence children. */
#ifndef VB_TESTS_FAULTS_RULED_H
#define VB_TESTS_FAULTS_RULED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../unit/child.h"
#include "duet.h"

static struct duet *duet;

/* Rules, then two QPs; false: see errno. */
static inline bool start(const char *rules, enum ibv_qp_type type)
{
	setenv("VERBENA_FAULTS", rules, 1);
	duet = duet_open(type);
	return duet;
}

#define starts(rules, type) child_check(start(rules, type))
#define sent(slot, status)  child_check(duet_expect(duet->send_cq, slot, IBV_WC_##status))
#define got(slot, status)   child_check(duet_expect(duet->recv_cq, slot, IBV_WC_##status))
#define nothing(cq)         child_check(ibv_poll_cq(cq, 1, &(struct ibv_wc){ 0 }) == 0)

#endif
