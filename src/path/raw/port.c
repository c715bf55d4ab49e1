/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket of an interface: the first QP opens it, the first flow binds it to receive. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "base/fd.h"
#include "base/log.h"
#include "net/netif.h"
#include "path/raw/raw.h"

enum { BUFFER_BYTES = 8 << 20 };

_Atomic unsigned vb_raw_listening;

/* Ports are added under the callers' lock, and never removed: readers need no lock. */
static struct vb_raw_port *_Atomic ports;

struct vb_raw_port *vb_raw_port_find(const struct vb_device *dev)
{
	struct vb_raw_port *port = NULL;

	while ((port = vb_raw_port_next(port)))
		if (port->dev == dev)
			return port;
	port = calloc(1, sizeof(*port));
	if (!port)
		return NULL;
	port->dev = dev;
	port->fd = -1;
	pthread_mutex_init(&port->lock, NULL);
	vb_list_init(&port->flows);
	port->next = atomic_load(&ports);
	atomic_store(&ports, port);
	return port;
}

struct vb_raw_port *vb_raw_port_next(const struct vb_raw_port *port)
{
	return port ? port->next : atomic_load_explicit(&ports, memory_order_acquire);
}

static int find_interface(struct vb_raw_port *port)
{
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	const struct vb_netif *netif = vb_device_netif(port->dev, all);

	port->ifindex = netif ? netif->index : 0;
	port->loopback = netif && netif->flags & IFF_LOOPBACK;
	vb_netif_snapshot_put(all);
	return netif ? 0 : -ENODEV;
}

static int socket_bind(const struct vb_raw_port *port, uint16_t protocol)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = port->ifindex,
	};

	return bind(port->fd, (const void *)&address, sizeof(address)) ? -errno : 0;
}

static void option_set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		vb_explain("raw packet socket: option %d: %s", option, strerror(errno));
}

/* Protocol 0: until a flow exists the socket receives nothing. */
static int open_socket(struct vb_raw_port *port)
{
	int fd = vb_fd_high(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int err = fd < 0 ? -errno : 0;

	if (err == -EPERM || err == -EACCES) {
		vb_explain(
			"raw packet QPs need CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` "
			"the program");
		return -EPERM;
	}
	if (err)
		return err;
	port->fd = fd;
	/* Without the mark other processes of this host do not get this socket's frames. */
	option_set(fd, SOL_SOCKET, SO_MARK, VB_RAW_MARK);
	option_set(fd, SOL_PACKET, PACKET_AUXDATA, 1);
	option_set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	return socket_bind(port, 0);
}

static int open_locked(struct vb_raw_port *port)
{
	int err = find_interface(port);

	if (!err && !port->out) {
		port->out = malloc(2 * (size_t)VB_FRAME_MAX);
		err = port->out ? 0 : -ENOMEM;
	}
	if (!err)
		err = open_socket(port);
	if (err)
		vb_fd_close(&port->fd);
	port->listens = false;
	return err;
}

int vb_raw_port_open(struct vb_raw_port *port)
{
	int err;

	pthread_mutex_lock(&port->lock);
	err = open_locked(port);
	pthread_mutex_unlock(&port->lock);
	return err;
}

static void count_overrun(struct vb_raw_port *port)
{
	struct tpacket_stats stats;
	socklen_t size = sizeof(stats);

	if (!getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
		port->counts.overrun += stats.tp_drops; /* the kernel clears them on each read */
}

void vb_raw_port_close(struct vb_raw_port *port)
{
	pthread_mutex_lock(&port->lock);
	count_overrun(port);
	vb_fd_close(&port->fd);
	if (port->listens)
		atomic_fetch_sub(&vb_raw_listening, 1);
	port->listens = false;
	free(port->in);
	free(port->out);
	port->in = port->out = NULL;
	pthread_mutex_unlock(&port->lock);
}

/* A thread that does not exist in the child may have held the locks. */
void vb_raw_forget(void)
{
	for (struct vb_raw_port *port = NULL; (port = vb_raw_port_next(port));) {
		pthread_mutex_init(&port->lock, NULL);
		vb_fd_close(&port->fd);
		vb_list_init(&port->flows);
		port->users = 0;
		port->nic = NULL;
		port->listens = false;
	}
	atomic_store(&vb_raw_listening, 0);
}

void vb_raw_count(struct vb_raw_counts *sum)
{
	for (struct vb_raw_port *port = NULL; (port = vb_raw_port_next(port));) {
		pthread_mutex_lock(&port->lock);
		if (port->fd >= 0)
			count_overrun(port);
		sum->frames_out += port->counts.frames_out;
		sum->bytes_out += port->counts.bytes_out;
		sum->frames_in += port->counts.frames_in;
		sum->bytes_in += port->counts.bytes_in;
		sum->send_errors += port->counts.send_errors;
		sum->oversized += port->counts.oversized;
		sum->overrun += port->counts.overrun;
		pthread_mutex_unlock(&port->lock);
	}
}

/* --- flows --- */

/* The addresses that the interface must accept for a flow, beyond those of the host. */
static bool membership_of(const struct vb_raw_port *port, const struct vb_flow *flow,
			  struct packet_mreq *request)
{
	bool multicast = flow->value.key.dst_mac[0] & 1;

	*request = (struct packet_mreq){ .mr_ifindex = port->ifindex, .mr_alen = 6 };
	memcpy(request->mr_address, flow->value.key.dst_mac, 6);
	if (flow->names_address) {
		request->mr_type = multicast ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
		return true;
	}
	request->mr_type = multicast ? PACKET_MR_ALLMULTI : PACKET_MR_PROMISC;
	return multicast || flow->promiscuous;
}

static void membership_set(const struct vb_raw_port *port, const struct vb_flow *flow, int option)
{
	struct packet_mreq request;

	/* An interface without address filters accepts all frames: a failure is only explained. */
	if (membership_of(port, flow, &request) &&
	    setsockopt(port->fd, SOL_PACKET, option, &request, sizeof(request)))
		vb_explain("ibv_create_flow: %s takes no further addresses: %s", port->dev->netdev,
			   strerror(errno));
}

static void flow_insert(struct vb_raw_port *port, struct vb_flow *flow)
{
	struct vb_list *before = &port->flows;

	vb_list_for(other, &port->flows, struct vb_flow, node) {
		if (other->rank > flow->rank) {
			before = &other->node;
			break;
		}
	}
	vb_list_append(before, &flow->node);
}

static int listen_at(struct vb_raw_port *port)
{
	int err = vb_raw_filter(port);

	if (err || port->listens)
		return err;
	if (!port->in)
		port->in = malloc((size_t)VB_RAW_BATCH * (VB_RAW_HEADROOM + VB_FRAME_MAX));
	if (!port->in)
		return -ENOMEM;
	err = socket_bind(port, ETH_P_ALL);
	port->listens = !err;
	if (!err)
		atomic_fetch_add(&vb_raw_listening, 1);
	return err;
}

int vb_raw_flow_add(struct vb_raw_port *port, struct vb_flow *flow)
{
	int err;

	pthread_mutex_lock(&port->lock);
	flow_insert(port, flow);
	err = listen_at(port);
	if (err)
		vb_list_remove(&flow->node);
	else
		membership_set(port, flow, PACKET_ADD_MEMBERSHIP);
	pthread_mutex_unlock(&port->lock);
	return err;
}

void vb_raw_flow_remove(struct vb_raw_port *port, struct vb_flow *flow)
{
	pthread_mutex_lock(&port->lock);
	vb_list_remove(&flow->node);
	membership_set(port, flow, PACKET_DROP_MEMBERSHIP);
	vb_raw_filter(port);
	pthread_mutex_unlock(&port->lock);
}
