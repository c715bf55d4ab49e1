/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the asynchronous events of a device as they come. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end.h"

static void print_usage(FILE *to, const char *name)
{
	fprintf(to,
		"Usage:\n  %s            start an asyncwatch process\n\nOptions:\n"
		"  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"
		"  -h, --help             print a help text and exit\n",
		name);
}

/* -1: go on; else the exit status of the program. */
static int parse_options(int argc, char **argv, const char **device)
{
	static const struct option longs[] = { { "ib-dev", required_argument, NULL, 'd' },
					       { "help", no_argument, NULL, 'h' },
					       { 0 } };
	int letter;

	while ((letter = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
		if (letter == 'd') {
			*device = optarg;
			continue;
		}
		print_usage(letter == 'h' ? stdout : stderr, argv[0]);
		return letter == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	return -1;
}

/* Prints the port of an event about a port: the type alone does not tell it. */
static void print_event(const struct ibv_async_event *event)
{
	const char *name = ibv_event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		printf("  event_type %s (%d), port %d\n", name, event->event_type,
		       event->element.port_num);
		break;
	default:
		printf("  event_type %s (%d)\n", name, event->event_type);
	}
}

int main(int argc, char **argv)
{
	const char *name = NULL;
	int status = parse_options(argc, argv, &name);
	struct ibv_async_event event;
	struct ibv_context *context;

	if (status >= 0)
		return status;
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = pp_device_open(name);
	if (!context)
		return EXIT_FAILURE;
	printf("%s: async event FD %d\n", ibv_get_device_name(context->device), context->async_fd);
	while (!ibv_get_async_event(context, &event)) {
		print_event(&event);
		ibv_ack_async_event(&event);
	}
	perror("ibv_get_async_event");
	ibv_close_device(context);
	return EXIT_FAILURE;
}
