/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the connection manager become slices: one per handshake, with its waits inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"
#include "wire/cm.h"

static const char *const names[] = {
	[VB_CM_REQ - VB_CM_REQ] = "REQ",           [VB_CM_MRA - VB_CM_REQ] = "MRA",
	[VB_CM_REJ - VB_CM_REQ] = "REJ",           [VB_CM_REP - VB_CM_REQ] = "REP",
	[VB_CM_RTU - VB_CM_REQ] = "RTU",           [VB_CM_DREQ - VB_CM_REQ] = "DREQ",
	[VB_CM_DREP - VB_CM_REQ] = "DREP",         [VB_CM_SIDR_REQ - VB_CM_REQ] = "SIDR_REQ",
	[VB_CM_SIDR_REP - VB_CM_REQ] = "SIDR_REP", [VB_CM_LAP - VB_CM_REQ] = "LAP",
	[VB_CM_APR - VB_CM_REQ] = "APR",
};

static const char *message_name(uint16_t attribute)
{
	const unsigned at = (unsigned)attribute - VB_CM_REQ;

	return at < sizeof(names) / sizeof(names[0]) && names[at] ? names[at] : "message";
}

static bool begins(uint16_t attribute)
{
	return attribute == VB_CM_REQ || attribute == VB_CM_SIDR_REQ || attribute == VB_CM_DREQ ||
	       attribute == VB_CM_LAP;
}

static bool ends(uint16_t attribute)
{
	return attribute == VB_CM_RTU || attribute == VB_CM_REJ || attribute == VB_CM_DREP ||
	       attribute == VB_CM_SIDR_REP || attribute == VB_CM_APR;
}

static const char *slice_name(uint16_t attribute)
{
	switch (attribute) {
	case VB_CM_REQ:
		return "connect";
	case VB_CM_DREQ:
		return "disconnect";
	case VB_CM_LAP:
		return "alternate path";
	}
	return "resolve service (SIDR)";
}

/* The wait that this message has begun, at the side that has sent it or got it. */
static const char *wait_name(const struct trace_mark *mark)
{
	switch (mark->attribute) {
	case VB_CM_REQ:
		return mark->out ? "waits for REP" : "waits for the program: rdma_accept";
	case VB_CM_REP:
		return mark->out ? "waits for RTU" : "waits for the program: RTU";
	case VB_CM_MRA:
		return mark->out ? "waits for the program" : "waits, the peer asked for time";
	case VB_CM_DREQ:
		return mark->out ? "waits for DREP" : "waits for the program: rdma_disconnect";
	}
	return mark->out ? "waits for the answer" : "waits for the program";
}

static void handshake_write(struct trace_model *model, struct trace_process *process,
			    const struct trace_handshake *handshake, uint64_t to_ns,
			    const char *end)
{
	const struct trace_mark *marks = handshake->marks;
	struct trace_track track = trace_row(model, process, &process->connections, "connections",
					     handshake->begun_ns, to_ns);
	char args[ARGS_SIZE];

	snprintf(args, sizeof(args), "\"comm id\":\"0x%08x\",\"side\":\"%s\",\"end\":\"%s\"",
		 handshake->id, handshake->out ? "active" : "passive", end);
	trace_slice(model->file, track, slice_name(marks[0].attribute), handshake->begun_ns, to_ns,
		    args);
	for (unsigned i = 0; i < handshake->mark_count; i++) {
		uint64_t until_ns = i + 1 < handshake->mark_count ? marks[i + 1].at_ns : to_ns;

		if (until_ns > marks[i].at_ns && !ends(marks[i].attribute))
			trace_slice(model->file, track, wait_name(&marks[i]), marks[i].at_ns,
				    until_ns, "");
	}
}

/* The id by which both sides know the handshake is that of the side that has begun it. */
static struct trace_handshake *handshake_find(struct trace_process *process,
					      const struct vb_capture_station *station)
{
	for (unsigned i = 0; i < process->handshake_count; i++) {
		struct trace_handshake *handshake = &process->handshakes[i];

		if (handshake->id && (handshake->id == station->comm_ids[0] ||
				      handshake->id == station->comm_ids[1]))
			return handshake;
	}
	return NULL;
}

static struct trace_handshake *handshake_new(struct trace_process *process,
					     const struct vb_capture_station *station)
{
	struct trace_handshake *list, *handshake = NULL;

	for (unsigned i = 0; i < process->handshake_count && !handshake; i++)
		if (!process->handshakes[i].id)
			handshake = &process->handshakes[i];
	if (!handshake) {
		list = realloc(process->handshakes, (process->handshake_count + 1) * sizeof(*list));
		if (!list)
			return NULL;
		process->handshakes = list;
		handshake = &list[process->handshake_count++];
	}
	*handshake = (struct trace_handshake){ .id = station->comm_ids[0],
					       .out = station->out,
					       .begun_ns = station->head.time_ns };
	return handshake;
}

void trace_handshake_take(struct trace_model *model, struct trace_process *process,
			  const struct vb_capture_station *station)
{
	struct trace_handshake *handshake = handshake_find(process, station);
	const uint64_t now_ns = station->head.time_ns;

	if (!handshake && begins(station->attribute))
		handshake = handshake_new(process, station);
	if (!handshake)
		return;
	if (handshake->mark_count < sizeof(handshake->marks) / sizeof(handshake->marks[0]))
		handshake->marks[handshake->mark_count++] =
			(struct trace_mark){ station->attribute, station->out, now_ns };
	if (!ends(station->attribute))
		return;
	handshake_write(model, process, handshake, now_ns, message_name(station->attribute));
	handshake->id = 0;
}

void trace_handshakes_finish(struct trace_model *model, struct trace_process *process,
			     uint64_t now_ns)
{
	for (unsigned i = 0; i < process->handshake_count; i++)
		if (process->handshakes[i].id)
			handshake_write(model, process, &process->handshakes[i], now_ns,
					"none: it still waits");
}
