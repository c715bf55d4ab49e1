/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the made-up system library tells the test about itself. Both reach it through the device,
 * because the library is in a namespace of its own: the test cannot look a name up there.
 */
#ifndef TESTS_BESIDE_FAKE_H
#define TESTS_BESIDE_FAKE_H

#include <infiniband/verbs.h>

enum {
	FAKE_GUID = 0x1234,
	FAKE_INDEX = 77,
	FAKE_FD = 1000,       /* ibv_import_device takes this one */
	FAKE_ERRNO = EUCLEAN, /* of calls that fail; Verbena has no use for it */
	FAKE_ODD = 13,        /* an argument with which calls fail */
	FAKE_POSTED = 4711,   /* what its post_send returns */
};

/* Its librdmacm knows 192.0.2.0/24 as addresses of its device. */
#define FAKE_ADDRESS "192.0.2.1"

struct fake_device {
	struct ibv_device ibv; /* first */
	int lists;             /* not given back yet */
	int contexts, pds, mrs, cqs, qps, channels, mws;
	int registered; /* its provider has called verbs_register_driver_34 of this library */
	int commands;   /* and ibv_cmd_get_context */
	int forks;      /* calls of ibv_fork_init */
	int acks;       /* of asynchronous events */
	int cq_acks;
	int ids, cm_channels;
	int cm_events;     /* fetched and not acknowledged */
	int refused_binds; /* so many binds to a wildcard find their port in use */
	int cm_fails;      /* rdma_connect fails */
	int cm_options;    /* calls of rdma_set_option */
	int letters;       /* what isalpha has said, in the thread that called last */
};

#endif
