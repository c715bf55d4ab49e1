/* SPDX-License-Identifier: BSD-2-Clause */
/* The listing as a table: one block per process, one line per object. */
#include <errno.h>
#include <string.h>

#include "nic/stopped.h"
#include "resources.h"
#include "verbena.h"

static const char *error_text(int error)
{
	switch (error) {
	case EPERM:
		return "belongs to another user";
	case ETIMEDOUT:
		return "does not answer: it has no QP yet, or is busy";
	case EAGAIN:
		return "is busy";
	case EPROTO:
	case ECONNRESET:
		return "runs another version of Verbena";
	}
	return strerror(error);
}

static const char *access_text(unsigned access, char text[16])
{
	static const struct {
		unsigned bit;
		char letter;
	} letters[] = {
		{ IBV_ACCESS_LOCAL_WRITE, 'l' }, { IBV_ACCESS_REMOTE_WRITE, 'w' },
		{ IBV_ACCESS_REMOTE_READ, 'r' }, { IBV_ACCESS_REMOTE_ATOMIC, 'a' },
		{ IBV_ACCESS_MW_BIND, 'b' },     { IBV_ACCESS_ZERO_BASED, 'z' },
		{ IBV_ACCESS_ON_DEMAND, 'd' },
	};
	char *at = text;

	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++)
		*at++ = access & letters[i].bit ? letters[i].letter : '-';
	*at = '\0';
	return text;
}

static void print_peer(const struct vb_asked_processes *all, const struct vb_describe_record *r)
{
	union ibv_gid gid;
	char text[GID_TEXT];
	pid_t pid = peer_pid(all, r);

	if (!r->dest_qpn)
		return;
	memcpy(gid.raw, r->dest_gid, sizeof(gid.raw));
	printf("  peer 0x%06x", r->dest_qpn);
	if (!describe_gid_is_empty(&gid))
		printf(" at %s", describe_gid(&gid, text));
	if (pid)
		printf(" (pid %d)", pid);
	if (r->on_wire)
		printf(", packets in lane %u", r->lane);
}

static void print_qp(const struct vb_asked_processes *all, const struct vb_describe_record *r)
{
	printf("0x%06x  %-8s %-5s", r->id, qp_type_name(r->type), qp_state_name(r->state));
	if (r->pd)
		printf("  pd %u  cq %u,%u", r->pd, r->send_cq, r->recv_cq);
	if (r->xrcd)
		printf("  xrcd %u", r->xrcd);
	if (r->shared)
		printf("  opened %u times", r->shared);
	if (r->srq)
		printf("  srq %u", r->srq);
	printf("  posted %u,%u", r->send_posted, r->recv_posted);
	print_peer(all, r);
}

static void print_id(const struct vb_describe_record *r)
{
	char text[ADDRESS_SIZE];

	printf("%u  %s  %s", r->id, port_space_name(r->port_space), cm_state_name(r->state));
	if (*address_text(r->src, text))
		printf("  %s", text);
	if (*address_text(r->dst, text))
		printf("  to %s", text);
	if (r->cm_qpn)
		printf("  qp 0x%06x", r->cm_qpn);
}

static void print_record(const struct vb_asked_processes *all, const struct vb_describe_record *r)
{
	char text[16];

	printf("  %-4s %-10.16s ", kind_name(r->kind), r->device);
	switch (r->kind) {
	case VB_DESCRIBE_PD:
		printf("%u  users %u", r->id, r->users);
		break;
	case VB_DESCRIBE_CQ:
		printf("%u  cqe %u  users %u", r->id, r->depth, r->users);
		break;
	case VB_DESCRIBE_MR:
		printf("lkey 0x%08x rkey 0x%08x  %s  0x%llx + %llu  pd %u%s", r->lkey, r->rkey,
		       access_text(r->access, text), (unsigned long long)r->addr,
		       (unsigned long long)r->length, r->pd, r->mapped ? "  mapped" : "");
		break;
	case VB_DESCRIBE_MW:
		printf("rkey 0x%08x  type %u  pd %u", r->rkey, r->type, r->pd);
		break;
	case VB_DESCRIBE_SRQ:
		printf(r->xrcd ? "0x%06x" : "%u", r->id);
		printf("  posted %u of %u  limit %u  users %u  pd %u", r->recv_posted, r->depth,
		       r->limit, r->users, r->pd);
		if (r->xrcd)
			printf("  cq %u  xrcd %u", r->recv_cq, r->xrcd);
		break;
	case VB_DESCRIBE_XRCD:
		printf("%u  %s  users %u", r->id, r->shared ? "shared" : "private", r->users);
		break;
	case VB_DESCRIBE_QP:
		print_qp(all, r);
		break;
	case VB_DESCRIBE_CM_ID:
		print_id(r);
		break;
	}
	putchar('\n');
}

/* The columns of each type of object, above its first line. */
static void print_head(unsigned kind)
{
	static const char *const heads[VB_DESCRIBE_KINDS] = {
		[VB_DESCRIBE_PD] = "NUMBER  USERS",
		[VB_DESCRIBE_CQ] = "NUMBER  CQE  USERS",
		[VB_DESCRIBE_MR] = "KEYS  ACCESS  ADDRESS + LENGTH  PD",
		[VB_DESCRIBE_MW] = "RKEY  TYPE  PD",
		[VB_DESCRIBE_SRQ] = "NUMBER  POSTED  LIMIT  USERS  PD",
		[VB_DESCRIBE_QP] =
			"NUMBER    TYPE     STATE  PD  CQ (SEND,RECV)  POSTED (SEND,RECV)  "
			"PEER",
		[VB_DESCRIBE_XRCD] = "NUMBER  KIND  USERS",
		[VB_DESCRIBE_CM_ID] = "NUMBER  PORT SPACE  STATE  ADDRESSES  QP",
	};

	printf("  %-4s %-10s %s\n", "TYPE", "DEVICE", heads[kind]);
}

static void print_process(const struct vb_asked_processes *all,
			  const struct vb_asked_process *process, const struct selection *selection)
{
	bool pds = !selection->kinds || selection->kinds & 1u << VB_DESCRIBE_PD;
	char program[NAME_SIZE], user[NAME_SIZE];
	unsigned kind = 0;

	printf("%s, pid %d, user %s, slot %u\n", program_of(process, program), process->pid,
	       user_of(process, user), process->slot);
	for (unsigned i = 0; i < process->answer.record_count; i++)
		if (is_selected(selection, &process->records[i])) {
			if (kind != process->records[i].kind)
				print_head(process->records[i].kind);
			kind = process->records[i].kind;
			print_record(all, &process->records[i]);
		}
	if (pds && pds_unused(process))
		printf("  pd   %u unused\n", pds_unused(process));
	if (process->answer.left_out)
		printf("  %u more objects\n", process->answer.left_out);
}

void processes_print(const struct vb_asked_processes *all, const struct selection *selection)
{
	for (unsigned i = 0; i < all->count; i++) {
		const struct vb_asked_process *process = &all->list[i];
		char program[NAME_SIZE], user[NAME_SIZE];

		if (selection->pid && process->pid != selection->pid)
			continue;
		if (process->error)
			complain("%s, pid %d, user %s: not listed: it %s",
				 program_of(process, program), process->pid, user_of(process, user),
				 vb_stopped_process(process->pid) ? "is stopped"
								  : error_text(process->error));
		else
			print_process(all, process, selection);
	}
}
