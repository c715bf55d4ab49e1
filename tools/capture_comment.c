/* SPDX-License-Identifier: BSD-2-Clause */
/* The comment of a packet: whose it is, and which work request it belongs to. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "nic/wr_opcode.h"
#include "wire/line.h"

void notes_take(struct vb_source *source, const struct vb_capture_head *record)
{
	const struct vb_capture_note *note = (const void *)record;
	struct capture_notes *notes = source->notes;
	struct capture_failure *failure;

	if (record->size < sizeof(*note) + record->text)
		return;
	if (record->kind == VB_CAPTURE_PSNS) {
		unsigned bucket = note->qpn % NOTE_BUCKETS;

		notes->buckets[bucket].list[notes->buckets[bucket].next++ % NOTES] = *note;
		return;
	}
	if (notes->failure_count == FAILURES) {
		memmove(notes->failures, notes->failures + 1,
			(FAILURES - 1) * sizeof(*notes->failures));
		notes->failure_count--;
	}
	failure = &notes->failures[notes->failure_count++];
	failure->note = *note;
	memcpy(failure->text, note + 1, record->text);
	failure->text[record->text] = '\0';
}

static const struct vb_capture_note *note_of(const struct capture_notes *notes, uint32_t qpn,
					     uint32_t psn)
{
	unsigned bucket = qpn % NOTE_BUCKETS, next = notes->buckets[bucket].next;

	for (unsigned i = 1; i <= NOTES; i++) { /* the latest first */
		const struct vb_capture_note *note =
			&notes->buckets[bucket].list[(next - i) % NOTES];

		if (note->psn_count && note->qpn == qpn &&
		    (uint32_t)(psn - note->psn) % (VB_PSN_MASK + 1u) < note->psn_count)
			return note;
	}
	return NULL;
}

static bool is_answer(uint8_t opcode)
{
	switch (vb_opcode_row(opcode)->family) {
	case VB_FAMILY_READ_RESPONSE:
	case VB_FAMILY_ACK:
	case VB_FAMILY_ATOMIC_ACK:
		return true;
	}
	return false;
}

void notes_find(const struct vb_source *source, struct vb_capture_frame *frame, const uint8_t *bth)
{
	const struct vb_capture_note *note;

	frame->answer = is_answer(bth[0]);
	/* Answers of this process, and requests of others, have PSNs of the other side. */
	if (frame->out == frame->answer)
		return;
	note = note_of(source->notes, frame->out ? frame->src_qpn : frame->dest_qpn, frame->psn);
	if (!note)
		return;
	frame->opcode = note->opcode;
	frame->wr_id = note->wr_id;
	if (!frame->out)
		frame->src_qpn = 0;
}

const char *notes_failure(struct vb_source *source, const struct vb_capture_frame *frame)
{
	struct capture_notes *notes = source->notes;
	static char text[VB_CAPTURE_TEXT + 1];

	for (unsigned i = 0; i < notes->failure_count; i++) {
		struct capture_failure *failure = &notes->failures[i];

		if (failure->note.qpn != frame->src_qpn && failure->note.qpn != frame->dest_qpn)
			continue;
		if (frame->opcode >= 0 && failure->note.wr_id != frame->wr_id)
			continue;
		memcpy(text, failure->text, sizeof(text));
		memmove(failure, failure + 1, (notes->failure_count - i - 1) * sizeof(*failure));
		notes->failure_count--;
		return text;
	}
	return NULL;
}

static const char *by_name(uint8_t by)
{
	static const char *const names[] = { [VB_BY_UDP] = "UDP",
					     [VB_BY_SLOT] = "slot socket",
					     [VB_BY_MEMORY] = "memory",
					     [VB_BY_GROUP] = "group on this host",
					     [VB_BY_NOWHERE] = "lost, no way" };

	return by < sizeof(names) / sizeof(*names) ? names[by] : "?";
}

static void add_qp(struct line *line, const struct vb_sources *sources, uint32_t qpn, bool ours)
{
	pid_t pid = qpn >> 12 < VB_ASK_SLOTS ? sources->pid_of_slot[qpn >> 12] : 0;

	line_add(line, "QP 0x%06x", qpn);
	if (!ours && pid)
		line_add(line, " (pid %d)", pid);
}

/* "pid 4711 (rping): SEND wr_id 5, QP 0x2a1003 to QP 0x31f004 (pid 4712), local path" */
void comment_write(const struct vb_sources *sources, const struct vb_source *source,
		   const struct vb_capture_frame *frame, char comment[COMMENT_SIZE])
{
	struct line line = { .out = comment, .size = COMMENT_SIZE };

	line_add(&line, "pid %d (%s): ", source->pid, source->program);
	if (frame->opcode >= 0) {
		const struct vb_wr_row *row = vb_wr_row_named((unsigned)frame->opcode);

		line_add(&line, "%s%s wr_id %llu, ", frame->answer ? "answer to " : "",
			 row->name ? row->name : "operation", (unsigned long long)frame->wr_id);
	}
	if (frame->src_qpn) {
		add_qp(&line, sources, frame->src_qpn, frame->out);
		line_add(&line, " to ");
	} else {
		line_add(&line, "to ");
	}
	add_qp(&line, sources, frame->dest_qpn, !frame->out);
	line_add(&line, ", %s", frame->local ? "local path" : by_name(frame->by));
}
