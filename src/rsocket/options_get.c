/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading options back. */
#include <errno.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/time.h>

#include "rsocket/rsocket.h"

enum { SEGMENT_DEFAULT = 2048 };

static int give(const void *from, socklen_t from_size, void *value, socklen_t *size)
{
	if (*size > from_size)
		*size = from_size;
	memcpy(value, from, *size);
	return 0;
}

static int give_int(int number, void *value, socklen_t *size)
{
	return give(&number, sizeof(number), value, size);
}

static int give_timeout(uint64_t timeout_ns, void *value, socklen_t *size)
{
	const struct timeval time = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_usec = (suseconds_t)(timeout_ns % 1000000000u / 1000),
	};

	return give(&time, sizeof(time), value, size);
}

static int give_error(struct vb_rs *rs, void *value, socklen_t *size)
{
	int error = rs->error;

	rs->error = 0;
	return give_int(error, value, size);
}

static int get_socket(struct vb_rs *rs, int name, void *value, socklen_t *size)
{
	const struct vb_rs_options *options = &rs->options;

	switch (name) {
	case SO_REUSEADDR:
		return give_int(options->reuse_addr, value, size);
	case SO_KEEPALIVE:
		return give_int(options->keepalive, value, size);
	case SO_OOBINLINE:
		return give_int(options->oob_inline, value, size);
	case SO_BROADCAST:
		return give_int(options->broadcast, value, size);
	case SO_RCVBUF:
		return give_int((int)options->receive_size, value, size);
	case SO_SNDBUF:
		return give_int((int)options->send_size, value, size);
	case SO_LINGER:
		return give(&options->linger, sizeof(options->linger), value, size);
	case SO_RCVTIMEO:
		return give_timeout(options->receive_timeout_ns, value, size);
	case SO_SNDTIMEO:
		return give_timeout(options->send_timeout_ns, value, size);
	case SO_ERROR:
		return give_error(rs, value, size);
	case SO_TYPE:
		return give_int(rs->type, value, size);
	case SO_DOMAIN:
		return give_int(rs->domain, value, size);
	case SO_PROTOCOL:
		return give_int(rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP, value, size);
	case SO_ACCEPTCONN:
		return give_int(rs->state == VB_RS_LISTENING, value, size);
	default:
		return -ENOPROTOOPT;
	}
}

static int segment_size(const struct vb_rs *rs)
{
	if (!rs->id || !rs->id->route.num_paths)
		return SEGMENT_DEFAULT;
	return 1 << (7 + rs->id->route.path_rec->mtu);
}

static int give_info(struct vb_rs *rs, void *value, socklen_t *size)
{
	struct tcp_info info = {
		.tcpi_state = rs->state == VB_RS_CONNECTED   ? TCP_ESTABLISHED
			      : rs->state == VB_RS_LISTENING ? TCP_LISTEN
							     : TCP_CLOSE,
		.tcpi_snd_mss = (uint32_t)segment_size(rs),
		.tcpi_rcv_mss = (uint32_t)segment_size(rs),
		.tcpi_snd_cwnd = rs->options.sq_size,
	};

	return give(&info, sizeof(info), value, size);
}

static int get_tcp(struct vb_rs *rs, int name, void *value, socklen_t *size)
{
	const struct vb_rs_options *options = &rs->options;

	switch (name) {
	case TCP_NODELAY:
		return give_int(options->nodelay, value, size);
	case TCP_MAXSEG:
		return give_int(segment_size(rs), value, size);
	case TCP_KEEPIDLE:
		return give_int(options->keep_idle_s, value, size);
	case TCP_KEEPINTVL:
		return give_int(options->keep_interval_s, value, size);
	case TCP_KEEPCNT:
		return give_int(options->keep_count, value, size);
	case TCP_CONGESTION:
		return give("rdma", sizeof("rdma"), value, size);
	case TCP_INFO:
		return give_info(rs, value, size);
	default:
		return -ENOPROTOOPT;
	}
}

/* struct ibv_path_data, as RDMA_ROUTE takes it: "exactly" is 2 in the upper two bits. */
static struct ibv_path_data path_data_of(const struct ibv_sa_path_rec *record)
{
	enum { EXACTLY = 2 << 6 };
	struct ibv_path_data data = { .flags = record->preference };
	struct ibv_path_record *path = &data.path;

	path->dgid = record->dgid;
	path->sgid = record->sgid;
	path->dlid = record->dlid;
	path->slid = record->slid;
	path->flowlabel_hoplimit = htonl(ntohl(record->flow_label) << 8 | record->hop_limit);
	path->tclass = record->traffic_class;
	path->reversible_numpath = (uint8_t)(record->reversible << 7 | 1);
	path->pkey = record->pkey;
	path->qosclass_sl = htons(record->sl);
	path->mtu = record->mtu | EXACTLY;
	path->rate = record->rate | EXACTLY;
	path->packetlifetime = record->packet_life_time | EXACTLY;
	return data;
}

static int give_routes(struct vb_rs *rs, void *value, socklen_t *size)
{
	const struct rdma_route *route = rs->id ? &rs->id->route : NULL;
	socklen_t used = 0;

	if (rs->options.route)
		return *size < rs->options.route_size
			       ? -EINVAL
			       : give(rs->options.route, (socklen_t)rs->options.route_size, value,
				      size);
	if (*size < sizeof(struct ibv_path_data))
		return -EINVAL;
	for (int i = 0; route && i < route->num_paths; i++) {
		const struct ibv_path_data data = path_data_of(&route->path_rec[i]);

		if (used + sizeof(data) > *size)
			break;
		memcpy((char *)value + used, &data, sizeof(data));
		used += sizeof(data);
	}
	*size = used;
	return 0;
}

static int get_rdma(struct vb_rs *rs, int name, void *value, socklen_t *size)
{
	const struct vb_rs_options *options = &rs->options;

	switch (name) {
	case RDMA_SQSIZE:
		return give_int(options->sq_size, value, size);
	case RDMA_RQSIZE:
		return give_int(options->rq_size, value, size);
	case RDMA_INLINE:
		return give_int(rs->stream && rs->cq ? (int)rs->stream->inline_size
						     : options->inline_size,
				value, size);
	case RDMA_IOMAPSIZE:
		return give_int(options->iomap_count, value, size);
	case RDMA_ROUTE:
		return give_routes(rs, value, size);
	default:
		return -ENOPROTOOPT;
	}
}

static int get_option(struct vb_rs *rs, int level, int name, void *value, socklen_t *size)
{
	switch (level) {
	case SOL_SOCKET:
		return get_socket(rs, name, value, size);
	case IPPROTO_TCP:
		return rs->type == SOCK_STREAM ? get_tcp(rs, name, value, size) : -ENOPROTOOPT;
	case IPPROTO_IP:
		return name == IP_TOS ? give_int(rs->options.tos, value, size) : -ENOPROTOOPT;
	case IPPROTO_IPV6:
		return name == IPV6_V6ONLY   ? give_int(rs->options.v6only, value, size)
		       : name == IPV6_TCLASS ? give_int(rs->options.tos, value, size)
					     : -ENOPROTOOPT;
	case SOL_RDMA:
		return get_rdma(rs, name, value, size);
	default:
		return -ENOPROTOOPT;
	}
}

int vb_rs_option_get(struct vb_rs *rs, int level, int name, void *value, socklen_t *size)
{
	int err;

	if (!value || !size)
		return -EFAULT;
	pthread_mutex_lock(&rs->lock);
	err = get_option(rs, level, name, value, size);
	pthread_mutex_unlock(&rs->lock);
	return err;
}
