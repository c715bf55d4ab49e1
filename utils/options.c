/* SPDX-License-Identifier: BSD-2-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, NUMBER, INDEX, FLAG };
enum { CLIENTS = 'c' + 256, TESTS = 'n' + 256 }; /* -c and -n of XRC */

#define FIELD(member) offsetof(struct pp_options, member)

static const struct row {
	int letter;
	const char *name, *value;
	enum kind kind;
	size_t field;
	unsigned long least, most;
	const char *help;
} rows[] = {
	{ 'p', "port", "port", NUMBER, FIELD(port), 1, 65535, "TCP port to meet at" },
	{ 'd', "ib-dev", "dev", TEXT, FIELD(device), 0, 0, "device to use (default: the first)" },
	{ 'i', "ib-port", "port", NUMBER, FIELD(ib_port), 1, 255, "port of the device" },
	{ 's', "size", "size", NUMBER, FIELD(size), 1, INT_MAX, "bytes of a message" },
	{ 'm', "mtu", "size", NUMBER, FIELD(mtu), 256, 4096, "path MTU" },
	{ 'q', "num-qp", "num", NUMBER, FIELD(qp_count), 1, INT_MAX, "number of QPs" },
	{ 'r', "rx-depth", "dep", NUMBER, FIELD(rx_depth), 1, INT_MAX,
	  "receives to post at a time" },
	{ CLIENTS, "clients", "n", NUMBER, FIELD(clients), 1, 1024,
	  "clients that the server waits for" },
	{ 'n', "iters", "iters", NUMBER, FIELD(iters), 1, INT_MAX, NULL },
	{ TESTS, "num_tests", "n", NUMBER, FIELD(iters), 1, INT_MAX, NULL },
	{ 'l', "sl", "sl", NUMBER, FIELD(sl), 0, 15, "service level" },
	{ 'e', "events", NULL, FLAG, FIELD(events), 0, 0, "sleep on CQ events (default: poll)" },
	{ 'g', "gid-idx", "gid index", INDEX, FIELD(gid_index), 0, INT_MAX,
	  "index of the own GID; needed where the link layer is Ethernet" },
	{ 'o', "odp", NULL, FLAG, FIELD(odp), 0, 0, "use on demand paging" },
	{ 'O', "iodp", NULL, FLAG, FIELD(implicit_odp), 0, 0, "use implicit on demand paging" },
	{ 'P', "prefetch", NULL, FLAG, FIELD(prefetch), 0, 0, "prefetch an ODP MR" },
	{ 't', "ts", NULL, FLAG, FIELD(timestamps), 0, 0, "get completions with timestamps" },
	{ 'c', "chk", NULL, FLAG, FIELD(check), 0, 0, "validate the received buffer" },
	{ 'j', "dm", NULL, FLAG, FIELD(device_memory), 0, 0, "use device memory" },
	{ 'N', "new_send", NULL, FLAG, FIELD(new_send), 0, 0, "post with the ibv_wr_* calls" },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

static const struct row *row_of(const struct pp_program *program, int letter)
{
	if (program->counts_clients && (letter == 'c' || letter == 'n'))
		letter += 256;
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].letter == letter)
			return &rows[i];
	return NULL;
}

/* Prints the default of an option that has one. */
static void print_default(FILE *to, const struct pp_program *program, const struct row *row)
{
	if (row->kind == NUMBER)
		fprintf(to, " (default %u)",
			*(const unsigned *)((const char *)&program->defaults + row->field));
}

static void print_usage(FILE *to, const struct pp_program *program, const char *name)
{
	fprintf(to, "Usage:\n  %-24s start a server and wait for connection\n", name);
	fprintf(to, "  %s %-*s connect to server at <host>\n\nOptions:\n", name,
		(int)(strlen(name) < 23 ? 23 - strlen(name) : 1), "<host>");
	for (const char *letter = program->letters; *letter; letter++) {
		const struct row *row = row_of(program, *letter);
		char text[40];

		snprintf(text, sizeof(text), "--%s%s%s%s", row->name, row->value ? "=<" : "",
			 row->value ? row->value : "", row->value ? ">" : "");
		fprintf(to, "  -%c, %-22s %s", *letter, text,
			row->help ? row->help : program->exchanges);
		print_default(to, program, row);
		fputc('\n', to);
	}
	fprintf(to, "  -h, %-22s print this and exit\n", "--help");
}

static bool read_number(const struct row *row, const char *text, unsigned *value)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || number < row->least ||
	    number > row->most) {
		fprintf(stderr, "--%s: '%s' is not a number from %lu to %lu\n", row->name, text,
			row->least, row->most);
		return false;
	}
	*value = (unsigned)number;
	return true;
}

static bool apply(const struct row *row, const char *text, struct pp_options *options)
{
	void *field = (char *)options + row->field;
	unsigned number;

	switch (row->kind) {
	case TEXT:
		*(const char **)field = text;
		return true;
	case FLAG:
		*(bool *)field = true;
		return true;
	case NUMBER:
		return read_number(row, text, field);
	case INDEX:
		if (!read_number(row, text, &number))
			return false;
		*(int *)field = (int)number;
		return true;
	}
	return false;
}

/* The tables for getopt_long, made from the letters. */
static void describe(const struct pp_program *program, char *brief, struct option *longs)
{
	for (const char *letter = program->letters; *letter; letter++, longs++) {
		const struct row *row = row_of(program, *letter);

		*brief++ = *letter;
		if (row->value)
			*brief++ = ':';
		*longs = (struct option){ .name = row->name,
					  .val = *letter,
					  .has_arg = row->value ? required_argument : no_argument };
	}
	*brief++ = 'h';
	*brief = '\0';
	*longs++ = (struct option){ "help", no_argument, NULL, 'h' };
	*longs = (struct option){ 0 };
}

static bool agree(const struct pp_options *options)
{
	const char *why = NULL;

	if (options->mtu && !pp_mtu(options->mtu))
		why = "the path MTU is one of 256, 512, 1024, 2048, 4096";
	else if (options->device_memory && (options->odp || options->implicit_odp))
		why = "DM memory region can't be on demand";
	else if (options->prefetch && !options->odp && !options->implicit_odp)
		why = "prefetch is valid only with on-demand memory region";
	if (why)
		fprintf(stderr, "%s\n", why);
	return !why;
}

bool pp_options_parse(const struct pp_program *program, int argc, char **argv,
		      struct pp_options *options)
{
	struct option longs[ROWS + 2];
	char brief[2 * ROWS + 2];
	int letter;

	*options = program->defaults;
	options->gid_index = -1;
	describe(program, brief, longs);
	while ((letter = getopt_long(argc, argv, brief, longs, NULL)) != -1) {
		if (letter == 'h') {
			print_usage(stdout, program, argv[0]);
			exit(EXIT_SUCCESS);
		}
		if (letter == '?' || !apply(row_of(program, letter), optarg, options)) {
			print_usage(stderr, program, argv[0]);
			return false;
		}
	}
	if (optind < argc - 1) {
		print_usage(stderr, program, argv[0]);
		return false;
	}
	options->odp |= options->implicit_odp;
	options->host = optind < argc ? argv[optind] : NULL;
	return agree(options);
}

enum ibv_mtu pp_mtu(unsigned bytes)
{
	for (unsigned mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (bytes == 128u << mtu)
			return (enum ibv_mtu)mtu;
	return 0;
}
