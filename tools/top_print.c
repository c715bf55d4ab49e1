/* SPDX-License-Identifier: BSD-2-Clause */
/* One sample on a screen, or as JSON. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "nic/qp.h"
#include "nic/stopped.h"
#include "top.h"
#include "verbena.h"

static const char *const sort_names[TOP_SORTS] = { "bytes", "messages", "waiting", "pid" };

/* What the send queue waits for; an empty text: nothing. */
const char *wait_words(const struct vb_describe_record *record)
{
	switch ((enum vb_pend_why)record->waits) {
	case VB_PEND_NONE:
		return record->state == IBV_QPS_SQD && record->send_posted ? "is drained (SQD)"
									   : "";
	case VB_PEND_UNREADY:
	case VB_PEND_ATTACH:
		return "peer is not ready";
	case VB_PEND_RNR:
		return "no receive posted";
	case VB_PEND_WIRE:
		return record->send_posted ? "packets under way" : "";
	case VB_PEND_BUSY:
		return "peer is busy";
	case VB_PEND_DELAYED:
		return "fault rule: delay";
	case VB_PEND_LOST:
		return "fault rule: loss";
	case VB_PEND_CQE:
		return "completions of a CQ";
	}
	return "?";
}

/* 5 characters at most: 0 to 999, then 1.0k, 10.0k, 999M ... */
static const char *short_number(double value, char text[16])
{
	static const char units[] = " kMGT";
	unsigned unit = 0;

	for (; value >= 999.5 && unit < sizeof(units) - 2; unit++)
		value /= 1000;
	if (!unit)
		snprintf(text, 16, "%.0f", value);
	else
		snprintf(text, 16, value < 99.5 ? "%.1f%c" : "%.0f%c", value, units[unit]);
	return text;
}

struct screen {
	unsigned lines, columns, used;
};

/* One line, cut at the edge of the screen. */
__attribute__((format(printf, 2, 3))) static void line_print(struct screen *screen,
							     const char *format, ...)
{
	char text[512];
	va_list arguments;

	if (screen->lines && screen->used >= screen->lines)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (screen->columns && strlen(text) > screen->columns)
		text[screen->columns] = '\0';
	/* On a terminal the rest of the old line goes. */
	printf(screen->lines ? "%s\033[K\n" : "%s\n", text);
	screen->used++;
}

/* "not shown: 2 stopped (4711, 4712), 1 of other users" */
static void silent_print(struct screen *screen, const struct top_sample *sample)
{
	unsigned stopped = 0, others = 0, silent = 0;
	char pids[64] = "", line[160] = "";

	for (size_t i = 0; i < sample->process_count; i++) {
		const struct vb_asked_process *process = sample->processes[i].process;
		const size_t used = strlen(pids);

		if (process->error == EPERM) {
			others++;
		} else if (process->error && vb_stopped_process(process->pid)) {
			stopped++;
			snprintf(pids + used, sizeof(pids) - used, "%s%d", used ? ", " : "",
				 process->pid);
		} else if (process->error) {
			silent++;
		}
	}
	if (stopped)
		snprintf(line, sizeof(line), ", %u stopped (%s)", stopped, pids);
	if (others)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), ", %u of other users",
			 others);
	if (silent)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), ", %u without an answer",
			 silent);
	if (*line)
		line_print(screen, "not shown: %s", line + 2);
}

static void head_print(struct screen *screen, const struct top_sample *sample, enum top_sort sort)
{
	double sent = 0, bytes = 0, packets = 0, repeated = 0, dropped = 0, rnr = 0;
	char a[16], b[16], c[16], d[16], e[16], f[16];

	for (size_t i = 0; i < sample->row_count; i++) {
		sent += sample->rows[i].sent;
		bytes += sample->rows[i].bytes_out + sample->rows[i].bytes_in;
	}
	for (size_t i = 0; i < sample->process_count; i++) {
		packets += sample->processes[i].packets_out;
		repeated += sample->processes[i].repeated;
		rnr += sample->processes[i].rnr_naks;
		dropped += sample->processes[i].dropped;
	}
	line_print(screen, "%zu processes, %zu QPs, %s messages/s, %s bytes/s; by %s",
		   sample->process_count, sample->row_count, short_number(sent, a),
		   short_number(bytes / 2, b), sort_names[sort]);
	line_print(screen, "wire: %s packets/s out, %s repeated/s, %s RNR NAKs/s, %s dropped/s",
		   short_number(packets, c), short_number(repeated, d), short_number(rnr, e),
		   short_number(dropped, f));
	silent_print(screen, sample);
}

static void row_print(struct screen *screen, const struct top_row *row)
{
	const struct vb_describe_record *r = row->record;
	const char *words = wait_words(r);
	char a[16], b[16], c[16], d[16], peer[32] = "-", waits[64] = "";

	if (r->dest_qpn && row->peer)
		snprintf(peer, sizeof(peer), "0x%06x:%d", r->dest_qpn, row->peer);
	else if (r->dest_qpn)
		snprintf(peer, sizeof(peer), "0x%06x", r->dest_qpn);
	if (*words && row->waits_s >= 1)
		snprintf(waits, sizeof(waits), "%s, %.0f s", words, row->waits_s);
	else
		snprintf(waits, sizeof(waits), "%s", words);
	line_print(screen,
		   "%7d %-15.15s 0x%06x %-8s %-5s %-5s %7s %7s %7s %7s %5u %5u %5llu %-17s %s",
		   row->pid, row->program, r->id, qp_type_name(r->type), qp_state_name(r->state),
		   r->on_wire ? "wire" : "local", short_number(row->sent, a),
		   r->srq ? "-" : short_number(row->received, b), short_number(row->bytes_out, c),
		   short_number(row->bytes_in, d), r->send_posted, r->unpolled,
		   (unsigned long long)r->lost, peer, waits);
}

void screen_print(const struct top_sample *sample, enum top_sort sort, unsigned lines,
		  unsigned columns)
{
	struct screen screen = { lines, columns, 0 };

	head_print(&screen, sample, sort);
	line_print(&screen, "%s", "");
	line_print(&screen, "%7s %-15s %-8s %-8s %-5s %-5s %7s %7s %7s %7s %5s %5s %5s %-17s %s",
		   "PID", "PROGRAM", "QP", "TYPE", "STATE", "PATH", "OUT/s", "IN/s", "OUT B/s",
		   "IN B/s", "SENDS", "POLL", "LOST", "PEER:PID", "WAITS FOR");
	for (size_t i = 0; i < sample->row_count; i++)
		row_print(&screen, &sample->rows[i]);
}

/* --- JSON --- */

/* Names may hold any byte. */
static void string_print(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void qp_print(const struct top_row *row, bool first)
{
	const struct vb_describe_record *r = row->record;

	printf("%s\n      {\"qpn\": %u, \"type\": \"%s\", \"state\": \"%s\", \"path\": \"%s\"",
	       first ? "" : ",", r->id, qp_type_name(r->type), qp_state_name(r->state),
	       r->on_wire ? "wire" : "local");
	printf(", \"messages_out\": %.1f, \"messages_in\": %.1f", row->sent, row->received);
	printf(", \"bytes_out\": %.1f, \"bytes_in\": %.1f", row->bytes_out, row->bytes_in);
	printf(", \"sends_posted\": %u, \"sends_unpolled\": %u, \"receives_posted\": %u",
	       r->send_posted, r->unpolled, r->recv_posted);
	printf(", \"lost\": %llu, \"peer_qpn\": %u, \"peer_pid\": %d", (unsigned long long)r->lost,
	       r->dest_qpn, row->peer);
	printf(", \"waits_for\": \"%s\", \"waits_s\": %.1f}", wait_words(r),
	       *wait_words(r) ? row->waits_s : 0);
}

void top_print_json(const struct top_sample *sample)
{
	printf("{\"seconds\": %.3f, \"processes\": [", sample->newer_s - sample->older_s);
	for (size_t i = 0; i < sample->process_count; i++) {
		const struct top_process *process = &sample->processes[i];
		bool first = true;

		printf("%s\n  {\"pid\": %d, \"program\": ", i ? "," : "", process->process->pid);
		string_print(process->program);
		printf(", \"answers\": %s", process->process->error ? "false" : "true");
		printf(", \"packets_out\": %.1f, \"packets_in\": %.1f", process->packets_out,
		       process->packets_in);
		printf(", \"repeated\": %.1f, \"rnr_naks\": %.1f, \"dropped\": %.1f, \"qps\": [",
		       process->repeated, process->rnr_naks, process->dropped);
		for (size_t k = 0; k < sample->row_count; k++)
			if (sample->rows[k].pid == process->process->pid) {
				qp_print(&sample->rows[k], first);
				first = false;
			}
		printf("]}");
	}
	printf("]}\n");
}
