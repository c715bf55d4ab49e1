/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of profiles share: the profile that is in force, and an opened device. */
#ifndef VB_TESTS_PROFILE_RIG_H
#define VB_TESTS_PROFILE_RIG_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nic/profile.h"

struct rig {
	struct vb_profile profile; /* of VERBENA_AS */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	enum ibv_qp_type type; /* that the device has: RC, else UD */
};

extern struct rig rig;

int rig_open(void **state);
int rig_close(void **state);

/* What the profile comes to on this device. The tests never ask the library for it. */
uint64_t fact(enum vb_fact fact);
static inline bool has(enum vb_fact set, uint64_t bits)
{
	return (fact(set) & bits) == bits;
}

/* The call has failed with this errno. */
#define assert_refused(call, error)             \
	do {                                    \
		errno = 0;                      \
		assert_null(call);              \
		assert_int_equal(errno, error); \
	} while (0)

/* A QP of one send and one receive request, with one element each. */
struct ibv_qp_init_attr qp_init(enum ibv_qp_type type);
void create_and_destroy_qp(struct ibv_qp_init_attr init);
/* An RC QP that is connected to itself, in RTS. */
struct ibv_qp *loop_qp(uint32_t sge);

/* The tests of the other files. */
extern const struct CMUnitTest count_tests[], post_tests[];
extern const size_t count_test_count, post_test_count;

#endif
