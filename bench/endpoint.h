/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs that several programs here need: a device, a buffer, RC queue pairs, a connection. */
#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { ENDPOINT_PORT = 1 };

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	void *buffer;
	int gid_index;
	union ibv_gid gid;
	uint16_t lid;
};

/* The address of a QP, for the other side; plain bytes, sent through a socket. */
struct address {
	union ibv_gid gid;
	uint64_t buffer;
	uint32_t rkey;
	uint32_t qpn;
	uint16_t lid;
};

struct ibv_context *endpoint_open_device(void); /* the first of the list */
void endpoint_open(struct endpoint *endpoint, size_t buffer_size, int cqe);

struct ibv_qp *endpoint_create_qp(const struct endpoint *endpoint, struct ibv_cq *cq,
				  uint32_t depth);
struct address endpoint_address(const struct endpoint *endpoint, const struct ibv_qp *qp);
void endpoint_connect(const struct endpoint *endpoint, struct ibv_qp *qp,
		      const struct address *peer);

/* Polls until `count` completions have come. A completion with an error ends the program. */
void endpoint_reap(struct ibv_cq *cq, int count);

#endif
