/* SPDX-License-Identifier: BSD-2-Clause */
/* Two programs on two hosts that meet over TCP and then talk by LID: what they have in common. */
#ifndef VPI_PAIR_H
#define VPI_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VPI_DEADLINE_S = 40 };

struct vpi {
	bool client;
	const char *command; /* -x */
	int sock;
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
};

void vpi_must(bool ok, const char *what);
/* PROGRAM -p PORT [-x COMMAND] [ADDRESS]: opens the InfiniBand device, makes a QP over the buffer,
 * and meets the other one. */
void vpi_open(struct vpi *vpi, int argc, char **argv, enum ibv_qp_type type, void *buffer,
	      size_t size);
/* Both say it and hear it: neither is ahead of the other. */
void vpi_exchange(struct vpi *vpi, const void *mine, void *other, size_t size);
void vpi_meet(struct vpi *vpi);
void vpi_modify(struct vpi *vpi, struct ibv_qp_attr *attr, int mask, const char *what);
/* An RC QP from RESET to RTS; attr has what is common to all, the masks what is told besides. */
void vpi_connect(struct vpi *vpi, struct ibv_qp_attr *attr, int with_rtr, int with_rts);
void vpi_recv(struct vpi *vpi, void *to, uint32_t length);
/* One completion, which has to be good. */
struct ibv_wc vpi_wait(struct vpi *vpi);

#endif
