/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs: their way to the interface, and those that spread frames over work queues. */
#include "verbs/raw.h"
#include "base/fork.h"
#include "base/log.h"
#include "engine/watch.h"
#include "nic/given.h"
#include "path/raw/raw.h"
#include "verbs/stale.h"
#include "verbs/xrc.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER; /* before nic->lock */

static void in_child(void)
{
	pthread_mutex_init(&ports_lock, NULL);
	vb_raw_forget();
}

static const struct vb_fork_handlers at_fork = { .child = in_child };

/* The first QP opens it, and has the service thread look at it. */
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

int vb_raw_check_idle(const struct vb_qp *qp)
{
	uint32_t flows = qp->raw ? atomic_load(&qp->raw->flows) : 0;

	if (!flows)
		return 0;
	vb_explain("ibv_destroy_qp: %u flows end at QP 0x%06x", flows, qp->ibv.qp_num);
	return -EBUSY;
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

/* --- spreading --- */

static int refuse(int err, const char *why)
{
	vb_explain("ibv_create_qp_ex: %s", why);
	return err;
}

static int check_hash(const struct ibv_rx_hash_conf *hash)
{
	if (hash->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return refuse(-EOPNOTSUPP, "the only hash function is Toeplitz");
	if (hash->rx_hash_key_len != VB_RX_HASH_KEY_SIZE || !hash->rx_hash_key)
		return refuse(-EINVAL, "the key of the hash has 40 bytes");
	if (hash->rx_hash_fields_mask & ~(uint64_t)VB_RX_HASH_FIELDS)
		return refuse(-EOPNOTSUPP, "hashes are over addresses and ports of TCP and UDP");
	return 0;
}

static int check_spread(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t all =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

	if (attr->qp_type != IBV_QPT_RAW_PACKET)
		return refuse(-EOPNOTSUPP, "only raw packet QPs spread what they receive");
	if ((attr->comp_mask & all) != all || !attr->pd || !attr->rwq_ind_tbl)
		return refuse(-EINVAL, "PD, indirection table and hash belong together");
	if (vb_given_check_in(attr->pd->context, VB_GIVEN_IND_TABLE, attr->rwq_ind_tbl,
			      "ibv_create_qp_ex"))
		return -EINVAL;
	if (attr->send_cq || attr->recv_cq || attr->srq || attr->cap.max_send_wr ||
	    attr->cap.max_recv_wr)
		return refuse(-EINVAL, "a QP with an indirection table has no queues of its own");
	return check_hash(&attr->rx_hash_conf);
}

static void take_hash(struct vb_raw_qp *raw, struct vb_ind_table *table,
		      const struct ibv_rx_hash_conf *hash)
{
	raw->hash_fields = hash->rx_hash_fields_mask;
	memcpy(raw->hash_key, hash->rx_hash_key, sizeof(raw->hash_key));
	raw->table = table;
	atomic_fetch_add(&table->users, 1);
}

/* Its queues are empty, so that any CQ will do; the first work queue's outlives the table. */
int vb_raw_create_spread(struct ibv_qp_init_attr_ex *attr, struct vb_qp **qp)
{
	struct ibv_qp_init_attr basic = {
		.qp_context = attr->qp_context,
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct vb_ind_table *table;
	int err = check_spread(attr);

	if (err)
		return err;
	table = vb_ind_table(attr->rwq_ind_tbl);
	err = vb_stale(table->nic, "ibv_create_qp_ex");
	if (err)
		return err;
	basic.send_cq = basic.recv_cq = table->wqs[0]->ibv.cq;
	err = vb_qp_make(vb_pd(attr->pd), &basic, qp);
	if (err)
		return err;
	(*qp)->ibv.send_cq = (*qp)->ibv.recv_cq = NULL;
	err = vb_raw_enter(*qp);
	if (err)
		vb_verbs_destroy(*qp);
	else
		take_hash((*qp)->raw, table, &attr->rx_hash_conf);
	return err;
}
