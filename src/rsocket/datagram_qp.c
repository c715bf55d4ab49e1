/* SPDX-License-Identifier: BSD-2-Clause */
/* The UD QP of a datagram rsocket, and the paths to its destinations. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/datagram.h"

enum {
	/* No wait for a neighbour: the datagram goes through UDP, and the kernel finds it. */
	RESOLVE_TIMEOUT_MS = 0,
	DESTS_MAX = 1024,
	SLOTS_MIN = 64,
	SLOTS_MAX = 1024,
	HOP_LIMIT = 64,
};

#define RESOLVE_AGAIN_NS 100000000u

static bool same_addr(const union vb_rs_addr *a, const union vb_rs_addr *b)
{
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port &&
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port &&
	       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

static void dest_free(struct vb_rs_datagram *datagram, struct vb_rs_dest *dest)
{
	vb_list_remove(&dest->node);
	datagram->dest_count--;
	if (dest->ah)
		ibv_destroy_ah(dest->ah);
	free(dest);
}

struct vb_rs_dest *vb_rs_dest_find(struct vb_rs *rs, const union vb_rs_addr *addr)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	struct vb_rs_dest *dest;

	vb_list_for(known, &datagram->dests, struct vb_rs_dest, node) {
		if (same_addr(&known->addr, addr))
			return known;
	}
	/* A program with more destinations resolves the forgotten one again. */
	if (datagram->dest_count == DESTS_MAX)
		dest_free(datagram, vb_container(datagram->dests.next, struct vb_rs_dest, node));
	dest = calloc(1, sizeof(*dest));
	if (!dest)
		return NULL;
	dest->addr = *addr;
	vb_list_append(&datagram->dests, &dest->node);
	datagram->dest_count++;
	return dest;
}

static bool is_zero_gid(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

/* The index of the GID *wanted. any: that of the first GID of the same family, set in *wanted. */
static int find_gid(const struct vb_rs_datagram *datagram, union ibv_gid *wanted, bool any)
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED(wanted->raw);
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(datagram->verbs, datagram->port_num, &port))
		return -EIO;
	for (int i = 0; i < port.gid_tbl_len && i < 256; i++) {
		if (ibv_query_gid(datagram->verbs, datagram->port_num, i, &gid) ||
		    is_zero_gid(&gid))
			continue;
		if (any ? v4 == !!IN6_IS_ADDR_V4MAPPED(gid.raw)
			: !memcmp(&gid, wanted, sizeof(gid))) {
			*wanted = gid;
			return i;
		}
	}
	return -EADDRNOTAVAIL;
}

static bool is_loopback(const union vb_rs_addr *addr)
{
	return addr->sa.sa_family == AF_INET ? ntohl(addr->in.sin_addr.s_addr) >> 24 == 127
					     : IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
}

/* Sets both GIDs of dest. For a loopback address both are a GID of the device. */
static int find_gids(const struct vb_rs_datagram *datagram, struct vb_rs_dest *dest,
		     union ibv_gid sgid)
{
	int index = find_gid(datagram, &sgid, false);

	if (index < 0 && is_loopback(&dest->addr)) {
		index = find_gid(datagram, &sgid, true);
		dest->gid = sgid;
	}
	if (index < 0)
		return index;
	dest->sgid_index = (uint8_t)index;
	return 0;
}

static int create_ud_cq(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;

	rs->channel = ibv_create_comp_channel(datagram->verbs);
	if (!rs->channel || fcntl(rs->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	rs->cq = ibv_create_cq(datagram->verbs, (int)(VB_RS_SEND_SLOTS + datagram->slots), rs,
			       rs->channel, 0);
	return rs->cq ? 0 : -errno;
}

static int create_buffer(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	const size_t size = (size_t)(VB_RS_SEND_SLOTS + datagram->slots) * VB_RS_SLOT_SIZE;
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -ENOMEM;
	datagram->buffer = pages;
	datagram->mr = ibv_reg_mr(datagram->pd, pages, size, IBV_ACCESS_LOCAL_WRITE);
	return datagram->mr ? 0 : -errno;
}

static int create_ud_qp(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	struct ibv_qp_init_attr attr = {
		.send_cq = rs->cq,
		.recv_cq = rs->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = VB_RS_SEND_SLOTS,
			 .max_recv_wr = datagram->slots,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	datagram->qp = ibv_create_qp(datagram->pd, &attr);
	return datagram->qp ? 0 : -errno;
}

static int start_qp(const struct vb_rs_datagram *datagram)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = datagram->port_num,
		.qkey = RDMA_UDP_QKEY,
	};
	int err = ibv_modify_qp(datagram->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	err = err ? err : ibv_modify_qp(datagram->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	err = err ? err : ibv_modify_qp(datagram->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -err;
}

int vb_rs_datagram_post_receive(struct vb_rs *rs, uint32_t slot)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	struct ibv_sge sge = { (uintptr_t)vb_rs_recv_slot(datagram, slot), VB_RS_SLOT_SIZE,
			       datagram->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = vb_rs_wr_id(VB_RS_WORK_RECEIVE, slot),
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	return -ibv_post_recv(datagram->qp, &wr, &bad);
}

static int read_mtu(struct vb_rs_datagram *datagram)
{
	struct ibv_port_attr port;
	int err = ibv_query_port(datagram->verbs, datagram->port_num, &port);

	datagram->mtu = err ? 0 : 128u << port.active_mtu;
	return -err;
}

static void destroy_ud_qp(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;

	if (datagram->qp)
		ibv_destroy_qp(datagram->qp);
	if (rs->cq)
		ibv_destroy_cq(rs->cq);
	if (rs->channel)
		ibv_destroy_comp_channel(rs->channel);
	if (datagram->mr)
		ibv_dereg_mr(datagram->mr);
	if (datagram->buffer)
		munmap(datagram->buffer,
		       (size_t)(VB_RS_SEND_SLOTS + datagram->slots) * VB_RS_SLOT_SIZE);
	if (datagram->pd)
		ibv_dealloc_pd(datagram->pd);
	if (datagram->id)
		rdma_destroy_id(datagram->id);
	rs->cq = NULL;
	rs->channel = NULL;
	rs->armed = false;
	datagram->qp = NULL;
	datagram->mr = NULL;
	datagram->buffer = NULL;
	datagram->pd = NULL;
	datagram->id = NULL;
}

static int make_ud_qp(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;
	int err = read_mtu(datagram);

	datagram->slots = rs->options.receive_size / 2048;
	datagram->slots = datagram->slots < SLOTS_MIN   ? SLOTS_MIN
			  : datagram->slots > SLOTS_MAX ? SLOTS_MAX
							: datagram->slots;
	datagram->send_free = VB_RS_SEND_SLOTS;
	datagram->pd = ibv_alloc_pd(datagram->verbs);
	if (!err && !datagram->pd)
		err = -errno;
	err = err ? err : create_ud_cq(rs);
	err = err ? err : create_buffer(rs);
	err = err ? err : create_ud_qp(rs);
	err = err ? err : start_qp(datagram);
	for (uint32_t slot = 0; !err && slot < datagram->slots; slot++)
		err = vb_rs_datagram_post_receive(rs, slot);
	if (err)
		destroy_ud_qp(rs); /* dests stay: the caller uses one of them */
	else
		vb_rs_notify(rs, NULL); /* sleepers have a channel to poll now */
	return err;
}

/* Takes over the id, and makes the QP on its device if there is none. */
static int adopt_device(struct vb_rs *rs, struct rdma_cm_id *id)
{
	struct vb_rs_datagram *datagram = rs->datagram;

	if (datagram->qp) {
		const bool same =
			datagram->verbs == id->verbs && datagram->port_num == id->port_num;

		rdma_destroy_id(id);
		return same ? 0 : -ENETUNREACH;
	}
	datagram->id = id;
	datagram->verbs = id->verbs;
	datagram->port_num = id->port_num;
	return make_ud_qp(rs);
}

static bool is_any(const union vb_rs_addr *addr)
{
	return addr->sa.sa_family == AF_INET ? addr->in.sin_addr.s_addr == htonl(INADDR_ANY)
					     : IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

/* Finds the source address of UDP datagrams to dest, because the peer knows this address. */
static int find_source(struct vb_rs *rs, struct vb_rs_dest *dest)
{
	const socklen_t addr_size =
		rs->domain == AF_INET ? sizeof(dest->addr.in) : sizeof(dest->addr.in6);
	socklen_t size = sizeof(dest->source);
	int fd, err = 0;

	dest->source = rs->local;
	if (!is_any(&rs->local))
		return 0;
	fd = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, &dest->addr.sa, addr_size) || getsockname(fd, &dest->source.sa, &size))
		err = -errno;
	close(fd);
	dest->source.in.sin_port = rs->local.in.sin_port; /* IPv6 has it at the same place */
	return err;
}

static int resolve_dest(struct vb_rs *rs, struct vb_rs_dest *dest)
{
	struct rdma_cm_id *id;
	union ibv_gid sgid;
	int err;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP))
		return -errno;
	if (rdma_resolve_addr(id, NULL, &dest->addr.sa, RESOLVE_TIMEOUT_MS) ||
	    rdma_resolve_route(id, RESOLVE_TIMEOUT_MS)) {
		err = -errno;
		rdma_destroy_id(id);
		return err;
	}
	dest->gid = id->route.addr.addr.ibaddr.dgid;
	dest->lid = be16toh(id->route.path_rec->dlid);
	sgid = id->route.addr.addr.ibaddr.sgid;
	err = adopt_device(rs, id);
	if (!err)
		err = find_source(rs, dest);
	return err ? err : find_gids(rs->datagram, dest, sgid);
}

int vb_rs_dest_resolve(struct vb_rs *rs, struct vb_rs_dest *dest)
{
	int err;

	if (dest->resolved)
		return 0;
	if (dest->never || vb_now_ns() < dest->resolve_at_ns)
		return -ENETUNREACH;
	err = resolve_dest(rs, dest);
	dest->resolved = !err;
	dest->never = err && err != -ETIMEDOUT;
	if (err)
		dest->resolve_at_ns = vb_now_ns() + RESOLVE_AGAIN_NS;
	return err;
}

int vb_rs_dest_set_qpn(struct vb_rs *rs, struct vb_rs_dest *dest, uint32_t qpn)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = dest->gid,
			 .sgid_index = dest->sgid_index,
			 .hop_limit = HOP_LIMIT },
		.dlid = dest->lid,
		.is_global = !dest->lid,
		.port_num = rs->datagram->port_num,
	};

	if (!dest->resolved)
		return -ENETUNREACH;
	if (!dest->ah)
		dest->ah = ibv_create_ah(rs->datagram->pd, &attr);
	dest->qpn = qpn;
	dest->known_at_ns = vb_now_ns();
	return dest->ah ? 0 : -errno;
}

void vb_rs_datagram_qp_destroy(struct vb_rs *rs)
{
	struct vb_rs_datagram *datagram = rs->datagram;

	vb_list_for(dest, &datagram->dests, struct vb_rs_dest, node) {
		dest_free(datagram, dest);
	}
	destroy_ud_qp(rs);
}
