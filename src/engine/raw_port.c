/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/raw_port.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/log.h"
#include "engine/sniffer.h"
#include "engine/watch.h"
#include "path/raw/raw.h"

static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER; /* before nic->lock */

static void forget_in_child(void)
{
	pthread_mutex_init(&ports_lock, NULL);
	vb_sniffer_forget();
	vb_raw_forget();
}

static const struct vb_fork_handlers at_fork = { .child = forget_in_child };

/* The first QP opens the port, and lets the service thread watch it. */
static int use_port(struct vb_raw_port *port, struct vb_nic *nic)
{
	int err = 0;

	if (!port->users) {
		err = vb_raw_port_open(port);
		if (!err)
			err = vb_watch(nic, port->fd, vb_raw_ready, port);
		if (err && port->fd >= 0)
			vb_raw_port_close(port);
		port->nic = nic;
	}
	if (!err)
		port->users++;
	return err;
}

static int get_port(const struct vb_device *dev, struct vb_nic *nic, struct vb_raw_port **port)
{
	int err = -ENOMEM;

	if (dev->infiniband) {
		vb_explain("raw packet QPs need an Ethernet port");
		return -EOPNOTSUPP;
	}
	vb_fork_register(VB_FORK_RAW, &at_fork);
	pthread_mutex_lock(&ports_lock);
	*port = vb_raw_port_find(dev);
	if (*port)
		err = use_port(*port, nic);
	pthread_mutex_unlock(&ports_lock);
	return err;
}

static void put_port(struct vb_raw_port *port)
{
	pthread_mutex_lock(&ports_lock);
	if (!--port->users) {
		vb_unwatch(port->nic, port->fd);
		vb_raw_port_close(port);
	}
	pthread_mutex_unlock(&ports_lock);
}

int vb_raw_enter(struct vb_qp *qp)
{
	struct vb_raw_qp *raw = calloc(1, sizeof(*raw));
	int err = raw ? get_port(vb_context(qp->ibv.context)->dev, qp->nic, &raw->port) : -ENOMEM;

	if (err)
		free(raw);
	else
		qp->raw = raw;
	return err;
}

void vb_raw_leave(struct vb_raw_qp *raw, const struct vb_nic *nic)
{
	if (!raw)
		return;
	if (raw->table)
		atomic_fetch_sub(&raw->table->users, 1);
	if (nic == vb_nic_current())
		put_port(raw->port);
	free(raw->tso);
	free(raw);
}
