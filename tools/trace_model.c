/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stations become slices. A work request has a slice from its post to its poll, with a slice for
 * each part of its life inside. Work requests of one queue overlap, and slices of one row must not:
 * a queue has as many rows as it needs.
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/reason.h"
#include "nic/wr_opcode.h"
#include "trace.h"

enum { GAP_MAX = 1 << 16 };

/* --- processes, queues, rows --- */

static void *append(void *list, unsigned *count, size_t size)
{
	/* Doubles at powers of two. */
	char *grown =
		*count & (*count - 1) ? list : realloc(list, (*count ? 2ul * *count : 1) * size);

	if (!grown)
		return NULL;
	memset(grown + (size_t)*count * size, 0, size);
	(*count)++;
	return grown;
}

static struct trace_process *process_find(struct trace_model *model, pid_t pid, const char *program)
{
	struct trace_process *list;

	for (unsigned i = 0; i < model->process_count; i++)
		if (model->processes[i].pid == pid)
			return &model->processes[i];
	list = append(model->processes, &model->process_count, sizeof(*list));
	if (!list)
		return NULL;
	model->processes = list;
	list[model->process_count - 1].pid = pid;
	trace_name_process(model->file, pid, program);
	return &list[model->process_count - 1];
}

struct trace_qp *trace_qp_find(struct trace_process *process, uint32_t qpn)
{
	struct trace_qp *list;

	for (unsigned i = process->qp_count; i; i--)
		if (process->qps[i - 1].qpn == qpn)
			return &process->qps[i - 1];
	list = append(process->qps, &process->qp_count, sizeof(*list));
	if (!list)
		return NULL;
	process->qps = list;
	list[process->qp_count - 1].qpn = qpn;
	return &list[process->qp_count - 1];
}

static bool qp_is_known(const struct trace_model *model, uint32_t qpn)
{
	for (unsigned p = 0; p < model->process_count; p++)
		for (unsigned i = 0; i < model->processes[p].qp_count; i++)
			if (model->processes[p].qps[i].qpn == qpn)
				return true;
	return false;
}

static bool row_add(struct trace_rows *rows)
{
	uint64_t *ends_ns = realloc(rows->ends_ns, (rows->count + 1) * sizeof(*ends_ns));
	uint32_t *tids = realloc(rows->tids, (rows->count + 1) * sizeof(*tids));

	rows->ends_ns = ends_ns ? ends_ns : rows->ends_ns;
	rows->tids = tids ? tids : rows->tids;
	if (!ends_ns || !tids)
		return false;
	rows->ends_ns[rows->count] = 0;
	rows->count++;
	return true;
}

struct trace_track trace_row(struct trace_model *model, struct trace_process *process,
			     struct trace_rows *rows, const char *name, uint64_t from_ns,
			     uint64_t to_ns)
{
	struct trace_track track = { .pid = process->pid };
	char text[TRACK_NAME_SIZE + 16];
	unsigned row = 0;

	while (row < rows->count && rows->ends_ns[row] > from_ns)
		row++;
	if (row == rows->count) {
		if (!row_add(rows))
			return track;
		track.tid = rows->tids[row] = ++process->tid_last;
		snprintf(text, sizeof(text), row ? "%s +%u" : "%s", name, row);
		trace_name_track(model->file, track, text);
	}
	rows->ends_ns[row] = to_ns > from_ns ? to_ns : from_ns + 1;
	track.tid = rows->tids[row];
	return track;
}

void trace_rows_free(struct trace_rows *rows)
{
	free(rows->ends_ns);
	free(rows->tids);
}

/* --- arrows --- */

void trace_arrow_join(struct trace_model *model, struct trace_arrow *arrow)
{
	if (!arrow->from.known || !arrow->to.known)
		return;
	trace_flow(model->file, arrow->from.track, true, arrow->from.at_ns, arrow->key);
	trace_flow(model->file, arrow->to.track, false, arrow->to.at_ns, arrow->key);
	trace_arrow_remove(&model->arrows, arrow);
}

static void arrow_from(struct trace_model *model, const struct trace_qp *qp,
		       const struct trace_wr *wr, struct trace_track track, uint64_t at_ns)
{
	const uint64_t key = wr->wired ? trace_packet_key(wr->peer_qpn, qp->qpn, wr->psn)
				       : trace_receive_key(wr->peer_qpn, wr->receive);
	struct trace_arrow *arrow = trace_arrow_find(&model->arrows, key, true);

	if (!arrow)
		return;
	arrow->from = (struct trace_point){ true, track, at_ns };
	arrow->from_qpn = qp->qpn;
	arrow->to_qpn = wr->peer_qpn;
	trace_arrow_join(model, arrow);
}

/* --- work requests of a send queue --- */

static const char *opcode_name(uint8_t opcode)
{
	const struct vb_wr_row *row = vb_wr_row_named(opcode);

	return row->name ? row->name : "operation";
}

/* The parts of its life, one behind the other. */
static void wr_parts(struct trace_model *model, const struct trace_wr *wr, struct trace_track track,
		     uint64_t from_ns, uint64_t to_ns)
{
	const struct {
		const char *name;
		uint64_t to_ns;
	} parts[] = {
		{ "queued", wr->begun_ns },
		{ wr->wired ? "on the wire" : "executed", wr->done_ns },
		{ "complete, not polled", to_ns },
	};

	for (unsigned i = 0; i < 3; i++) {
		uint64_t end_ns = parts[i].to_ns;

		if (!end_ns)
			continue;
		end_ns = end_ns < from_ns ? from_ns : end_ns > to_ns ? to_ns : end_ns;
		if (end_ns > from_ns)
			trace_slice(model->file, track, parts[i].name, from_ns, end_ns, "");
		from_ns = end_ns;
	}
}

static uint64_t wr_from_ns(const struct trace_wr *wr)
{
	return wr->posted_ns ? wr->posted_ns : wr->begun_ns ? wr->begun_ns : wr->done_ns;
}

/* to_ns: when its completion, or that of a later one, was polled; 0: not yet, the trace ends. */
static void wr_write(struct trace_model *model, struct trace_process *process, struct trace_qp *qp,
		     const struct trace_wr *wr, uint64_t to_ns, const char *state)
{
	const uint64_t from_ns = wr_from_ns(wr);
	char name[TRACK_NAME_SIZE], args[ARGS_SIZE], peer[40] = "";
	struct trace_track track;

	if (!wr->known || !from_ns)
		return;
	if (to_ns < from_ns)
		to_ns = from_ns;
	snprintf(name, sizeof(name), "QP 0x%06x sends", qp->qpn);
	track = trace_row(model, process, &qp->sends, name, from_ns, to_ns);
	if (wr->peer_qpn)
		snprintf(peer, sizeof(peer), ",\"peer\":\"QP 0x%06x\"", wr->peer_qpn);
	snprintf(args, sizeof(args),
		 "\"wr_id\":\"%" PRIu64 "\",\"bytes\":%u,\"qp\":\"0x%06x\"%s,\"path\":\"%s\","
		 "\"status\":\"%s\",\"state\":\"%s\"",
		 wr->wr_id, wr->length, qp->qpn, peer, wr->wired ? "wire" : "local",
		 ibv_wc_status_str(wr->status), state);
	trace_slice(model->file, track, opcode_name(wr->opcode), from_ns, to_ns, args);
	wr_parts(model, wr, track, from_ns, to_ns);
	if (wr->consumed && wr->status == IBV_WC_SUCCESS)
		arrow_from(model, qp, wr, track,
			   wr->begun_ns > from_ns && wr->begun_ns < to_ns ? wr->begun_ns : from_ns);
}

static struct trace_wr *wr_at(const struct trace_qp *qp, uint32_t index)
{
	return &qp->wrs[index & (qp->room - 1)];
}

/* Work requests before `end` are over. Those without a completion end when they were done. */
static void wrs_retire(struct trace_model *model, struct trace_process *process,
		       struct trace_qp *qp, uint32_t end, uint64_t to_ns)
{
	for (; qp->count && qp->first != end; qp->first++, qp->count--) {
		const struct trace_wr *wr = wr_at(qp, qp->first);

		wr_write(model, process, qp, wr, wr->done_ns ? wr->done_ns : to_ns, "unsignaled");
	}
	qp->first = end;
}

static bool wrs_grow(struct trace_qp *qp, uint32_t count)
{
	struct trace_qp larger = *qp;

	if (count <= qp->room)
		return true;
	for (larger.room = larger.room ? larger.room : 64; larger.room < count; larger.room *= 2)
		;
	larger.wrs = calloc(larger.room, sizeof(*larger.wrs));
	if (!larger.wrs)
		return false;
	for (uint32_t i = 0; i < qp->count; i++)
		*wr_at(&larger, qp->first + i) = *wr_at(qp, qp->first + i);
	free(qp->wrs);
	*qp = larger;
	return true;
}

/* Stations of some work requests may be lost, and the queue may have been reset. */
static struct trace_wr *wr_find(struct trace_model *model, struct trace_process *process,
				struct trace_qp *qp, uint32_t index, uint64_t now_ns)
{
	const uint32_t distance = index - qp->first;

	if (!qp->count || distance > qp->count + GAP_MAX) {
		if (qp->count)
			wrs_retire(model, process, qp, qp->first + qp->count, now_ns);
		qp->first = index;
	}
	if (!wrs_grow(qp, index - qp->first + 1))
		return NULL;
	while (index - qp->first >= qp->count)
		*wr_at(qp, qp->first + qp->count++) = (struct trace_wr){ 0 };
	return wr_at(qp, index);
}

static void wr_describe(struct trace_wr *wr, const struct vb_capture_station *station)
{
	wr->known = true;
	wr->wr_id = station->wr_id;
	wr->opcode = station->opcode;
	wr->length = station->length;
	wr->status = station->status;
	if (station->peer_qpn)
		wr->peer_qpn = station->peer_qpn;
}

static void wr_done(struct trace_model *model, struct trace_wr *wr,
		    const struct vb_capture_station *station)
{
	struct trace_arrow *arrow;

	wr->done_ns = station->head.time_ns;
	if (station->begun_ns)
		wr->begun_ns = station->begun_ns;
	if (wr->wired || !station->peer_qpn)
		return;
	wr->receive = station->receive;
	wr->consumed = true;
	arrow = trace_arrow_find(&model->arrows,
				 trace_receive_key(station->peer_qpn, station->receive), true);
	if (arrow)
		arrow->placed_ns = wr->done_ns;
}

/* --- waits of a send queue --- */

static const char *const wait_names[VB_TRACE_WAIT_COUNT] = {
	[VB_TRACE_NO_RECEIVE] = "waits: the peer has posted no receive",
	[VB_TRACE_PEER] = "waits: the peer is not ready or does not answer",
	[VB_TRACE_WINDOW] = "waits: the window is full",
	[VB_TRACE_SHARE] = "waits: the share of the lane is full",
	[VB_TRACE_RATE] = "waits: the rate",
	[VB_TRACE_RULE] = "waits: a fault rule",
	[VB_TRACE_BUSY] = "waits: the way to the peer is busy",
};

static void wait_end(struct trace_model *model, struct trace_process *process, struct trace_qp *qp,
		     uint64_t now_ns)
{
	char name[TRACK_NAME_SIZE];

	if (qp->why && qp->why < VB_TRACE_WAIT_COUNT) {
		snprintf(name, sizeof(name), "QP 0x%06x waits", qp->qpn);
		trace_slice(model->file,
			    trace_row(model, process, &qp->waits, name, qp->why_ns, now_ns),
			    wait_names[qp->why], qp->why_ns, now_ns, "");
	}
	qp->why = VB_TRACE_GOES_ON;
}

/* --- polls --- */

static uint32_t cq_track(struct trace_model *model, struct trace_process *process, uint32_t cq)
{
	char name[TRACK_NAME_SIZE];
	void *list;

	for (unsigned i = 0; i < process->cq_count; i++)
		if (process->cqs[i].cq == cq)
			return process->cqs[i].tid;
	list = append(process->cqs, &process->cq_count, sizeof(*process->cqs));
	if (!list)
		return 0;
	process->cqs = list;
	process->cqs[process->cq_count - 1].cq = cq;
	process->cqs[process->cq_count - 1].tid = ++process->tid_last;
	snprintf(name, sizeof(name), "CQ %u", cq);
	trace_name_track(model->file, (struct trace_track){ process->pid, process->tid_last },
			 name);
	return process->tid_last;
}

static void poll_write(struct trace_model *model, struct trace_process *process)
{
	const struct trace_poll *poll = &process->poll;
	struct trace_track track = { process->pid, 0 };
	char name[TRACK_NAME_SIZE];

	if (!poll->count)
		return;
	track.tid = cq_track(model, process, poll->cq);
	snprintf(name, sizeof(name), "%u polled", poll->count);
	trace_instant(model->file, track, name, poll->from_ns, "");
}

/* Completions of one poll come close together. */
static void poll_take(struct trace_model *model, struct trace_process *process,
		      const struct vb_capture_station *station)
{
	enum { APART_NS = 1000 };
	struct trace_poll *poll = &process->poll;
	const uint64_t now_ns = station->head.time_ns;

	if (poll->count && (poll->cq != station->cq || now_ns - poll->to_ns > APART_NS)) {
		poll_write(model, process);
		poll->count = 0;
	}
	if (!poll->count)
		*poll = (struct trace_poll){ station->cq, now_ns, now_ns, 0 };
	poll->to_ns = now_ns;
	poll->count++;
}

/* --- stations --- */

static void send_station(struct trace_model *model, struct trace_process *process,
			 struct trace_qp *qp, const struct vb_capture_station *station)
{
	const uint64_t now_ns = station->head.time_ns;
	struct trace_wr *wr = wr_find(model, process, qp, station->index, now_ns);

	if (!wr)
		return;
	wr_describe(wr, station);
	switch (station->station) {
	case VB_STATION_POSTED:
		wr->posted_ns = now_ns;
		break;
	case VB_STATION_BEGUN:
		wr->begun_ns = now_ns;
		wr->psn = station->psn;
		wr->wired = true;
		wr->consumed = vb_wr_consumes(station->opcode);
		break;
	case VB_STATION_DONE:
		wr_done(model, wr, station);
		wait_end(model, process, qp, now_ns);
		break;
	case VB_STATION_POLLED:
		wrs_retire(model, process, qp, station->index, now_ns);
		wr_write(model, process, qp, wr_at(qp, station->index), now_ns, "polled");
		qp->first++;
		qp->count--;
		poll_take(model, process, station);
		break;
	}
}

static void qp_station(struct trace_model *model, struct trace_process *process,
		       const struct vb_capture_station *station)
{
	struct trace_qp *qp = trace_qp_find(process, station->qpn);

	if (!qp)
		return;
	switch (station->station) {
	case VB_STATION_RECV_PLACED:
		trace_receive_placed(model, station);
		break;
	case VB_STATION_RECV_POLLED:
		trace_receive_hold(model, process, station);
		poll_take(model, process, station);
		break;
	case VB_STATION_WAITS:
		wait_end(model, process, qp, station->head.time_ns);
		qp->why = station->why;
		qp->why_ns = station->head.time_ns;
		break;
	default:
		send_station(model, process, qp, station);
	}
}

void trace_station(struct trace_model *model, pid_t pid, const char *program,
		   const struct vb_capture_station *station)
{
	struct trace_process *process = process_find(model, pid, program);

	if (!process)
		return;
	if (station->head.time_ns > model->last_ns)
		model->last_ns = station->head.time_ns;
	if (station->station == VB_STATION_CM)
		trace_handshake_take(model, process, station);
	else if (station->station == VB_STATION_RECV_POSTED)
		trace_receives_posted(process, station);
	else if (station->qpn)
		qp_station(model, process, station);
}

void trace_round(struct trace_model *model)
{
	model->round++;
	trace_receives_write(model, false);
}

/* --- the end --- */

static void qp_finish(struct trace_model *model, struct trace_process *process, struct trace_qp *qp,
		      uint64_t now_ns)
{
	for (; qp->count; qp->first++, qp->count--)
		wr_write(model, process, qp, wr_at(qp, qp->first), now_ns,
			 wr_at(qp, qp->first)->done_ns ? "not polled" : "not complete");
	wait_end(model, process, qp, now_ns);
}

/* An end whose other end belongs to a process that another program traces, maybe into this file. */
static void arrows_finish(struct trace_model *model)
{
	for (size_t i = 0; i < model->arrows.room; i++) {
		const struct trace_arrow *arrow = &model->arrows.list[i];

		if (!arrow->key)
			continue;
		if (arrow->from.known && !qp_is_known(model, arrow->to_qpn))
			trace_flow(model->file, arrow->from.track, true, arrow->from.at_ns,
				   arrow->key);
		if (arrow->to.known && !qp_is_known(model, arrow->from_qpn))
			trace_flow(model->file, arrow->to.track, false, arrow->to.at_ns,
				   arrow->key);
	}
}

void trace_finish(struct trace_model *model, uint64_t now_ns)
{
	trace_receives_write(model, true);
	for (unsigned p = 0; p < model->process_count; p++) {
		struct trace_process *process = &model->processes[p];

		for (unsigned i = 0; i < process->qp_count; i++)
			qp_finish(model, process, &process->qps[i], now_ns);
		poll_write(model, process);
		trace_handshakes_finish(model, process, now_ns);
	}
	arrows_finish(model);
}

void trace_free(struct trace_model *model)
{
	for (unsigned p = 0; p < model->process_count; p++) {
		struct trace_process *process = &model->processes[p];

		for (unsigned i = 0; i < process->qp_count; i++) {
			trace_rows_free(&process->qps[i].sends);
			trace_rows_free(&process->qps[i].receives);
			trace_rows_free(&process->qps[i].waits);
			free(process->qps[i].wrs);
		}
		trace_rows_free(&process->connections);
		free(process->qps);
		free(process->handshakes);
		free(process->cqs);
		free(process->posted);
	}
	free(model->processes);
	free(model->arrows.list);
	free(model->receives);
}
