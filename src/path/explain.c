/* SPDX-License-Identifier: BSD-2-Clause */
/* What the sentence of a failed work request says beyond its reason: which rule, whose process. */
#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "capture/ring.h"
#include "exec/recv.h"
#include "nic/far_words.h"
#include "nic/key_words.h"
#include "nic/qp_edges.h"
#include "path/complete.h"
#include "wire/rnr.h"

/* --- keys and rights --- */

/* The element of a receive that cannot be written. */
static bool recv_words(const struct vb_remote *target, uint32_t index, char text[VB_KEY_WORDS])
{
	const struct vb_claim claim = { .index = index };
	const struct vb_recv_sges *list = vb_recv_sges(target, &claim);
	uint32_t count = vb_recv_sge_count(target, list);

	for (uint32_t i = 0; i < count; i++) {
		const struct ibv_sge sge = list->sge[i];
		const struct vb_key_use use = { .home = target->home,
						.key = sge.lkey,
						.by_process = true,
						.pd = target->recv_pd,
						.qpn = target->entry->qpn,
						.addr = sge.addr,
						.length = sge.length,
						.access = IBV_ACCESS_LOCAL_WRITE };

		if (sge.length && vb_key_words(&use, text))
			return true;
	}
	return false;
}

static bool rkey_words(const struct vb_remote *target, const struct vb_report *report,
		       unsigned access, char text[VB_PATH_WORDS])
{
	const struct vb_key_use use = { .home = target->home,
					.key = report->key,
					.as_rkey = true,
					.pd = target->pd,
					.qpn = target->entry->qpn,
					.addr = report->addr,
					.length = report->length,
					.access = access };

	return vb_key_words(&use, text);
}

static void right_words(const struct vb_remote *target, unsigned access, char text[VB_PATH_WORDS])
{
	const unsigned has = atomic_load(&target->entry->access);
	char words[VB_ACCESS_WORDS];

	snprintf(text, VB_PATH_WORDS, "qp_access_flags of QP {p} lack %s (they have %s)",
		 vb_access_name(access & ~has), vb_access_words(has, words));
}

bool vb_path_words(const struct vb_remote *target, const struct vb_report *report, unsigned access,
		   char text[VB_PATH_WORDS])
{
	char key[VB_KEY_WORDS];

	if (!vb_config_explain() || !target->home || !target->home->head || !target->entry)
		return false;
	switch (report->reason) {
	case VB_WHY_RKEY_UNKNOWN:
	case VB_WHY_RKEY_IS_LKEY:
	case VB_WHY_RKEY_PD:
	case VB_WHY_RKEY_RANGE:
	case VB_WHY_RKEY_RIGHT:
		return rkey_words(target, report, access, text);
	case VB_WHY_RECV_KEY:
		if (!recv_words(target, (uint32_t)report->want, key))
			return false;
		snprintf(text, VB_PATH_WORDS, "the receive posted at QP {p} cannot be written: %s",
			 key);
		return true;
	case VB_WHY_QP_RIGHT:
		right_words(target, access, text);
		return true;
	default:
		return false;
	}
}

/* --- the own side --- */

static bool lkey_words(const struct vb_qp *qp, const struct vb_wqe *wqe,
		       const struct vb_report *report, char text[VB_PATH_WORDS])
{
	const struct vb_key_use use = { .home = qp->nic->self,
					.key = report->key,
					.pd = (wqe->internal ? qp->srq->pd : qp->pd)->id,
					.addr = report->addr,
					.length = report->length,
					.access = vb_wr_returns(wqe->opcode)
							  ? IBV_ACCESS_LOCAL_WRITE
							  : 0 };

	return vb_key_words(&use, text);
}

/* The number of the peer's QP leads to a process, which has no such QP. */
static bool no_qp_words(const struct vb_qp *qp, const struct vb_wqe *wqe, char text[VB_PATH_WORDS])
{
	struct vb_peer *peer = vb_nic_peer(qp->nic, vb_far_qpn(qp, wqe) >> VB_QP_INDEX_BITS);
	char words[VB_PEER_WORDS];
	bool known = *vb_peer_words(peer, words);

	if (known)
		snprintf(text, VB_PATH_WORDS,
			 "there is no QP {p}: that process has destroyed it, or its number is "
			 "wrong");
	vb_peer_put(peer);
	return known;
}

static bool unready_words(const struct vb_qp *qp, char text[VB_PATH_WORDS])
{
	const struct vb_qp_entry *entry = qp->remote.entry;

	if (!entry)
		return false;
	snprintf(text, VB_PATH_WORDS, "QP {p} is in %s: it did not reach RTR in time",
		 vb_qp_state_str(vb_gate_state(atomic_load(&entry->gate))));
	return true;
}

/* Its peer cannot know of these. */
static bool request_words(const struct vb_qp *qp, const struct vb_wqe *wqe, enum vb_reason reason,
			  char text[VB_PATH_WORDS])
{
	if (reason == VB_WHY_OPCODE_TRANSPORT)
		snprintf(text, VB_PATH_WORDS, "%s does not exist on a QP of type %s",
			 vb_opcode_words(wqe->opcode), vb_qp_type_str(qp->type));
	else if (reason == VB_WHY_UD_ADDRESS && wqe->ah)
		snprintf(text, VB_PATH_WORDS,
			 "its address handle belongs to PD %u, the QP to PD %u", wqe->ah->pd->id,
			 qp->pd->id);
	else if (reason == VB_WHY_WINDOW_BIND)
		vb_mw_words(&wqe->bind, qp->pd, text, VB_PATH_WORDS);
	else if (reason == VB_WHY_DROP_SHORT && qp->type == IBV_QPT_UD)
		snprintf(text, VB_PATH_WORDS, VB_DATAGRAM_SHORT);
	else
		return false;
	return *text;
}

/* The program takes its own rkey for the peer's. */
static bool own_key_words(const struct vb_qp *qp, const struct vb_wqe *wqe,
			  char text[VB_PATH_WORDS])
{
	if (!vb_peer_key(qp->nic->self, wqe->rkey, true))
		return false;
	snprintf(text, VB_PATH_WORDS,
		 "QP {p} answered with a NAK, remote access error: rkey {k}, {l} bytes at {a}; a "
		 "region of this process has that rkey, and that of the peer is needed");
	return true;
}

/* The faults that such a request may have. The peer knows which it is. */
static bool invalid_words(const struct vb_wqe *wqe, char text[VB_PATH_WORDS])
{
	const char *causes = "a receive that is too short, another path_mtu, or an SRQ that does "
			     "not exist";

	if (vb_wr_is_word(wqe->opcode) && vb_wr_reads(wqe->opcode))
		causes = "its qp_access_flags lack IBV_ACCESS_REMOTE_ATOMIC, its "
			 "max_dest_rd_atomic is exceeded, or the address is not aligned";
	else if (vb_wr_reads(wqe->opcode))
		causes = "its qp_access_flags lack the right, or its max_dest_rd_atomic is "
			 "exceeded";
	else if (vb_wr_row(wqe->opcode)->access)
		causes = vb_wr_is_word(wqe->opcode)
				 ? "its qp_access_flags lack the right, or the address is not "
				   "aligned"
				 : "its qp_access_flags lack the right, or path_mtu differs";
	snprintf(text, VB_PATH_WORDS, "QP {p} answered with a NAK, invalid request: %s", causes);
	return true;
}

static bool sentence_words(const struct vb_qp *qp, const struct vb_wqe *wqe,
			   const struct vb_report *report, char text[VB_PATH_WORDS])
{
	switch (report->reason) {
	case VB_WHY_LOCAL_KEY:
		return lkey_words(qp, wqe, report, text);
	case VB_WHY_PEER_NO_QP:
		return no_qp_words(qp, wqe, text);
	case VB_WHY_PEER_NOT_READY:
		return unready_words(qp, text);
	case VB_WHY_NAKED_ACCESS:
		return own_key_words(qp, wqe, text);
	case VB_WHY_NAKED_INVALID:
		return invalid_words(wqe, text);
	default:
		return request_words(qp, wqe, report->reason, text) ||
		       vb_path_words(&qp->remote, report, vb_wr_row(wqe->opcode)->access, text);
	}
}

static void report_fill(const struct vb_qp *qp, const struct vb_wqe *wqe, enum vb_reason reason,
			struct vb_report *report)
{
	report->reason = reason;
	report->qpn = qp->ibv.qp_num;
	report->wr_id = wqe->wr_id;
	report->opcode = wqe->opcode;
	report->peer_qpn = vb_far_qpn(qp, wqe);
	if (!report->length)
		report->length = wqe->length;
	if (reason == VB_WHY_LENGTH_MAX && !report->want)
		report->want = VB_MSG_MAX;
	if (reason == VB_WHY_SRQ_UNKNOWN || reason == VB_WHY_SRQ_DOMAIN)
		report->have = wqe->srqn;
}

void vb_path_explain(const struct vb_qp *qp, enum vb_reason reason, struct vb_report *report)
{
	const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);
	char sentence[VB_PATH_WORDS], peer[VB_FAR_WORDS] = "";
	struct vb_report_words words = { .peer = peer };

	report_fill(qp, wqe, reason, report);
	if (vb_config_explain() || vb_captured()) {
		vb_far_words(qp, wqe, peer);
		if (sentence_words(qp, wqe, report, sentence))
			words.sentence = sentence;
	}
	vb_report_explain(report, &words);
}

/* --- waits --- */

/* Writes when the wait ends: "(timeout 0: for ever)". */
static void patience_words(const struct vb_qp *qp, enum vb_reason reason, char text[64])
{
	const uint64_t ms = vb_qp_patience_ns(qp) / 1000000;
	const unsigned tries = qp->attr.rnr_retry;

	if (reason == VB_WHY_NO_RECEIVE && tries == VB_RNR_RETRY_FOREVER)
		snprintf(text, 64, "(rnr_retry 7: for ever)");
	else if (reason == VB_WHY_NO_RECEIVE)
		snprintf(text, 64, "(rnr_retry %u: %u tries in all)", tries, tries + 1);
	else if (!qp->attr.timeout)
		snprintf(text, 64, "(timeout 0: for ever)");
	else
		snprintf(text, 64, "(timeout %u, retry_cnt %u: for %llu.%llu s)", qp->attr.timeout,
			 qp->attr.retry_cnt, (unsigned long long)ms / 1000,
			 (unsigned long long)ms % 1000 / 100);
}

void vb_path_explain_wait(const struct vb_qp *qp, enum vb_reason reason, struct vb_report *report)
{
	const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);
	char sentence[VB_PATH_WORDS], text[400], peer[VB_FAR_WORDS], patience[64];
	struct vb_report_words words = { .peer = peer };

	if (!vb_config_explain())
		return;
	report_fill(qp, wqe, reason, report);
	vb_far_words(qp, wqe, peer);
	if (reason == VB_WHY_NO_RECEIVE)
		words.sentence = "QP {p} has posted no receive";
	else if (reason == VB_WHY_PEER_SILENT)
		words.sentence = "no answer from QP {p}";
	else if (reason == VB_WHY_PEER_NOT_READY)
		words.sentence = "QP {p} has not reached RTR";
	else if (sentence_words(qp, wqe, report, sentence))
		words.sentence = sentence;
	vb_report_write(report, &words, text, sizeof(text));
	patience_words(qp, reason, patience);
	vb_explain_note("QP 0x%06x, %s wr_id %llu has waited 1 s: %s %s", report->qpn,
			vb_opcode_words(wqe->opcode), (unsigned long long)wqe->wr_id, text,
			patience);
}

void vb_path_explain_overrun(const struct vb_qp *qp, const struct vb_wqe *wqe)
{
	vb_explain_work(
		"QP 0x%06x, %s wr_id %llu: its completion has no room in CQ %u: cqe %d, and all "
		"are taken: poll it, or make it as large as the queues that complete there",
		qp->ibv.qp_num, vb_opcode_words(wqe->opcode), (unsigned long long)wqe->wr_id,
		(unsigned)(qp->send_cq->shared_offset / 64), qp->send_cq->ibv.cqe);
}

void vb_path_explain_flush(struct vb_qp *qp)
{
	const struct vb_wqe *wqe = vb_sq_wqe(&qp->sq, qp->sq.next);
	const struct vb_failure *failure = &qp->failure;
	char why[80] = ": the program or its connection manager moved it there";

	if (!vb_config_explain() || qp->flush_told)
		return;
	qp->flush_told = true;
	if (failure->since_ns && failure->reason == VB_WHY_INJECTED_FATAL)
		snprintf(why, sizeof(why), " since a fault rule failed its device");
	else if (failure->since_ns && failure->status == VB_FAILURE_OF_PEER)
		snprintf(why, sizeof(why), " since it refused a request of its peer");
	else if (failure->since_ns)
		snprintf(why, sizeof(why), " since %s wr_id %llu failed",
			 vb_opcode_words(failure->opcode), (unsigned long long)failure->wr_id);
	vb_explain_note("QP 0x%06x, %s wr_id %llu is flushed, and so are all behind it: the QP is "
			"in %s%s",
			qp->ibv.qp_num, vb_opcode_words(wqe->opcode),
			(unsigned long long)wqe->wr_id, vb_qp_state_str(vb_qp_state(qp)), why);
}
