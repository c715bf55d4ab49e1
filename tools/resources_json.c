/* SPDX-License-Identifier: BSD-2-Clause */
/* The listing as JSON: an array of processes, each with an array of objects. */
#include <string.h>

#include "resources.h"
#include "verbena.h"

/* Names of programs and users may hold any byte. Bytes above 0x7f pass: names are mostly UTF-8. */
static void print_string(const char *text, size_t most)
{
	putchar('"');
	for (size_t i = 0; i < most && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_numbers(const char *const *names, const unsigned long long *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf(", \"%s\": %llu", names[i], values[i]);
}

#define NUMBERS(...)                 \
	(const unsigned long long[]) \
	{                            \
		__VA_ARGS__          \
	}
#define NAMES(...)            \
	(const char *const[]) \
	{                     \
		__VA_ARGS__   \
	}

static void print_qp(const struct vb_asked_processes *all, const struct vb_describe_record *r)
{
	union ibv_gid gid;
	char text[GID_TEXT];

	printf(", \"qpn\": %u, \"type\": \"%s\", \"state\": \"%s\"", r->id, qp_type_name(r->type),
	       qp_state_name(r->state));
	print_numbers(
		NAMES("pd", "send_cq", "recv_cq", "srq", "send_posted", "recv_posted"),
		NUMBERS(r->pd, r->send_cq, r->recv_cq, r->srq, r->send_posted, r->recv_posted), 6);
	print_numbers(NAMES("xrcd", "opened"), NUMBERS(r->xrcd, r->shared), 2);
	if (!r->dest_qpn)
		return;
	memcpy(gid.raw, r->dest_gid, sizeof(gid.raw));
	printf(", \"peer\": {\"qpn\": %u, \"gid\": \"%s\", \"pid\": %d, \"path\": \"%s\"}",
	       r->dest_qpn, describe_gid(&gid, text), peer_pid(all, r),
	       r->on_wire ? "packets" : "local");
	if (r->on_wire)
		printf(", \"lane\": %u", r->lane);
}

static void print_id(const struct vb_describe_record *r)
{
	char text[ADDRESS_SIZE];

	print_numbers(NAMES("cm_id", "qpn"), NUMBERS(r->id, r->cm_qpn), 2);
	printf(", \"ps\": \"%s\", \"state\": \"%s\"", port_space_name(r->port_space),
	       cm_state_name(r->state));
	printf(", \"src\": \"%s\"", address_text(r->src, text));
	printf(", \"dst\": \"%s\"", address_text(r->dst, text));
}

static void print_record(const struct vb_asked_processes *all, const struct vb_describe_record *r)
{
	printf("{\"object\": \"%s\", \"device\": ", kind_name(r->kind));
	print_string(r->device, sizeof(r->device));
	switch (r->kind) {
	case VB_DESCRIBE_PD:
		print_numbers(NAMES("pd", "users"), NUMBERS(r->id, r->users), 2);
		break;
	case VB_DESCRIBE_CQ:
		print_numbers(NAMES("cq", "cqe", "users"), NUMBERS(r->id, r->depth, r->users), 3);
		break;
	case VB_DESCRIBE_MR:
		print_numbers(
			NAMES("lkey", "rkey", "access", "addr", "length", "pd", "mapped"),
			NUMBERS(r->lkey, r->rkey, r->access, r->addr, r->length, r->pd, r->mapped),
			7);
		break;
	case VB_DESCRIBE_MW:
		print_numbers(NAMES("rkey", "type", "pd"), NUMBERS(r->rkey, r->type, r->pd), 3);
		break;
	case VB_DESCRIBE_SRQ:
		print_numbers(
			NAMES("srqn", "posted", "max_wr", "limit", "users", "pd", "cq", "xrcd"),
			NUMBERS(r->id, r->recv_posted, r->depth, r->limit, r->users, r->pd,
				r->recv_cq, r->xrcd),
			8);
		break;
	case VB_DESCRIBE_XRCD:
		print_numbers(NAMES("xrcd", "shared", "users"), NUMBERS(r->id, r->shared, r->users),
			      3);
		break;
	case VB_DESCRIBE_QP:
		print_qp(all, r);
		break;
	case VB_DESCRIBE_CM_ID:
		print_id(r);
		break;
	}
	putchar('}');
}

static void print_counts(const struct vb_asked_process *process)
{
	printf(", \"counts\": {\"ah\": %u", process->answer.counts[0]);
	for (unsigned kind = VB_DESCRIBE_PD; kind < VB_DESCRIBE_KINDS; kind++)
		printf(", \"%s\": %u", kind_name(kind), process->answer.counts[kind]);
	printf("}, \"left_out\": %u", process->answer.left_out);
}

static void print_process(const struct vb_asked_processes *all,
			  const struct vb_asked_process *process, const struct selection *selection)
{
	const char *before = "\n    ";
	char text[NAME_SIZE];

	printf("{\"pid\": %d, \"uid\": %u, \"user\": ", process->pid, process->uid);
	print_string(user_of(process, text), NAME_SIZE);
	printf(", \"program\": ");
	print_string(program_of(process, text), NAME_SIZE);
	printf(", \"slot\": %u, \"error\": ", process->slot);
	if (process->error) {
		print_string(strerror(process->error), NAME_SIZE * 4);
		putchar('}');
		return;
	}
	printf("null");
	print_counts(process);
	printf(", \"objects\": [");
	for (unsigned i = 0; i < process->answer.record_count; i++)
		if (is_selected(selection, &process->records[i])) {
			fputs(before, stdout);
			before = ",\n    ";
			print_record(all, &process->records[i]);
		}
	printf("]}");
}

void processes_print_json(const struct vb_asked_processes *all, const struct selection *selection)
{
	const char *before = "\n  ";

	putchar('[');
	for (unsigned i = 0; i < all->count; i++) {
		if (selection->pid && all->list[i].pid != selection->pid)
			continue;
		fputs(before, stdout);
		before = ",\n  ";
		print_process(all, &all->list[i], selection);
	}
	printf("\n]\n");
}
