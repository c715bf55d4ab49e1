/* SPDX-License-Identifier: BSD-2-Clause */
/* Two answers of each process, a moment apart, become rates. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"
#include "verbena.h"

double top_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const struct vb_asked_process *process_of(const struct vb_asked_processes *all, pid_t pid)
{
	for (unsigned i = 0; all && i < all->count; i++)
		if (all->list[i].pid == pid && !all->list[i].error)
			return &all->list[i];
	return NULL;
}

/* Objects keep their order between two answers, as a rule: so the look begins at the same place. */
static const struct vb_describe_record *same_qp(const struct vb_asked_process *process,
						uint32_t qpn, unsigned near)
{
	const unsigned count = process ? process->answer.record_count : 0;

	for (unsigned i = 0; i < count; i++) {
		const struct vb_describe_record *record = &process->records[(near + i) % count];

		if (record->kind == VB_DESCRIBE_QP && record->id == qpn)
			return record;
	}
	return NULL;
}

static double rate(uint64_t before, uint64_t after, double seconds)
{
	return after > before && seconds > 0 ? (double)(after - before) / seconds : 0;
}

/* Counts of 32 bits wrap around; one that went down belongs to a QP that was reset. */
static double rate32(uint32_t before, uint32_t after, double seconds)
{
	const uint32_t more = after - before;

	return more < 1u << 31 && seconds > 0 ? more / seconds : 0;
}

static double waits_of(struct top_sample *sample, const struct vb_describe_record *record)
{
	struct top_wait *list;

	for (size_t i = 0; i < sample->wait_count; i++) {
		struct top_wait *wait = &sample->waits[i];

		if (wait->qpn != record->id)
			continue;
		if (wait->sent != record->sent || !record->send_posted)
			*wait = (struct top_wait){ record->id, record->sent, sample->newer_s };
		return sample->newer_s - wait->since_s;
	}
	list = realloc(sample->waits, (sample->wait_count + 1) * sizeof(*list));
	if (!list)
		return 0;
	sample->waits = list;
	list[sample->wait_count++] = (struct top_wait){ record->id, record->sent, sample->newer_s };
	return 0;
}

static void row_add(struct top_sample *sample, const struct vb_asked_process *process,
		    const struct vb_asked_process *before, unsigned index, const char *program)
{
	const struct vb_describe_record *record = &process->records[index];
	const struct vb_describe_record *older = same_qp(before, record->id, index);
	const double seconds = sample->newer_s - sample->older_s;
	struct top_row *row = &sample->rows[sample->row_count++];

	*row = (struct top_row){ .pid = process->pid,
				 .peer = peer_pid(sample->newer, record),
				 .record = record };
	memcpy(row->program, program, NAME_SIZE);
	/* Only a queue that waits is followed: there are few of them. */
	if (record->send_posted)
		row->waits_s = waits_of(sample, record);
	if (!older)
		return;
	row->sent = rate32(older->sent, record->sent, seconds);
	row->received = rate32(older->received, record->received, seconds);
	row->bytes_out = rate(older->bytes_out, record->bytes_out, seconds);
	row->bytes_in = rate(older->bytes_read, record->bytes_read, seconds);
}

static void process_add(struct top_sample *sample, const struct vb_asked_process *process,
			const struct vb_asked_process *before, const char *program)
{
	const struct vb_describe_answer *now = &process->answer;
	const struct vb_describe_answer *then = before ? &before->answer : now;
	const double seconds = sample->newer_s - sample->older_s;
	struct top_process *row = &sample->processes[sample->process_count++];

	*row = (struct top_process){
		.process = process,
		.packets_out = rate(then->packets_out, now->packets_out, seconds),
		.packets_in = rate(then->packets_in, now->packets_in, seconds),
		.repeated = rate(then->repeated, now->repeated, seconds),
		.rnr_naks = rate(then->rnr_naks, now->rnr_naks, seconds),
		.dropped = rate(then->dropped, now->dropped, seconds),
	};
	memcpy(row->program, program, NAME_SIZE);
}

static int by_qpn(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	return (x->record->id > y->record->id) - (x->record->id < y->record->id);
}

/* The sender of a message counts it, on one host: its peer gets the same bytes. */
static void bytes_to_peers(struct top_sample *sample)
{
	if (sample->row_count)
		qsort(sample->rows, sample->row_count, sizeof(*sample->rows), by_qpn);
	for (size_t i = 0; i < sample->row_count; i++) {
		const struct top_row *row = &sample->rows[i];
		const struct vb_describe_record peer = { .id = row->record->dest_qpn };
		const struct top_row key = { .record = &peer };
		struct top_row *found;

		if (!row->record->dest_local || !peer.id || row->bytes_out <= 0)
			continue;
		found = bsearch(&key, sample->rows, sample->row_count, sizeof(key), by_qpn);
		if (found)
			found->bytes_in += row->bytes_out;
	}
}

static bool rows_make(struct top_sample *sample)
{
	const struct vb_asked_processes *all = sample->newer;
	size_t room = 1;

	for (unsigned i = 0; i < all->count; i++)
		room += all->list[i].answer.record_count;
	free(sample->rows);
	free(sample->processes);
	sample->row_count = sample->process_count = 0;
	sample->rows = calloc(room, sizeof(*sample->rows));
	sample->processes = calloc(all->count + 1, sizeof(*sample->processes));
	if (!sample->rows || !sample->processes)
		return false;
	for (unsigned i = 0; i < all->count; i++) {
		const struct vb_asked_process *process = &all->list[i];
		const struct vb_asked_process *before = process_of(sample->older, process->pid);
		char program[NAME_SIZE];

		program_of(process, program);
		process_add(sample, process, before, program);
		for (unsigned k = 0; k < process->answer.record_count; k++)
			if (process->records[k].kind == VB_DESCRIBE_QP)
				row_add(sample, process, before, k, program);
	}
	bytes_to_peers(sample);
	return true;
}

bool sample_take(struct top_sample *sample, pid_t pid)
{
	struct vb_asked_processes *all = malloc(sizeof(*all));
	const struct vb_ask_filter filter = { .only = pid };
	int err = all ? vb_ask_processes(all, &filter) : 0;

	if (!all || err) {
		complain(all ? "/proc/net/unix: %s" : "top: out of memory%s",
			 all ? strerror(-err) : "");
		free(all);
		return false;
	}
	if (sample->older) {
		vb_ask_free(sample->older);
		free(sample->older);
	}
	sample->older = sample->newer;
	sample->older_s = sample->newer_s;
	sample->newer = all;
	sample->newer_s = top_now_s();
	return rows_make(sample);
}

/* --- order --- */

static enum top_sort order;

static int descending(double a, double b)
{
	return (a < b) - (a > b);
}

static int by_traffic(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int result = 0;

	if (order == TOP_BYTES)
		result = descending(x->bytes_out + x->bytes_in, y->bytes_out + y->bytes_in);
	else if (order == TOP_WAITING)
		result = descending(x->waits_s, y->waits_s);
	if (!result && order != TOP_PID)
		result = descending(x->sent + x->received, y->sent + y->received);
	if (!result)
		result = (x->pid > y->pid) - (x->pid < y->pid);
	return result ? result : by_qpn(a, b);
}

void sample_sort(struct top_sample *sample, enum top_sort sort)
{
	order = sort;
	if (sample->row_count)
		qsort(sample->rows, sample->row_count, sizeof(*sample->rows), by_traffic);
}

void sample_free(struct top_sample *sample)
{
	if (sample->older)
		vb_ask_free(sample->older);
	if (sample->newer)
		vb_ask_free(sample->newer);
	free(sample->older);
	free(sample->newer);
	free(sample->rows);
	free(sample->processes);
	free(sample->waits);
}
