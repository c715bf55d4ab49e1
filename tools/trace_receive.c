/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives become slices, once their senders have told when the bytes were placed. */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum { ROUNDS_HELD = 2 };

static uint32_t owner_of(const struct vb_capture_station *station)
{
	return station->srq ? 1u << 31 | station->srq : station->qpn;
}

static struct trace_posted *posted_at(const struct trace_process *process, uint32_t owner,
				      uint32_t receive)
{
	return &process->posted[(owner * 2654435761u + receive) & (TRACE_POSTED - 1)];
}

void trace_receives_posted(struct trace_process *process, const struct vb_capture_station *station)
{
	const uint32_t owner = owner_of(station);

	if (!process->posted)
		process->posted = calloc(TRACE_POSTED, sizeof(*process->posted));
	for (uint32_t i = 0; process->posted && i < station->length && i < TRACE_POSTED; i++)
		*posted_at(process, owner, station->receive + i) =
			(struct trace_posted){ owner, station->receive + i, station->head.time_ns };
}

/* For how long the receive had been posted; 0: not known. */
static uint64_t posted_for_ns(const struct trace_process *process,
			      const struct vb_capture_station *station, uint64_t until_ns)
{
	const uint32_t owner = owner_of(station);
	const struct trace_posted *posted =
		process->posted ? posted_at(process, owner, station->receive) : NULL;

	return posted && posted->owner == owner && posted->receive == station->receive &&
			       posted->at_ns < until_ns
		       ? until_ns - posted->at_ns
		       : 0;
}

void trace_receive_hold(struct trace_model *model, const struct trace_process *process,
			const struct vb_capture_station *station)
{
	if (model->receive_count == model->receive_room) {
		size_t room = model->receive_room ? 2 * model->receive_room : 1024;
		struct trace_receive *list = realloc(model->receives, room * sizeof(*list));

		if (!list)
			return;
		model->receives = list;
		model->receive_room = room;
	}
	model->receives[model->receive_count++] =
		(struct trace_receive){ *station, (unsigned)(process - model->processes),
					model->round };
}

void trace_receive_placed(struct trace_model *model, const struct vb_capture_station *station)
{
	struct trace_arrow *arrow = trace_arrow_find(
		&model->arrows, trace_receive_key(station->qpn, station->receive), true);

	if (!arrow)
		return;
	arrow->placed_ns = station->head.time_ns;
	arrow->psn_key = trace_packet_key(station->qpn, station->peer_qpn, station->psn);
}

/* The arrow of a receive, and when its bytes were placed. By the wire it has the packet's key. */
static struct trace_arrow *receive_arrow(struct trace_model *model,
					 const struct vb_capture_station *station,
					 uint64_t *placed_ns)
{
	const uint64_t key = trace_receive_key(station->qpn, station->receive);
	struct trace_arrow *arrow = trace_arrow_find(&model->arrows, key, true);
	uint64_t psn_key;

	if (!arrow)
		return NULL;
	*placed_ns = arrow->placed_ns;
	psn_key = arrow->psn_key;
	if (!psn_key)
		return arrow;
	trace_arrow_remove(&model->arrows, arrow);
	return trace_arrow_find(&model->arrows, psn_key, true);
}

static void receive_write(struct trace_model *model, const struct trace_receive *receive)
{
	const struct vb_capture_station *station = &receive->station;
	struct trace_process *process = &model->processes[receive->process];
	struct trace_qp *qp = trace_qp_find(process, station->qpn);
	const bool came = station->status != IBV_WC_WR_FLUSH_ERR;
	uint64_t placed_ns = 0, to_ns = station->head.time_ns;
	struct trace_arrow *arrow = came ? receive_arrow(model, station, &placed_ns) : NULL;
	char name[TRACK_NAME_SIZE], args[ARGS_SIZE];
	struct trace_track track;
	uint64_t from_ns;

	if (!qp)
		return;
	from_ns = placed_ns && placed_ns < to_ns ? placed_ns : to_ns - 1;
	snprintf(name, sizeof(name), "QP 0x%06x receives", qp->qpn);
	track = trace_row(model, process, &qp->receives, name, from_ns, to_ns);
	snprintf(args, sizeof(args),
		 "\"wr_id\":\"%" PRIu64 "\",\"bytes\":%u,\"qp\":\"0x%06x\",\"peer\":\"QP 0x%06x\","
		 "\"status\":\"%s\",\"posted for us\":%.3f",
		 station->wr_id, station->length, qp->qpn, station->peer_qpn,
		 ibv_wc_status_str(station->status),
		 (double)posted_for_ns(process, station, from_ns) / 1000);
	trace_slice(model->file, track, "receive", from_ns, to_ns, args);
	if (!arrow)
		return;
	arrow->to = (struct trace_point){ true, track, from_ns };
	arrow->from_qpn = station->peer_qpn;
	arrow->to_qpn = station->qpn;
	trace_arrow_join(model, arrow);
}

/* Senders of other processes tell when bytes were placed; their rings may be read later. */
void trace_receives_write(struct trace_model *model, bool all)
{
	size_t done = 0;

	while (done < model->receive_count &&
	       (all || model->round - model->receives[done].round >= ROUNDS_HELD))
		receive_write(model, &model->receives[done++]);
	model->receive_count -= done;
	memmove(model->receives, model->receives + done,
		model->receive_count * sizeof(*model->receives));
}
