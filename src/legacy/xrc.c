/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first XRC calls. They name QPs by number, where today's calls name objects. A table per
 * domain has the receiving QPs that this process created or registered.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "legacy.h"

static_assert(offsetof(struct ibv_legacy_qp_init_attr, sq_sig_all) ==
			      offsetof(struct ibv_qp_init_attr, sq_sig_all) &&
		      offsetof(struct ibv_legacy_qp_init_attr, cap) ==
			      offsetof(struct ibv_qp_init_attr, cap),
	      "it begins like today's: ibv_query_qp and rdma_create_qp are given it");

struct receiver {
	struct receiver *next;
	uint32_t qp_num;
	struct ibv_qp *qp;
};

struct domain {
	struct ibv_xrc_domain base; /* first: the program has its address */
	struct ibv_xrcd *xrcd;
	pthread_mutex_t lock;
	struct receiver *receivers; /* under lock */
};

static struct domain *domain_of(struct ibv_xrc_domain *base)
{
	return (struct domain *)base;
}

EXPORT struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflag,
	};
	struct domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	domain->xrcd = ibv_open_xrcd(context, &attr);
	if (!domain->xrcd) {
		free(domain);
		return NULL;
	}
	domain->base.context = context;
	pthread_mutex_init(&domain->lock, NULL);
	return &domain->base;
}

EXPORT int ibv_close_xrc_domain(struct ibv_xrc_domain *base)
{
	struct domain *domain = domain_of(base);
	bool used;
	int err;

	pthread_mutex_lock(&domain->lock);
	used = domain->receivers;
	pthread_mutex_unlock(&domain->lock);
	if (used)
		return legacy_result(EBUSY);
	err = ibv_close_xrcd(domain->xrcd);
	if (err)
		return legacy_result(err < 0 ? errno : err);
	pthread_mutex_destroy(&domain->lock);
	free(domain);
	return 0;
}

/*
 * Programs read the number from the SRQ itself. An SRQ of Verbena has a free handle for it. The SRQ
 * of a kernel driver has not, because the kernel knows the SRQ by its handle.
 */
static int put_number(struct ibv_srq *srq)
{
	enum { VENDOR_VERBENA = 0x7662 };
	struct ibv_device_attr attr;
	uint32_t number;
	int err = ibv_get_srq_num(srq, &number);

	if (err || number == srq->handle)
		return err;
	err = ibv_query_device(srq->context, &attr);
	if (!err && attr.vendor_id != VENDOR_VERBENA)
		err = EOPNOTSUPP;
	if (!err)
		srq->handle = number;
	return err;
}

EXPORT struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *domain,
					  struct ibv_cq *cq, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = domain_of(domain)->xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pd->context, &extended);
	int err;

	if (!srq)
		return NULL;
	attr->attr = extended.attr;
	err = put_number(srq);
	if (!err)
		return srq;
	ibv_destroy_srq(srq);
	errno = err;
	return NULL;
}

/* --- receiving QPs by number --- */

/* The link to the receiver, or the end of the list. Under the domain's lock. */
static struct receiver **find_receiver(struct domain *domain, uint32_t qp_num)
{
	struct receiver **link = &domain->receivers;

	while (*link && (*link)->qp_num != qp_num)
		link = &(*link)->next;
	return link;
}

static int add_receiver(struct domain *domain, struct ibv_qp *qp)
{
	struct receiver *receiver = malloc(sizeof(*receiver));

	if (!receiver)
		return ENOMEM;
	*receiver = (struct receiver){ .next = domain->receivers, .qp_num = qp->qp_num, .qp = qp };
	domain->receivers = receiver;
	return 0;
}

static struct ibv_qp *open_by_number(struct domain *domain, uint32_t qp_num)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp_num,
		.xrcd = domain->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(domain->base.context, &attr);
}

EXPORT int ibv_create_xrc_rcv_qp(struct ibv_legacy_qp_init_attr *attr, uint32_t *qp_num)
{
	struct ibv_qp_init_attr_ex extended = {
		.qp_context = attr->qp_context,
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct domain *domain = domain_of(attr->xrc_domain);
	struct ibv_qp *qp;
	int err;

	if (!domain)
		return legacy_result(EINVAL);
	extended.xrcd = domain->xrcd;
	qp = ibv_create_qp_ex(domain->base.context, &extended);
	if (!qp)
		return errno;
	pthread_mutex_lock(&domain->lock);
	err = add_receiver(domain, qp);
	pthread_mutex_unlock(&domain->lock);
	if (err)
		ibv_destroy_qp(qp);
	else
		*qp_num = qp->qp_num;
	return legacy_result(err);
}

/*
 * Calls act with the QP of that number. Any process of the domain may name it. A QP that this
 * process has not registered is opened for the time of the call.
 */
static int with_receiver(struct ibv_xrc_domain *base, uint32_t qp_num,
			 int (*act)(struct ibv_qp *qp, void *argument), void *argument)
{
	struct domain *domain = domain_of(base);
	struct receiver *receiver;
	struct ibv_qp *qp;
	int err;

	pthread_mutex_lock(&domain->lock);
	receiver = *find_receiver(domain, qp_num);
	qp = receiver ? receiver->qp : open_by_number(domain, qp_num);
	err = qp ? act(qp, argument) : errno;
	if (qp && !receiver)
		ibv_destroy_qp(qp);
	pthread_mutex_unlock(&domain->lock);
	return legacy_result(err < 0 ? errno : err);
}

struct modification {
	struct ibv_qp_attr *attr;
	int mask;
	struct ibv_legacy_qp_init_attr *init_attr; /* for a query */
};

static int modify_receiver(struct ibv_qp *qp, void *argument)
{
	struct modification *m = argument;

	return ibv_modify_qp(qp, m->attr, m->mask);
}

EXPORT int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num,
				 struct ibv_qp_attr *attr, int attr_mask)
{
	struct modification m = { .attr = attr, .mask = attr_mask };

	return with_receiver(domain, qp_num, modify_receiver, &m);
}

static int query_receiver(struct ibv_qp *qp, void *argument)
{
	struct modification *m = argument;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qp, m->attr, m->mask, &init);

	if (!err)
		*m->init_attr = (struct ibv_legacy_qp_init_attr){
			.qp_context = init.qp_context,
			.cap = init.cap,
			.qp_type = init.qp_type,
			.xrc_domain = m->init_attr->xrc_domain,
		};
	return err;
}

EXPORT int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *domain, uint32_t qp_num,
				struct ibv_qp_attr *attr, int attr_mask,
				struct ibv_legacy_qp_init_attr *init_attr)
{
	struct modification m = { .attr = attr, .mask = attr_mask, .init_attr = init_attr };

	init_attr->xrc_domain = domain;
	return with_receiver(domain, qp_num, query_receiver, &m);
}

EXPORT int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *base, uint32_t qp_num)
{
	struct domain *domain = domain_of(base);
	struct ibv_qp *qp;
	int err = 0;

	pthread_mutex_lock(&domain->lock);
	if (!*find_receiver(domain, qp_num)) { /* a second registration does nothing */
		qp = open_by_number(domain, qp_num);
		err = qp ? add_receiver(domain, qp) : errno;
		if (qp && err)
			ibv_destroy_qp(qp);
	}
	pthread_mutex_unlock(&domain->lock);
	return legacy_result(err);
}

EXPORT int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *base, uint32_t qp_num)
{
	struct domain *domain = domain_of(base);
	struct receiver **link, *receiver;
	int err = EINVAL;

	pthread_mutex_lock(&domain->lock);
	link = find_receiver(domain, qp_num);
	receiver = *link;
	if (receiver)
		err = ibv_destroy_qp(receiver->qp);
	if (receiver && !err) {
		*link = receiver->next;
		free(receiver);
	}
	pthread_mutex_unlock(&domain->lock);
	return legacy_result(err);
}

EXPORT struct ibv_qp *ibv_legacy_create_qp(struct ibv_pd *pd, struct ibv_legacy_qp_init_attr *attr)
{
	struct ibv_qp_init_attr today = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
	};
	struct ibv_qp *qp;

	if (attr->qp_type == IBV_QPT_XRC_SEND) { /* an XRC_SEND QP receives nothing */
		today.recv_cq = NULL;
		today.srq = NULL;
		today.cap.max_recv_wr = 0;
		today.cap.max_recv_sge = 0;
	}
	qp = ibv_create_qp(pd, &today);
	if (qp)
		attr->cap = today.cap;
	return qp;
}

/* Programs that were built with an older header call it. */
EXPORT int ibv_legacy_destroy_qp(struct ibv_qp *qp);
EXPORT int ibv_legacy_destroy_qp(struct ibv_qp *qp)
{
	return ibv_destroy_qp(qp);
}
