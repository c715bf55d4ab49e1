/* SPDX-License-Identifier: BSD-2-Clause */
/* Setting options. */
#include <errno.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

enum { KEEP_IDLE_DEFAULT_S = 7200, KEEP_IDLE_MAX_S = 32767 };

static int read_keep_idle(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");
	int seconds = KEEP_IDLE_DEFAULT_S;

	if (!file)
		return seconds;
	if (fscanf(file, "%d", &seconds) != 1 || seconds < 1)
		seconds = KEEP_IDLE_DEFAULT_S;
	fclose(file);
	return seconds;
}

void vb_rs_options_init(struct vb_rs_options *options)
{
	const struct vb_rs_settings *settings = vb_rs_settings();

	*options = (struct vb_rs_options){
		.receive_size = settings->receive_size,
		.send_size = settings->send_size,
		.sq_size = settings->sq_size,
		.rq_size = settings->rq_size,
		.inline_size = settings->inline_size,
		.iomap_count = settings->iomap_count,
		.keep_idle_s = read_keep_idle(),
		.keep_interval_s = 75,
		.keep_count = 9,
	};
}

void vb_rs_options_inherit(struct vb_rs_options *to, const struct vb_rs_options *from)
{
	*to = *from;
	to->route = NULL;
	to->route_size = 0;
}

/* The value is doubled, as in the kernel: one half keeps the other one in motion. */
static uint32_t buffer_size(int value)
{
	const unsigned size = value < 0 ? VB_RS_BUFFER_MAX : (unsigned)value;

	if (size > VB_RS_BUFFER_MAX / 2)
		return VB_RS_BUFFER_MAX;
	return 2 * size < VB_RS_BUFFER_MIN ? VB_RS_BUFFER_MIN : 2 * size;
}

static uint16_t queue_size(int value)
{
	const unsigned size = (unsigned)value;

	return size < VB_RS_QUEUE_MIN   ? VB_RS_QUEUE_MIN
	       : size > VB_RS_QUEUE_MAX ? VB_RS_QUEUE_MAX
					: (uint16_t)size;
}

static int set_id_option(struct vb_rs *rs, int name, const void *value, size_t size)
{
	if (!rs->id)
		return 0;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, name, (void *)value, size) ? -errno : 0;
}

static int set_flag(struct vb_rs *rs, bool *flag, int id_option, int value)
{
	int on = !!value;
	int err = set_id_option(rs, id_option, &on, sizeof(on));

	if (!err)
		*flag = on;
	return err;
}

static int set_timeout(uint64_t *timeout_ns, const void *value, socklen_t size)
{
	struct timeval time;

	if (size < sizeof(time))
		return -EINVAL;
	memcpy(&time, value, sizeof(time));
	if (time.tv_usec < 0 || time.tv_usec >= 1000000)
		return -EDOM;
	*timeout_ns = time.tv_sec < 0 ? 1
				      : (uint64_t)time.tv_sec * 1000000000u +
						(uint64_t)time.tv_usec * 1000u;
	return 0;
}

static int set_linger(struct vb_rs *rs, const void *value, socklen_t size)
{
	if (size < sizeof(struct linger))
		return -EINVAL;
	memcpy(&rs->options.linger, value, sizeof(struct linger));
	return 0;
}

/* An existing connection keeps its buffers. */
static bool has_buffers(const struct vb_rs *rs)
{
	return rs->cq;
}

static int set_socket_int(struct vb_rs *rs, int name, int value)
{
	struct vb_rs_options *options = &rs->options;

	switch (name) {
	case SO_REUSEADDR:
		return set_flag(rs, &options->reuse_addr, RDMA_OPTION_ID_REUSEADDR, value);
	case SO_RCVBUF:
		if (!has_buffers(rs))
			options->receive_size = buffer_size(value);
		return 0;
	case SO_SNDBUF:
		if (!has_buffers(rs))
			options->send_size = buffer_size(value);
		return 0;
	case SO_KEEPALIVE:
		options->keepalive = value;
		if (rs->type == SOCK_STREAM)
			vb_rs_service_keepalive(rs);
		return 0;
	case SO_OOBINLINE:
		options->oob_inline = value;
		return 0;
	case SO_BROADCAST:
		options->broadcast = value;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_tcp(struct vb_rs *rs, int name, int value)
{
	struct vb_rs_options *options = &rs->options;

	switch (name) {
	case TCP_NODELAY:
		options->nodelay = value; /* no data are ever held back */
		return 0;
	case TCP_KEEPIDLE:
		if (value < 1 || value > KEEP_IDLE_MAX_S)
			return -EINVAL;
		options->keep_idle_s = value;
		vb_rs_service_keepalive(rs);
		return 0;
	case TCP_KEEPINTVL:
		options->keep_interval_s = value; /* only kept: the QP has its own retries */
		return value < 1 ? -EINVAL : 0;
	case TCP_KEEPCNT:
		options->keep_count = value;
		return value < 1 ? -EINVAL : 0;
	case TCP_MAXSEG: /* the path decides */
	case TCP_CONGESTION:
	case TCP_QUICKACK:
	case TCP_CORK:
	case TCP_USER_TIMEOUT:
	case TCP_DEFER_ACCEPT:
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int keep_route(struct vb_rs *rs, const void *value, socklen_t size)
{
	void *copy;

	if (!size || size % sizeof(struct ibv_path_data))
		return -EINVAL;
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, value, size);
	free(rs->options.route);
	rs->options.route = copy;
	rs->options.route_size = size;
	return 0;
}

static int set_rdma(struct vb_rs *rs, int name, const void *value, socklen_t size)
{
	struct vb_rs_options *options = &rs->options;
	int number = 0;

	if (rs->state > VB_RS_LISTENING)
		return -EINVAL;
	if (name == RDMA_ROUTE)
		return keep_route(rs, value, size);
	if (size < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	if (number < 0)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		options->sq_size = queue_size(number);
		return 0;
	case RDMA_RQSIZE:
		options->rq_size = queue_size(number);
		return 0;
	case RDMA_INLINE:
		options->inline_size = (uint16_t)(number > 0xffff ? 0xffff : number);
		return 0;
	case RDMA_IOMAPSIZE:
		options->iomap_count = (uint16_t)vb_rs_unscale(vb_rs_scale((unsigned)number));
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_int(struct vb_rs *rs, int level, int name, int value)
{
	uint8_t tos = (uint8_t)value;
	int err;

	if (level == SOL_SOCKET)
		return set_socket_int(rs, name, value);
	if (level == IPPROTO_TCP && rs->type == SOCK_STREAM)
		return set_tcp(rs, name, value);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return rs->domain == AF_INET6
			       ? set_flag(rs, &rs->options.v6only, RDMA_OPTION_ID_AFONLY, value)
			       : -ENOPROTOOPT;
	if ((level == IPPROTO_IP && name == IP_TOS) ||
	    (level == IPPROTO_IPV6 && name == IPV6_TCLASS)) {
		err = set_id_option(rs, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
		rs->options.tos = err ? rs->options.tos : value & 0xff;
		return err;
	}
	return -ENOPROTOOPT;
}

static int set_option(struct vb_rs *rs, int level, int name, const void *value, socklen_t size)
{
	int number;

	if (level == SOL_RDMA)
		return set_rdma(rs, name, value, size);
	if (level == SOL_SOCKET && name == SO_LINGER)
		return set_linger(rs, value, size);
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		return set_timeout(&rs->options.receive_timeout_ns, value, size);
	if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		return set_timeout(&rs->options.send_timeout_ns, value, size);
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return rs->type == SOCK_STREAM ? 0 : -ENOPROTOOPT;
	if (size < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	return set_int(rs, level, name, number);
}

int vb_rs_option_set(struct vb_rs *rs, int level, int name, const void *value, socklen_t size)
{
	int err;

	if (!value)
		return -EFAULT;
	pthread_mutex_lock(&rs->lock);
	err = set_option(rs, level, name, value, size);
	if (!err && rs->type == SOCK_DGRAM && level != SOL_RDMA)
		err = vb_rs_datagram_option(rs, level, name, value, size);
	pthread_mutex_unlock(&rs->lock);
	return err;
}
