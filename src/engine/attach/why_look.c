/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks processes what they wait for, twice. */
#include <poll.h>
#include <time.h>

#include "engine/attach/why_words.h"

enum { ASKED_MAX = 64 };

/* The processes that an answer needs. The others may be stopped, and silent for a second. */
struct asked {
	pid_t pids[ASKED_MAX];
	unsigned count;
};

static void asked_add(struct asked *asked, pid_t pid)
{
	for (unsigned i = 0; i < asked->count; i++)
		if (asked->pids[i] == pid)
			return;
	if (pid && asked->count < ASKED_MAX)
		asked->pids[asked->count++] = pid;
}

/* The peers of the one process, on this host. */
static int asked_find(const struct vb_why_question *question, struct asked *asked)
{
	struct vb_ask_filter filter = { .pids = asked->pids, .what = VB_DESCRIBE_WAITS };
	struct vb_why why = { 0 };
	int err;

	asked_add(asked, question->pid);
	filter.pid_count = asked->count;
	err = vb_ask_processes(&why.after, &filter);
	if (!err && question->qpn && question->qpn < 1u << 24) {
		asked_add(asked, why.after.pid_of_slot[question->qpn >> 12]);
		vb_ask_free(&why.after);
		filter.pid_count = asked->count;
		err = vb_ask_processes(&why.after, &filter);
	}
	if (err)
		return err;
	for (unsigned p = 0; p < why.after.count; p++)
		for (unsigned i = 0; i < why.after.list[p].answer.record_count; i++)
			asked_add(asked, vb_why_peer_pid(&why, &why.after.list[p].waits[i]));
	vb_ask_free(&why.after);
	return 0;
}

/* A stopped process has no room for connections after some questions. */
static void holders_find(struct vb_asked_processes *all)
{
	for (unsigned p = 0; p < all->count; p++)
		for (unsigned i = 0; i < all->list[p].answer.record_count; i++) {
			const struct vb_why_record *record = &all->list[p].waits[i];
			const uint32_t slot = record->dest_qpn >> 12;

			if (record->kind == VB_WAITS_QP && record->dest_local && record->dest_qpn &&
			    slot < VB_ASK_SLOTS && !all->pid_of_slot[slot])
				all->pid_of_slot[slot] = vb_why_holder(slot);
		}
}

int vb_why_look(struct vb_why *why, const struct vb_why_question *question, unsigned gap_ms)
{
	struct asked asked = { 0 };
	struct vb_ask_filter filter = { .what = VB_DESCRIBE_WAITS };
	struct timespec now;
	int err = 0;

	if (question->pid || question->qpn) {
		err = asked_find(question, &asked);
		filter.pids = asked.pids;
		filter.pid_count = asked.count;
	}
	if (!err)
		err = vb_ask_processes(&why->before, &filter);
	if (err)
		return err;
	poll(NULL, 0, (int)gap_ms);
	err = vb_ask_processes(&why->after, &filter);
	if (err) {
		vb_ask_free(&why->before);
		return err;
	}
	holders_find(&why->after);
	clock_gettime(CLOCK_MONOTONIC, &now);
	why->now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return 0;
}

void vb_why_free(struct vb_why *why)
{
	vb_ask_free(&why->before);
	vb_ask_free(&why->after);
}
