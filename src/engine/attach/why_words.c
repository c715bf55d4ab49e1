/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/attach/why_words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/attach/silent.h"
#include "nic/stopped.h"

enum { SHORT_NS = 50000000 }; /* a wait that is no news */

/* The telling of one process. */
struct teller {
	const struct vb_why *why;
	const struct vb_why_question *question;
	const struct vb_asked_process *process;
	struct vb_why_verdict *verdict;
	char program[32];
};

/* --- facts --- */

static const struct vb_asked_process *process_of(const struct vb_asked_processes *all, pid_t pid)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->list[i].pid == pid)
			return &all->list[i];
	return NULL;
}

static const struct vb_why_record *record_of(const struct vb_asked_process *process, unsigned kind,
					     uint32_t id)
{
	for (unsigned i = 0; process && i < process->answer.record_count; i++)
		if (process->waits[i].kind == kind && process->waits[i].id == id)
			return &process->waits[i];
	return NULL;
}

static bool has_moved(const struct teller *teller, const struct vb_why_record *record)
{
	const struct vb_asked_process *before =
		process_of(&teller->why->before, teller->process->pid);
	const struct vb_why_record *then = record_of(before, record->kind, record->id);

	return !then || then->progress != record->progress || then->state != record->state;
}

pid_t vb_why_peer_pid(const struct vb_why *why, const struct vb_why_record *record)
{
	return record->dest_local && record->dest_qpn < 1u << 24
		       ? why->after.pid_of_slot[record->dest_qpn >> 12]
		       : 0;
}

/* The record of the QP at the other end, where its process has answered. */
static const struct vb_why_record *peer_of(const struct vb_why *why,
					   const struct vb_why_record *record)
{
	const pid_t pid = vb_why_peer_pid(why, record);

	return pid ? record_of(process_of(&why->after, pid), VB_WAITS_QP, record->dest_qpn) : NULL;
}

/* --- words --- */

static void say(struct teller *teller, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void say(struct teller *teller, const char *format, ...)
{
	char line[VB_WHY_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	teller->verdict->stuck++;
	teller->question->say(teller->question->arg, line);
}

enum { TEXT = 160 };

static const char *plural(uint32_t count)
{
	return count == 1 ? "" : "s";
}

/* "QP 0x2a1003 (rping, pid 4711)" */
static const char *qp_words(const struct teller *teller, const struct vb_why_record *record,
			    char text[TEXT])
{
	snprintf(text, TEXT, "QP 0x%06x (%s, pid %d)", record->id, teller->program,
		 teller->process->pid);
	return text;
}

/* "0x31f004 (rping, pid 4712, this host)" or "0x31f004 (host 192.0.2.7)" */
static const char *peer_words(const struct teller *teller, const struct vb_why_record *record,
			      char text[TEXT])
{
	const pid_t pid = vb_why_peer_pid(teller->why, record);
	char address[INET6_ADDRSTRLEN] = "?", program[32];
	const bool ip4 = record->dest_gid[10] == 0xff && record->dest_gid[11] == 0xff;

	if (pid == teller->process->pid)
		snprintf(text, TEXT, "0x%06x (the same process)", record->dest_qpn);
	else if (pid)
		snprintf(text, TEXT, "0x%06x (%s, pid %d, this host)", record->dest_qpn,
			 vb_process_program(pid, program), pid);
	else if (record->dest_local)
		snprintf(text, TEXT, "0x%06x (this host)", record->dest_qpn);
	else
		snprintf(text, TEXT, "0x%06x (host %s)", record->dest_qpn,
			 inet_ntop(ip4 ? AF_INET : AF_INET6, record->dest_gid + (ip4 ? 12 : 0),
				   address, sizeof(address)));
	return text;
}

static const char *seconds(uint64_t ns, char text[32])
{
	snprintf(text, 32, "%llu.%llu s", (unsigned long long)(ns / 1000000000),
		 (unsigned long long)(ns % 1000000000 / 100000000));
	return text;
}

static const char *age(const struct teller *teller, uint64_t since_ns, char text[32])
{
	const uint64_t now_ns = teller->why->now_ns;

	return since_ns && now_ns > since_ns ? seconds(now_ns - since_ns, text) : "some time";
}

static const char *opcode_words(unsigned opcode)
{
	static const char *const names[] = { [IBV_WR_RDMA_WRITE] = "WRITE",
					     [IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
					     [IBV_WR_SEND] = "SEND",
					     [IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
					     [IBV_WR_RDMA_READ] = "READ",
					     [IBV_WR_ATOMIC_CMP_AND_SWP] = "COMPARE_AND_SWAP",
					     [IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
					     [IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV" };

	return opcode < sizeof(names) / sizeof(*names) && names[opcode] ? names[opcode]
									: "work request";
}

static const char *patience_words(const struct teller *teller, const struct vb_why_record *record,
				  char text[TEXT])
{
	const uint64_t now_ns = teller->why->now_ns;
	char time[32];

	if (record->wait == VB_WAIT_RECEIVE && record->rnr_retry == 7)
		snprintf(text, TEXT, "it gives up never (rnr_retry 7)");
	else if (record->wait == VB_WAIT_RECEIVE)
		snprintf(text, TEXT, "try %u of %u (rnr_retry %u)", record->tries + 1,
			 record->rnr_retry + 1u, record->rnr_retry);
	else if (!record->timeout || record->give_up_ns == VB_WHY_NEVER)
		snprintf(text, TEXT, "it gives up never (timeout 0)");
	else
		snprintf(text, TEXT, "it gives up in %s (timeout %u, retry_cnt %u)",
			 seconds(record->give_up_ns > now_ns ? record->give_up_ns - now_ns : 0,
				 time),
			 record->timeout, record->retry_cnt);
	return text;
}

/* --- a QP that sends --- */

/* "; that process is stopped ..." or nothing. */
static const char *stopped_words(const struct teller *teller, const struct vb_why_record *record,
				 char text[TEXT])
{
	const pid_t pid = vb_why_peer_pid(teller->why, record);

	*text = '\0';
	if (pid && pid != teller->process->pid && vb_stopped_process(pid))
		snprintf(text, TEXT,
			 "; that process is stopped (SIGSTOP): `kill -CONT %d` continues it", pid);
	return text;
}

/* Both wait for a receive of the other. */
static bool is_deadlock(const struct teller *teller, const struct vb_why_record *record)
{
	const struct vb_why_record *peer = peer_of(teller->why, record);

	return peer && peer->dest_qpn == record->id && peer->wait == VB_WAIT_RECEIVE;
}

static void tell_receive(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT], peer[TEXT], patience[TEXT], stopped[TEXT], time[32];

	if (is_deadlock(teller, record))
		say(teller,
		    "%s and QP %s wait for each other, since %s: each has a SEND for which the "
		    "other has posted no receive; %s",
		    qp_words(teller, record, qp), peer_words(teller, record, peer),
		    age(teller, record->since_ns, time), patience_words(teller, record, patience));
	else
		say(teller,
		    "%s has a %s (wr_id %llu) waiting since %s: its peer %s has posted no "
		    "receive; %s%s",
		    qp_words(teller, record, qp), opcode_words(record->opcode),
		    (unsigned long long)record->wr_id, age(teller, record->since_ns, time),
		    peer_words(teller, record, peer), patience_words(teller, record, patience),
		    stopped_words(teller, record, stopped));
}

static void tell_peer(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT], peer[TEXT], patience[TEXT], stopped[TEXT], time[32];

	say(teller, "%s has a %s (wr_id %llu) waiting since %s for its peer %s: %.199s; %s%s",
	    qp_words(teller, record, qp), opcode_words(record->opcode),
	    (unsigned long long)record->wr_id, age(teller, record->since_ns, time),
	    peer_words(teller, record, peer), record->words,
	    patience_words(teller, record, patience), stopped_words(teller, record, stopped));
}

static void tell_answer(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT], peer[TEXT], patience[TEXT], stopped[TEXT], time[32], loss[TEXT] = "";

	if (record->tries)
		snprintf(loss, sizeof(loss),
			 ", %u repetitions so far; the window has closed to %u of %u packets "
			 "under way",
			 record->tries, record->window, record->in_flight);
	say(teller,
	    "%s has a %s (wr_id %llu) waiting since %s: its peer %s does not answer%s; %s%s",
	    qp_words(teller, record, qp), opcode_words(record->opcode),
	    (unsigned long long)record->wr_id, age(teller, record->since_ns, time),
	    peer_words(teller, record, peer), loss, patience_words(teller, record, patience),
	    stopped_words(teller, record, stopped));
}

static void tell_send(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT], peer[TEXT], stopped[TEXT], time[32];

	switch ((enum vb_why_wait)record->wait) {
	case VB_WAIT_RECEIVE:
		tell_receive(teller, record);
		return;
	case VB_WAIT_PEER:
		tell_peer(teller, record);
		return;
	case VB_WAIT_ANSWER:
		tell_answer(teller, record);
		return;
	case VB_WAIT_RULE:
		say(teller, "%s has %u work request%s that a fault rule delays or loses",
		    qp_words(teller, record, qp), record->sends, plural(record->sends));
		return;
	case VB_WAIT_CQE:
		say(teller, "%s has a CQE_WAIT (wr_id %llu) waiting since %s for %.199s",
		    qp_words(teller, record, qp), (unsigned long long)record->wr_id,
		    age(teller, record->since_ns, time), record->words);
		return;
	case VB_WAIT_ENABLE:
		say(teller,
		    "%s has %u work request%s that no SEND_ENABLE has enabled: the queue is "
		    "managed",
		    qp_words(teller, record, qp), record->sends, plural(record->sends));
		return;
	case VB_WAIT_NOT:
	case VB_WAIT_BUSY:
		break;
	}
	say(teller, "%s has %u work request%s to QP %s that nobody completes%s",
	    qp_words(teller, record, qp), record->sends, plural(record->sends),
	    peer_words(teller, record, peer), stopped_words(teller, record, stopped));
}

/* --- a QP that does not send --- */

static void tell_silent(struct teller *teller, const struct vb_why_record *record)
{
	const struct vb_why_record *peer = peer_of(teller->why, record);
	char qp[TEXT], words[TEXT], stopped[TEXT];

	if (!record->receives) {
		teller->verdict->idle++;
		if (teller->question->pid || teller->question->qpn)
			say(teller, "%s: nothing is posted: the program itself does nothing",
			    qp_words(teller, record, qp));
		return;
	}
	if (peer && peer->dest_qpn == record->id && !peer->sends && peer->receives)
		say(teller,
		    "%s and QP %s wait for each other: both have receives posted, and neither has "
		    "posted a send%s",
		    qp_words(teller, record, qp), peer_words(teller, record, words),
		    stopped_words(teller, record, stopped));
	else if (record->dest_qpn)
		say(teller, "%s has %u receive%s posted, and its peer %s %s%s",
		    qp_words(teller, record, qp), record->receives, plural(record->receives),
		    peer_words(teller, record, words),
		    peer && peer->sends ? "sends" : "sends nothing",
		    stopped_words(teller, record, stopped));
	else
		say(teller, "%s has %u receive%s posted, and nothing arrives",
		    qp_words(teller, record, qp), record->receives, plural(record->receives));
}

static void tell_failed(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT], time[32];
	const bool sqe = record->state == IBV_QPS_SQE;

	say(teller, "%s is in %s%s%s%s%.199s%s", qp_words(teller, record, qp), sqe ? "SQE" : "ERR",
	    record->failed_ns ? " since " : "",
	    record->failed_ns ? age(teller, record->failed_ns, time) : "",
	    *record->words ? ": " : "", record->words,
	    sqe ? "; sends are flushed until ibv_modify_qp moves it to RTS" : "");
}

static void tell_qp(struct teller *teller, const struct vb_why_record *record)
{
	char qp[TEXT];

	if (teller->question->qpn && record->id != teller->question->qpn)
		return;
	teller->verdict->found = true;
	if (has_moved(teller, record))
		teller->verdict->moved++;
	else if (record->state == IBV_QPS_ERR || record->state == IBV_QPS_SQE)
		tell_failed(teller, record);
	else if (record->state == IBV_QPS_SQD && record->sends)
		say(teller,
		    "%s is in SQD: %u work request%s until ibv_modify_qp moves it back to RTS",
		    qp_words(teller, record, qp), record->sends,
		    record->sends == 1 ? " waits" : "s wait");
	else if (record->sends)
		tell_send(teller, record);
	else if (record->state == IBV_QPS_RTR || record->state == IBV_QPS_RTS ||
		 record->state == IBV_QPS_SQD)
		tell_silent(teller, record);
	else
		teller->verdict->idle++;
}

/* --- completion queues and calls --- */

static void tell_cq(struct teller *teller, const struct vb_why_record *record)
{
	const struct vb_why_record *then = record_of(
		process_of(&teller->why->before, teller->process->pid), VB_WAITS_CQ, record->id);

	if (!record->count || !then || then->count != record->count ||
	    then->polls != record->polls || has_moved(teller, record) || teller->question->qpn)
		return;
	say(teller, "CQ %u (%s, pid %d) holds %u completion%s that nobody polls%s (cqe %u)",
	    record->id, teller->program, teller->process->pid, record->count, plural(record->count),
	    record->count >= record->depth ? ": it is full" : "", record->depth);
}

static void tell_call(struct teller *teller, const struct vb_why_record *record)
{
	char time[32];

	if (teller->why->now_ns - record->since_ns < SHORT_NS)
		return;
	say(teller, "%s (pid %d) waits in %.23s since %s for %u %.199s", teller->program,
	    teller->process->pid, record->call, age(teller, record->since_ns, time), record->count,
	    record->words);
}

/* --- connections --- */

static const struct {
	const char *before, *after; /* the address and port stand between them */
} id_words[VB_CM_WAITS] = {
	[VB_CM_WAITS_ADDRESS] = { "rdma_resolve_addr waits for the link layer address of",
				  "; nobody there answers ARP or neighbour discovery" },
	[VB_CM_WAITS_REP] = { "rdma_connect waits for the answer (REP) of",
			      ": the server there has not called rdma_accept or rdma_reject, or "
			      "the "
			      "host does not answer" },
	[VB_CM_WAITS_FETCH] = { "a connection request of",
				" waits for the program: it has not fetched the event "
				"(rdma_get_cm_event)" },
	[VB_CM_WAITS_ACCEPT] = { "a connection request of",
				 " waits for the program: it has not called rdma_accept or "
				 "rdma_reject" },
	[VB_CM_WAITS_RTU] = { "rdma_accept waits for", ": its RTU has not come" },
	[VB_CM_WAITS_ESTABLISH] = { "the answer of",
				    " has come, and the program has not gone on: "
				    "rdma_get_cm_event, "
				    "then rdma_establish if it manages the QP itself" },
	[VB_CM_WAITS_DREP] = { "rdma_disconnect waits for the answer (DREP) of", "" },
	[VB_CM_WAITS_SIDR] = { "rdma_connect waits for the answer (SIDR_REP) of",
			       ": the server there has not called rdma_accept or rdma_reject, or "
			       "the "
			       "host does not answer" },
};

static void tell_id(struct teller *teller, const struct vb_why_record *record)
{
	char time[32];

	if (teller->question->qpn || record->wait >= VB_CM_WAITS || !id_words[record->wait].before)
		return;
	if (has_moved(teller, record))
		return;
	say(teller, "cm_id %u (%s, pid %d): since %s %s %.199s%s", record->id, teller->program,
	    teller->process->pid, age(teller, record->since_ns, time),
	    id_words[record->wait].before, record->words, id_words[record->wait].after);
}

/* --- processes --- */

static void tell_unasked(struct teller *teller)
{
	const pid_t pid = teller->process->pid;
	char line[VB_SILENT_LINE];

	if (teller->process->error == EPERM && !teller->question->pid)
		return; /* of another user, and nobody asked for it */
	teller->verdict->unasked++;
	vb_silent_words(pid, teller->process->error, line);
	teller->question->say(teller->question->arg, line);
}

static void tell_process(struct teller *teller)
{
	const struct vb_asked_process *process = teller->process;

	for (unsigned i = 0; i < process->answer.record_count; i++) {
		const struct vb_why_record *record = &process->waits[i];

		if (record->kind == VB_WAITS_CALL)
			tell_call(teller, record);
		else if (record->kind == VB_WAITS_CQ)
			tell_cq(teller, record);
		else if (record->kind == VB_WAITS_QP)
			tell_qp(teller, record);
		else if (record->kind == VB_WAITS_ID)
			tell_id(teller, record);
	}
}

struct vb_why_verdict vb_why_tell(const struct vb_why *why, const struct vb_why_question *question)
{
	struct vb_why_verdict verdict = { 0 };

	for (unsigned i = 0; i < why->after.count; i++) {
		struct teller teller = { why, question, &why->after.list[i], &verdict, "" };

		if (question->pid && teller.process->pid != question->pid)
			continue;
		verdict.found |= !question->qpn;
		vb_process_program(teller.process->pid, teller.program);
		if (!teller.process->error)
			tell_process(&teller);
		else if (!question->qpn)
			tell_unasked(&teller);
	}
	return verdict;
}
