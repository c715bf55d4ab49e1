/* SPDX-License-Identifier: BSD-2-Clause */
#include "resources.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "abi/rdmacm.h"
#include "engine/attach/silent.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena resources [-j] [-p PID] [TYPE ...]\n\n"
	"Lists the RDMA objects of this user's processes on this host; for root, of all users'\n"
	"processes. TYPE is one of pd, cq, mr, mw, srq, qp, xrcd, cm_id; without it all are "
	"listed.\n\n"
	"  -j, --json       print JSON\n"
	"  -p, --pid=PID    list this process only\n";

static const char *const kinds[VB_DESCRIBE_KINDS] = {
	[VB_DESCRIBE_PD] = "pd",     [VB_DESCRIBE_CQ] = "cq",       [VB_DESCRIBE_MR] = "mr",
	[VB_DESCRIBE_MW] = "mw",     [VB_DESCRIBE_SRQ] = "srq",     [VB_DESCRIBE_QP] = "qp",
	[VB_DESCRIBE_XRCD] = "xrcd", [VB_DESCRIBE_CM_ID] = "cm_id",
};

const char *kind_name(unsigned kind)
{
	return kind < VB_DESCRIBE_KINDS && kinds[kind] ? kinds[kind] : "?";
}

const char *qp_type_name(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	}
	return "?";
}

const char *qp_state_name(unsigned state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *cm_state_name(unsigned state)
{
	static const char *const names[VB_DESCRIBE_CM_STATES] = {
		[VB_DESCRIBE_CM_IDLE] = "IDLE",
		[VB_DESCRIBE_CM_ADDR_QUERY] = "ADDR_QUERY",
		[VB_DESCRIBE_CM_ADDR_RESOLVED] = "ADDR_RESOLVED",
		[VB_DESCRIBE_CM_ROUTE_QUERY] = "ROUTE_QUERY",
		[VB_DESCRIBE_CM_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
		[VB_DESCRIBE_CM_CONNECT] = "CONNECT",
		[VB_DESCRIBE_CM_DISCONNECT] = "DISCONNECT",
		[VB_DESCRIBE_CM_ADDR_BOUND] = "ADDR_BOUND",
		[VB_DESCRIBE_CM_LISTEN] = "LISTEN",
		[VB_DESCRIBE_CM_DEVICE_REMOVAL] = "DEVICE_REMOVAL",
	};

	return state < VB_DESCRIBE_CM_STATES ? names[state] : "?";
}

const char *port_space_name(unsigned port_space)
{
	switch (port_space) {
	case RDMA_PS_IPOIB:
		return "IPoIB";
	case RDMA_PS_TCP:
		return "TCP";
	case RDMA_PS_UDP:
		return "UDP";
	case RDMA_PS_IB:
		return "IB";
	}
	return "?";
}

const char *address_text(const uint8_t bytes[28], char text[ADDRESS_SIZE])
{
	char host[INET6_ADDRSTRLEN] = "";
	struct sockaddr_in6 ip6;
	struct sockaddr_in ip4;

	memcpy(&ip6, bytes, sizeof(ip6));
	memcpy(&ip4, bytes, sizeof(ip4));
	*text = '\0';
	if (ip4.sin_family == AF_INET && inet_ntop(AF_INET, &ip4.sin_addr, host, sizeof(host)))
		snprintf(text, ADDRESS_SIZE, "%s:%u", host, ntohs(ip4.sin_port));
	else if (ip6.sin6_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &ip6.sin6_addr, host, sizeof(host)))
		snprintf(text, ADDRESS_SIZE, "[%s]:%u", host, ntohs(ip6.sin6_port));
	return text;
}

bool is_selected(const struct selection *selection, const struct vb_describe_record *record)
{
	return record->kind < VB_DESCRIBE_KINDS &&
	       (!selection->kinds || selection->kinds & 1u << record->kind);
}

const char *user_of(const struct vb_asked_process *process, char text[NAME_SIZE])
{
	struct passwd *user = getpwuid(process->uid);

	if (user)
		snprintf(text, NAME_SIZE, "%s", user->pw_name);
	else
		snprintf(text, NAME_SIZE, "%u", process->uid);
	return text;
}

const char *program_of(const struct vb_asked_process *process, char text[NAME_SIZE])
{
	char path[64];
	FILE *file;

	snprintf(text, NAME_SIZE, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", process->pid);
	file = fopen(path, "re");
	if (!file)
		return text;
	if (fgets(text, NAME_SIZE, file))
		text[strcspn(text, "\n")] = '\0';
	fclose(file);
	return text;
}

unsigned pds_unused(const struct vb_asked_process *process)
{
	unsigned listed = 0, all = process->answer.counts[VB_DESCRIBE_PD];

	for (unsigned i = 0; i < process->answer.record_count; i++)
		listed += process->records[i].kind == VB_DESCRIBE_PD;
	return all > listed ? all - listed : 0;
}

pid_t peer_pid(const struct vb_asked_processes *all, const struct vb_describe_record *record)
{
	return record->dest_local && record->dest_qpn < 1u << 24
		       ? all->pid_of_slot[record->dest_qpn >> 12]
		       : 0;
}

static bool parse_kind(const char *name, struct selection *selection)
{
	for (unsigned kind = 0; kind < VB_DESCRIBE_KINDS; kind++)
		if (kinds[kind] && !strcmp(name, kinds[kind])) {
			selection->kinds |= 1u << kind;
			return true;
		}
	return false;
}

/* -1: go on; else the exit status of the program. */
static int parse_options(int argc, char **argv, struct selection *selection, bool *json)
{
	static const struct option longs[] = { { "json", no_argument, NULL, 'j' },
					       { "pid", required_argument, NULL, 'p' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "jp:h", longs, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (letter == '?' && !strncmp(argv[optind - 1], "--", 2))
			return option_unknown("resources", argv[optind - 1], usage);
		if (letter == 'j')
			*json = true;
		else if (letter != 'p' || !value_pid(optarg, &selection->pid))
			goto misunderstood;
	}
	for (; optind < argc; optind++)
		if (!parse_kind(argv[optind], selection))
			goto misunderstood;
	return -1;
misunderstood:
	fputs(usage, stderr);
	return EXIT_USAGE;
}

/* The exit status: failure if the process of --pid has no listing. */
static int status_of(const struct vb_asked_processes *all, pid_t pid)
{
	char line[VB_SILENT_LINE];

	for (unsigned i = 0; pid && i < all->count; i++)
		if (all->list[i].pid == pid)
			return all->list[i].error ? EXIT_FAILURE : EXIT_SUCCESS;
	if (pid)
		complain("%s", vb_silent_words(pid, 0, line));
	return pid ? EXIT_FAILURE : EXIT_SUCCESS;
}

int verbena_resources(int argc, char **argv)
{
	struct selection selection = { 0 };
	struct vb_ask_filter filter = { 0 };
	struct vb_asked_processes all;
	bool json = false;
	int status = parse_options(argc, argv, &selection, &json);
	int err;

	if (status >= 0)
		return status;
	filter.only = selection.pid;
	err = vb_ask_processes(&all, &filter);
	if (err) {
		complain("/proc/net/unix: %s", strerror(-err));
		return EXIT_FAILURE;
	}
	if (json)
		processes_print_json(&all, &selection);
	else
		processes_print(&all, &selection);
	status = status_of(&all, selection.pid);
	vb_ask_free(&all);
	return status;
}
