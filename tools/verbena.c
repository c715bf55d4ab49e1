/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "run", verbena_run, "run a program with Verbena's RDMA libraries" },
	{ "devices", verbena_devices, "list the RDMA devices of this host" },
	{ "info", verbena_info, "print all attributes of the devices and this installation" },
	{ "resources", verbena_resources, "list the RDMA objects of the processes of this host" },
	{ "top", verbena_top, "show the queue pairs of this host by their traffic" },
	{ "capture", verbena_capture, "write the RDMA traffic of this host to a file of packets" },
	{ "trace", verbena_trace, "write a time line of work requests, for Perfetto" },
	{ "why", verbena_why, "say what programs wait for that do not go on" },
	{ "doctor", verbena_doctor, "find limits of Verbena on this host, and give advice" },
};

static void print_usage(FILE *to)
{
	fprintf(to, "usage: verbena COMMAND [ARGUMENTS]\n\n"
		    "RDMA verbs without an RDMA adapter.\n\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(to, "\n'verbena COMMAND --help' explains a command; 'man verbena' all of them.\n");
}

void complain(const char *format, ...)
{
	va_list args;

	fputs("verbena: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

bool options_end(int argc, char **argv, const char *usage, int *status)
{
	if (argc == 1)
		return false;
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		fputs(usage, stdout);
		*status = EXIT_SUCCESS;
		return true;
	}
	*status = EXIT_USAGE;
	if (argv[1][0] == '-') {
		option_unknown(argv[0], argv[1], usage);
		return true;
	}
	complain("%s: '%s' is not understood", argv[0], argv[1]);
	fputs(usage, stderr);
	return true;
}

static int command_unknown(const char *given)
{
	struct nearest nearest;

	nearest_begin(&nearest, given);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		nearest_offer(&nearest, commands[i].name);
	if (*nearest.word)
		complain("'%s' is not a command; the nearest is '%s'", given, nearest.word);
	else
		complain("'%s' is not a command; 'verbena --help' lists them", given);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("verbena %s\n", VERBENA_VERSION);
		return EXIT_SUCCESS;
	}
	if (is_extcap(argc, argv))
		return verbena_extcap(argc, argv);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return command_unknown(argv[1]);
}
