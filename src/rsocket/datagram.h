/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets. A UDP socket has the name, and finds the QPs of peers. A UD QP carries a
 * datagram that fits into one packet to a peer whose QP is known. The UDP socket carries all other
 * datagrams, so no datagram is lost that UDP could carry. Callers hold the rsocket's lock unless a
 * comment says otherwise.
 */
#ifndef VB_RSOCKET_DATAGRAM_H
#define VB_RSOCKET_DATAGRAM_H

#include "rsocket/service.h"

enum {
	VB_RS_SLOT_SIZE = 40 + 4096, /* a GRH and the largest packet */
	VB_RS_SEND_SLOTS = 64,
	VB_RS_WAITING_MAX = 256, /* unread datagrams that came through UDP */
};

/* A destination of datagrams. */
struct vb_rs_dest {
	struct vb_list node;
	union vb_rs_addr addr, source; /* source: the own address on the way to addr */
	struct ibv_ah *ah;             /* NULL: the QP is not known */
	uint32_t qpn;
	uint64_t known_at_ns; /* the time when the peer told qpn last */
	union ibv_gid gid;
	uint16_t lid; /* InfiniBand, else 0 */
	uint8_t sgid_index;
	bool resolved;          /* gid, lid, sgid_index and source are known */
	bool never;             /* UD cannot reach it: always UDP */
	uint64_t resolve_at_ns; /* the neighbour was unknown: no try before this time */
};

/* An unread datagram. */
struct vb_rs_waiting {
	struct vb_list node;
	union vb_rs_addr source;
	uint32_t size;
	uint32_t offset; /* of the bytes: in the slot, or in bytes[] */
	int slot;        /* of the receive buffer; -1: bytes[] */
	uint8_t bytes[];
};

struct vb_rs_datagram {
	struct vb_rs_service_watch watch;
	struct vb_rs *rs;
	bool watched, connected;
	struct vb_list dests;
	unsigned dest_count;
	struct vb_list waiting;
	unsigned waiting_count; /* of them, those that came through UDP */

	struct ibv_context *verbs; /* of the device; id keeps it open */
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	uint8_t port_num;
	uint32_t mtu;
	uint32_t slots; /* posted receives at most */
	struct ibv_mr *mr;
	uint8_t *buffer; /* send slots, then receive slots */
	uint32_t send_next, send_free;
};

/* Without the lock. */
int vb_rs_datagram_create(struct vb_rs *rs);
void vb_rs_datagram_close(struct vb_rs *rs);
void vb_rs_datagram_destroy(struct vb_rs *rs);
int vb_rs_datagram_name(struct vb_rs *rs, struct sockaddr *addr, socklen_t *size);
int vb_rs_datagram_connect(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size);
ssize_t vb_rs_datagram_send(struct vb_rs *rs, const struct iovec *iov, int count, int flags,
			    const struct sockaddr *addr, socklen_t size);
ssize_t vb_rs_datagram_recv(struct vb_rs *rs, const struct iovec *iov, int count, int *flags,
			    union vb_rs_addr *source);

int vb_rs_datagram_bind(struct vb_rs *rs, const struct sockaddr *addr, socklen_t size);
bool vb_rs_datagram_is_connected(const struct vb_rs *rs);
int vb_rs_datagram_option(struct vb_rs *rs, int level, int name, const void *value, socklen_t size);
short vb_rs_datagram_events(struct vb_rs *rs);
void vb_rs_datagram_progress(struct vb_rs *rs);
/* A connected rsocket takes datagrams of its peer only. */
bool vb_rs_datagram_is_welcome(const struct vb_rs *rs, const union vb_rs_addr *source);

/* --- datagram_qp.c --- */
struct vb_rs_dest *vb_rs_dest_find(struct vb_rs *rs, const union vb_rs_addr *addr);
/* Finds the path to dest. The first path makes the QP. */
int vb_rs_dest_resolve(struct vb_rs *rs, struct vb_rs_dest *dest);
int vb_rs_dest_set_qpn(struct vb_rs *rs, struct vb_rs_dest *dest, uint32_t qpn);
int vb_rs_datagram_post_receive(struct vb_rs *rs, uint32_t slot);
void vb_rs_datagram_qp_destroy(struct vb_rs *rs);
static inline uint8_t *vb_rs_send_slot(const struct vb_rs_datagram *datagram, uint32_t index)
{
	return datagram->buffer + (size_t)index * VB_RS_SLOT_SIZE;
}
static inline uint8_t *vb_rs_recv_slot(const struct vb_rs_datagram *datagram, uint32_t index)
{
	return vb_rs_send_slot(datagram, VB_RS_SEND_SLOTS + index);
}

/* --- datagram_udp.c: in the service thread --- */
void vb_rs_datagram_udp_ready(struct vb_rs_service_watch *watch);

#endif
