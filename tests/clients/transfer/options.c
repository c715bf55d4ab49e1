/* SPDX-License-Identifier: BSD-2-Clause */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { MAGIC = 0x56425432, REGION_TOTAL = 256 << 20, REGION_MAX = 8 << 20, LANES_MAX = 4096 };

static const char usage_text[] =
	"usage: transfer [options]            server\n"
	"       transfer [options] HOST       client: decides what is done\n"
	"       transfer --pair [options]     both, in two processes of this host\n"
	"\n"
	"Moves bytes by every operation and checks each of them, and each completion.\n"
	"  -d DEVICE  -g GID-INDEX (1)  -p TCP-PORT (18600)\n"
	"  -e         sleep until there are completions\n"
	"  -v         print QP numbers, and the counters that moved\n"
	"  -z         stop once there is a connection, until SIGCONT\n"
	"Of the client:\n"
	"  -c rc|uc|ud    transport (rc)\n"
	"  -o OPS         send, send_imm, write, write_imm, read, cmp_swap, fetch_add, mixed; a "
	"list\n"
	"  -n N           operations of each QP (2000)     -q N  QPs (1)\n"
	"  -w N           send queue depth (64)            -r N  receive queue depth (48)\n"
	"  -s BYTES       largest message (65536)          -m MTU (the port's)\n"
	"  -S SEED        what is sent follows from it     -b    the server sends as well\n"
	"  -T N  -R N     timeout (14) and retry_cnt (7) of RC QPs\n"
	"  -t SECONDS     nothing may take longer (120)\n"
	"  -k N           operations of a round (256): unreliable QPs have no more on their way\n"
	"  -L             the network may lose: UC and UD messages may be missing, but not torn\n"
	"  -M PERCENT     of them may be missing at most (50)\n"
	"  -x N           receives of a UC or UD QP, though a round may need more (256)\n"
	"  -l N           packets that the link lost: counters must explain what else is missing\n"
	"Exit status: 0 all is right, 1 something is not, 2 usage.\n";

static void usage(const char *wrong)
{
	fprintf(stderr, "transfer: %s?\n%s", wrong, usage_text);
	exit(2);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (end == text || *end || value < least || value > most)
		usage(text);
	return (uint32_t)value;
}

static uint32_t type_parse(const char *text)
{
	if (!strcmp(text, "rc"))
		return IBV_QPT_RC;
	if (!strcmp(text, "uc"))
		return IBV_QPT_UC;
	if (strcmp(text, "ud"))
		usage(text);
	return IBV_QPT_UD;
}

static uint32_t kinds_parse(const char *text)
{
	static const char *const names[] = { "send", "send_imm", "write",     "write_imm",
					     "read", "cmp_swap", "fetch_add", "mixed" };
	uint32_t kinds = 0;

	for (size_t length; *text; text += length + (text[length] == ',')) {
		unsigned i = 0;

		length = strcspn(text, ",");
		while (i <= OP_KIND_COUNT &&
		       (strlen(names[i]) != length || strncmp(names[i], text, length)))
			i++;
		if (i > OP_KIND_COUNT)
			usage(text);
		kinds |= i == OP_KIND_COUNT ? (1u << OP_KIND_COUNT) - 1 : 1u << i;
	}
	return kinds;
}

/* What a transport cannot do is left out of "mixed". */
static uint32_t kinds_of(uint32_t type)
{
	uint32_t kinds = 1u << OP_SEND | 1u << OP_SEND_IMM;

	if (type != IBV_QPT_UD)
		kinds |= 1u << OP_WRITE | 1u << OP_WRITE_IMM;
	if (type == IBV_QPT_RC)
		kinds |= 1u << OP_READ | 1u << OP_CAS | 1u << OP_ADD;
	return kinds;
}

static void terms_finish(struct terms *terms)
{
	uint32_t region = REGION_TOTAL / terms->lanes;

	terms->kinds &= kinds_of(terms->qp_type);
	if (!terms->kinds)
		usage("-o: the transport has no such operation");
	terms->region_size = region < REGION_MAX ? region : REGION_MAX;
	if (terms->size_max > terms->region_size / 4)
		terms->size_max = terms->region_size / 4;
}

bool terms_valid(const struct terms *terms)
{
	return terms->magic == MAGIC && terms->lanes && terms->lanes <= LANES_MAX &&
	       terms->window && terms->recv_depth && terms->receives_max && terms->round_ops &&
	       terms->region_size <= REGION_MAX && terms->size_max <= terms->region_size / 4;
}

/* Options that are numbers of the terms. */
static const struct {
	char code;
	size_t offset;
	uint32_t least, most;
} numbers[] = {
	{ 'n', offsetof(struct terms, ops), 1, 100000000 },
	{ 'q', offsetof(struct terms, lanes), 1, LANES_MAX },
	{ 'w', offsetof(struct terms, window), 1, 8192 },
	{ 'r', offsetof(struct terms, recv_depth), 1, 8192 },
	{ 's', offsetof(struct terms, size_max), 0, REGION_MAX / 4 },
	{ 'm', offsetof(struct terms, mtu_bytes), 256, 4096 },
	{ 'k', offsetof(struct terms, round_ops), 1, ROUND_OPS_MAX },
	{ 'M', offsetof(struct terms, missing_percent_max), 0, 100 },
	{ 'x', offsetof(struct terms, receives_max), 1, ROUND_OPS_MAX },
	{ 'l', offsetof(struct terms, link_lost), 0, LINK_LOST_UNKNOWN },
	{ 'T', offsetof(struct terms, timeout), 0, 31 },
	{ 'R', offsetof(struct terms, retry_cnt), 0, 7 },
	{ 't', offsetof(struct terms, deadline_s), 1, 86400 },
};

static bool number_apply(struct terms *terms, int code)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].code == code) {
			uint32_t value = number(optarg, numbers[i].least, numbers[i].most);

			memcpy((char *)terms + numbers[i].offset, &value, sizeof(value));
			return true;
		}
	return false;
}

static void option_apply(struct options *options, int code)
{
	struct terms *terms = &options->terms;

	switch (code) {
	case 'c':
		terms->qp_type = type_parse(optarg);
		break;
	case 'o':
		terms->kinds = kinds_parse(optarg);
		break;
	case 'S':
		terms->seed = strtoull(optarg, NULL, 0);
		break;
	case 'b':
		terms->both = true;
		break;
	case 'L':
		terms->lossy = true;
		break;
	case 'g':
		options->gid_index = (int)number(optarg, 0, 255);
		break;
	case 'd':
		options->device = optarg;
		break;
	case 'p':
		options->port = optarg;
		break;
	case 'e':
		options->events = true;
		break;
	case 'v':
		options->verbose = true;
		break;
	case 'z':
		options->stop = true;
		break;
	case 'P':
		options->pair = true;
		break;
	case 'h':
		fputs(usage_text, stdout);
		exit(0);
	default:
		if (!number_apply(terms, code))
			usage("option");
	}
}

void options_read(struct options *options, int argc, char **argv)
{
	static const struct option names[] = { { "pair", 0, 0, 'P' },
					       { "help", 0, 0, 'h' },
					       { 0 } };
	int code;

	*options = (struct options){
		.terms = { .magic = MAGIC,
			   .qp_type = IBV_QPT_RC,
			   .kinds = ~0u,
			   .lanes = 1,
			   .ops = 2000,
			   .window = 64,
			   .recv_depth = 48,
			   .size_max = 65536,
			   .timeout = 14,
			   .retry_cnt = 7,
			   .deadline_s = 120,
			   .missing_percent_max = 50,
			   .receives_max = ROUND_OPS_MAX,
			   .link_lost = LINK_LOST_UNKNOWN,
			   .round_ops = ROUND_OPS_MAX,
			   .seed = 1 },
		.port = "18600",
		.gid_index = 1,
	};
	while ((code = getopt_long(argc, argv, "c:o:n:q:w:r:s:m:S:T:R:t:bk:LM:x:l:g:d:p:evhz",
				   names, NULL)) != -1)
		option_apply(options, code);
	if (argc - optind > 1 || (options->pair && argc != optind))
		usage(argv[argc - 1]);
	options->host = argv[optind];
	terms_finish(&options->terms);
}
