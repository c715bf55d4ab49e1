/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/describe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/attach/port_counts.h"
#include "engine/attach/why.h"
#include "engine/wire/wire.h"
#include "nic/migrate.h"
#include "nic/mw.h"
#include "nic/qp.h"
#include "nic/xrcd.h"

static _Atomic uint32_t refused;
static vb_describe_ids_fn *_Atomic list_ids;

void vb_describe_ids_by(vb_describe_ids_fn *list)
{
	atomic_store(&list_ids, list);
}

int vb_describe_ids(struct vb_describe_record **records, uint32_t *count)
{
	vb_describe_ids_fn *list = atomic_load(&list_ids);

	*records = NULL;
	*count = 0;
	return list ? list(records, count) : 0;
}

/*
 * The records collected so far. Records of PDs come from the objects that use them: there is no
 * list of PDs. An object is in its list a moment before it is complete: an object without a PD is
 * left out.
 */
struct listing {
	struct vb_describe_record *records;
	uint32_t count, room, left_out;
	struct vb_describe_record *ids; /* of librdmacm, listed before nic->lock was taken */
	uint32_t id_count;
};

static struct vb_describe_record *add_record(struct listing *listing, enum vb_describe_kind kind,
					     uint32_t id, const struct ibv_context *context)
{
	struct vb_describe_record *record;

	if (listing->count == listing->room) {
		listing->left_out++;
		return NULL;
	}
	record = &listing->records[listing->count++];
	*record = (struct vb_describe_record){ .kind = kind, .id = id };
	if (context)
		memcpy(record->device, context->device->name,
		       strnlen(context->device->name, sizeof(record->device)));
	return record;
}

static uint32_t cq_id(const struct vb_cq *cq)
{
	return cq ? (uint32_t)(cq->shared_offset / 64) : 0;
}

/* Adds a PD once: most objects of a process share a few. */
static void add_pd(struct listing *listing, const struct vb_pd *pd)
{
	struct vb_describe_record *record;

	if (!pd)
		return;
	for (uint32_t i = 0; i < listing->count; i++)
		if (listing->records[i].kind == VB_DESCRIBE_PD && listing->records[i].id == pd->id)
			return;
	record = add_record(listing, VB_DESCRIBE_PD, pd->id, pd->ibv.context);
	if (record)
		record->users = vb_pd_user_count(pd);
}

static void add_cq(struct listing *listing, const struct vb_cq *cq)
{
	struct vb_describe_record *record =
		add_record(listing, VB_DESCRIBE_CQ, cq_id(cq), cq->ibv.context);

	if (!record)
		return;
	record->depth = (uint32_t)cq->ibv.cqe;
	record->users = atomic_load(&cq->users);
}

static void add_mr(struct listing *listing, const struct vb_mr *mr)
{
	struct vb_describe_record *record =
		add_record(listing, VB_DESCRIBE_MR, mr->index, mr->pd->ibv.context);

	if (!record)
		return;
	record->pd = mr->pd->id;
	record->addr = mr->addr;
	record->length = mr->length;
	record->lkey = mr->ibv.lkey;
	record->rkey = mr->ibv.rkey;
	record->access = mr->access;
	record->mapped = atomic_load(&mr->entry->map) != 0;
}

static void add_mw(struct listing *listing, const struct vb_mw *mw)
{
	struct vb_describe_record *record =
		mw->pd ? add_record(listing, VB_DESCRIBE_MW, mw->index, mw->pd->ibv.context) : NULL;

	if (!record)
		return;
	record->pd = mw->pd->id;
	record->type = (uint8_t)mw->ibv.type;
	record->rkey = mw->ibv.rkey;
}

static uint32_t receives_posted(struct vb_rq *rq)
{
	uint32_t tail;

	if (rq->many)
		return vb_rq_held(rq);
	vb_spin_lock(&rq->lock);
	tail = rq->tail;
	vb_spin_unlock(&rq->lock);
	return tail - (uint32_t)atomic_load(&rq->head);
}

static void add_srq(struct listing *listing, struct vb_srq *srq)
{
	struct vb_describe_record *record =
		srq->pd ? add_record(listing, VB_DESCRIBE_SRQ, srq->number, srq->pd->ibv.context)
			: NULL;
	struct ibv_srq_attr attr;

	if (!record)
		return;
	vb_srq_query(srq, &attr);
	record->pd = srq->pd->id;
	record->type = srq->tm ? IBV_SRQT_TM : srq->xrcd ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	record->users = atomic_load(&srq->users);
	record->depth = attr.max_wr;
	record->limit = attr.srq_limit;
	record->recv_posted = receives_posted(&srq->rq);
	record->recv_cq = cq_id(srq->cq);
	record->xrcd = srq->xrcd ? srq->xrcd->number : 0;
}

static void add_xrcd(struct listing *listing, const struct vb_xrcd *xrcd)
{
	struct vb_describe_record *record =
		add_record(listing, VB_DESCRIBE_XRCD, xrcd->number, xrcd->ibv.context);

	if (!record)
		return;
	record->users = atomic_load(&xrcd->users);
	record->shared = xrcd->claim >= 0;
}

/* The stand-ins for its PD and CQs are not shown. */
static void add_receiver(struct vb_describe_record *record, struct vb_qp *qp)
{
	record->pd = record->send_cq = record->recv_cq = 0;
	record->xrcd = qp->creator_gone || !qp->xrcd ? 0 : qp->xrcd->number;
	vb_spin_lock(&qp->handles_lock);
	record->shared = qp->session_count;
	vb_list_for(handle, &qp->handles, struct vb_xrc_handle, node)
		record->shared++;
	vb_spin_unlock(&qp->handles_lock);
}

static uint32_t sends_posted(struct vb_sq *sq)
{
	uint32_t tail;

	vb_spin_lock(&sq->lock);
	tail = sq->tail;
	vb_spin_unlock(&sq->lock);
	return tail - atomic_load(&sq->done);
}

static void add_qp_peer(struct vb_describe_record *record, const struct vb_qp *qp)
{
	bool connected = vb_qp_reliable(qp) || qp->type == IBV_QPT_UC;

	if (!connected || record->state == IBV_QPS_RESET || record->state == IBV_QPS_INIT)
		return;
	record->dest_qpn = qp->attr.dest_qp_num;
	record->dest_local = qp->av.local;
	memcpy(record->dest_gid, qp->av.dgid.raw, sizeof(record->dest_gid));
}

/* Other threads go on meanwhile: the numbers are those of some moment, each of its own. */
static void add_qp_traffic(struct vb_describe_record *record, struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;

	record->sent = (uint32_t)atomic_load(&sq->done);
	record->unpolled = record->sent - atomic_load(&sq->retired);
	record->bytes_out = atomic_load(&sq->bytes_out);
	record->bytes_read = atomic_load(&sq->bytes_read);
	record->waits = (uint8_t)atomic_load(&qp->pend.why);
	record->lost = atomic_load(&qp->lent->dropped);
	if (!qp->rq || qp->srq)
		return;
	vb_spin_lock(&qp->rq->lock);
	record->received = qp->rq->tail - record->recv_posted;
	vb_spin_unlock(&qp->rq->lock);
}

static void add_qp(struct listing *listing, struct vb_qp *qp)
{
	struct vb_describe_record *record =
		add_record(listing, VB_DESCRIBE_QP, qp->ibv.qp_num, qp->ibv.context);

	if (!record)
		return;
	record->pd = qp->pd ? qp->pd->id : 0;
	record->type = qp->type;
	record->state = (uint8_t)vb_qp_state(qp);
	record->send_cq = cq_id(qp->send_cq);
	record->recv_cq = cq_id(qp->recv_cq);
	record->srq = qp->srq ? qp->srq->number : 0;
	record->send_posted = sends_posted(&qp->sq);
	record->recv_posted = qp->srq || !qp->rq ? 0 : receives_posted(qp->rq);
	record->on_wire = atomic_load(&qp->wired) != NULL;
	record->lane = atomic_load(&qp->lane);
	record->sq_psn = qp->attr.sq_psn;
	record->rq_psn = qp->attr.rq_psn;
	record->mig_state = vb_mig_state(qp);
	add_qp_traffic(record, qp);
	if (qp->type == IBV_QPT_XRC_SEND)
		record->recv_cq = 0;
	if (qp->type == IBV_QPT_XRC_RECV)
		add_receiver(record, qp);
	add_qp_peer(record, qp);
}

/* Regions are found by their keys. Under nic->lock, which deregistering takes before it frees. */
static struct vb_mr *mr_at(const struct vb_nic *nic, uint32_t index)
{
	struct vb_mr **page = __atomic_load_n(&nic->mrs[index / VB_KEY_PAGE], __ATOMIC_ACQUIRE);

	return page ? __atomic_load_n(&page[index % VB_KEY_PAGE], __ATOMIC_ACQUIRE) : NULL;
}

#define for_mrs(mr, nic)                                \
	for (uint32_t k = 0; k < (nic)->keys_made; k++) \
		for (struct vb_mr *mr = mr_at(nic, k); mr; mr = NULL)

static void collect_pds(struct listing *listing, struct vb_nic *nic)
{
	for_mrs(mr, nic) add_pd(listing, mr->pd);
	vb_list_for(mw, &nic->mws, struct vb_mw, node)
		add_pd(listing, mw->pd);
	vb_list_for(srq, &nic->srqs, struct vb_srq, node)
		add_pd(listing, srq->pd);
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		if (qp->pd != nic->xrc_pd)
			add_pd(listing, qp->pd);
}

static void collect(struct listing *listing, struct vb_nic *nic)
{
	collect_pds(listing, nic);
	vb_list_for(cq, &nic->cqs, struct vb_cq, node)
		if (cq != nic->xrc_cq)
			add_cq(listing, cq);
	vb_list_for(xrcd, &nic->xrcds, struct vb_xrcd, node)
		add_xrcd(listing, xrcd);
	for_mrs(mr, nic) add_mr(listing, mr);
	vb_list_for(mw, &nic->mws, struct vb_mw, node)
		add_mw(listing, mw);
	vb_list_for(srq, &nic->srqs, struct vb_srq, node)
		add_srq(listing, srq);
	vb_list_for(qp, &nic->qps, struct vb_qp, node)
		add_qp(listing, qp);
	for (uint32_t i = 0; i < listing->id_count; i++) {
		struct vb_describe_record *record =
			add_record(listing, VB_DESCRIBE_CM_ID, listing->ids[i].id, NULL);

		if (record)
			*record = listing->ids[i];
	}
}

static void count_objects(struct vb_describe_answer *answer, const struct vb_nic *nic)
{
	answer->counts[0] = nic->ah_count;
	answer->counts[VB_DESCRIBE_PD] = nic->pd_count - !!nic->xrc_pd;
	answer->counts[VB_DESCRIBE_CQ] = nic->cq_count - !!nic->xrc_cq;
	answer->counts[VB_DESCRIBE_XRCD] = nic->xrcd_count;
	answer->counts[VB_DESCRIBE_MR] = nic->mr_count;
	answer->counts[VB_DESCRIBE_MW] = nic->mw_count;
	answer->counts[VB_DESCRIBE_SRQ] = nic->srq_count;
	answer->counts[VB_DESCRIBE_QP] = nic->qp_count;
}

/* Before nic->lock is taken: the locks of lanes come first. */
static void count_packets(struct vb_describe_answer *answer, struct vb_nic *nic)
{
	struct vb_wire_counts counts;

	vb_wire_count(nic, &counts);
	answer->packets_out = counts.port.packets_out;
	answer->packets_in = counts.port.packets_in;
	answer->bytes_out = counts.port.bytes_out;
	answer->bytes_in = counts.port.bytes_in;
	answer->repeated = counts.qps.retransmits;
	answer->rnr_naks = counts.qps.rnr_naks;
	for (unsigned i = 0; i < VB_PACKET_DROPS; i++)
		answer->dropped += counts.drops[i];
}

/* The holder of nic->lock may wait for something, and this thread must not wait with it. */
static int snapshot(struct vb_nic *nic, struct listing *listing, struct vb_describe_answer *answer)
{
	uint32_t wanted = 0;

	if (pthread_mutex_trylock(&nic->lock))
		return -EAGAIN;
	count_objects(answer, nic);
	answer->counts[VB_DESCRIBE_CM_ID] = listing->id_count;
	for (int kind = VB_DESCRIBE_PD; kind < VB_DESCRIBE_KINDS; kind++)
		wanted += answer->counts[kind];
	listing->room = wanted < VB_DESCRIBE_RECORDS_MAX ? wanted : VB_DESCRIBE_RECORDS_MAX;
	listing->records = calloc(listing->room + 1, sizeof(*listing->records));
	if (listing->records)
		collect(listing, nic);
	pthread_mutex_unlock(&nic->lock);
	return listing->records ? 0 : -ENOMEM;
}

/* `ulimit -f` holds for a memfd as well. Its signal is blocked here, as all signals are. */
static int records_to_memfd(const void *records, size_t size)
{
	size_t at = 0;
	int fd = memfd_create("verbena-resources", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	while (at < size) {
		ssize_t n = write(fd, (const char *)records + at, size - at);

		if (n <= 0) {
			close(fd);
			return -ENOSPC;
		}
		at += (size_t)n;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

bool vb_describe_may_ask(int socket)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	       (cred.uid == geteuid() || cred.uid == 0);
}

static bool read_request(int socket, struct vb_describe_request *request)
{
	/* MSG_TRUNC gives the true length. Descriptors that came along are dropped. */
	ssize_t size = recv(socket, request, sizeof(*request), MSG_DONTWAIT | MSG_TRUNC);

	return size == (ssize_t)sizeof(*request) && request->magic == VB_DESCRIBE_MAGIC &&
	       request->version == VB_DESCRIBE_VERSION && request->what < VB_DESCRIBE_WHATS;
}

/* Sends records, which are freed, or an error. */
static void answer_send(int socket, struct vb_describe_answer *answer, void *records, int err)
{
	int fd = -1;

	if (!err)
		fd = records_to_memfd(records, (size_t)answer->record_count * answer->record_size);
	if (!err && fd < 0)
		err = fd;
	answer->error = (uint32_t)-err;
	answer->record_count = err ? 0 : answer->record_count;
	vb_fd_send(socket, answer, sizeof(*answer), fd); /* a fresh socket has room for it */
	if (fd >= 0)
		close(fd);
	free(records);
}

static void answer_waits(struct vb_nic *nic, int socket, struct vb_describe_answer *answer)
{
	struct vb_why_record *records = NULL;
	int err = vb_why_list(nic, &records, &answer->record_count);

	answer->record_size = sizeof(struct vb_why_record);
	answer_send(socket, answer, records, err);
}

static void answer_port(struct vb_nic *nic, int socket, struct vb_describe_answer *answer,
			uint16_t clear)
{
	struct vb_port_counts *counts = malloc(sizeof(*counts));

	if (counts)
		vb_port_counts(nic, counts);
	vb_port_counts_clear(nic, clear);
	answer->record_size = sizeof(*counts);
	answer->record_count = 1;
	answer_send(socket, answer, counts, counts ? 0 : -ENOMEM);
}

static void answer_objects(struct vb_nic *nic, int socket, struct vb_describe_answer *answer)
{
	struct listing listing = { 0 };
	int err = vb_describe_ids(&listing.ids, &listing.id_count);

	count_packets(answer, nic);
	if (!err)
		err = snapshot(nic, &listing, answer);
	answer->record_count = listing.count;
	answer->left_out = listing.left_out;
	free(listing.ids);
	answer_send(socket, answer, listing.records, err);
}

void vb_describe_answer_to(struct vb_nic *nic, int socket)
{
	struct vb_describe_answer answer = {
		.magic = VB_DESCRIBE_MAGIC,
		.version = VB_DESCRIBE_VERSION,
		.record_size = sizeof(struct vb_describe_record),
	};
	struct vb_describe_request request;

	if (!read_request(socket, &request)) {
		atomic_fetch_add(&refused, 1);
		return;
	}
	if (!vb_describe_may_ask(socket)) {
		atomic_fetch_add(&refused, 1);
		answer.error = EPERM;
		vb_fd_send(socket, &answer, sizeof(answer), -1);
		return;
	}
	answer.refused = atomic_load(&refused);
	if (request.what == VB_DESCRIBE_WAITS)
		answer_waits(nic, socket, &answer);
	else if (request.what == VB_DESCRIBE_PORT)
		answer_port(nic, socket, &answer, request.clear);
	else
		answer_objects(nic, socket, &answer);
}
