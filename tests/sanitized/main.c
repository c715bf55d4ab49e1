/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program for the tools that watch programs.
 *
 *   sanitized threads|processes [ERROR]...
 *
 * Without ERROR the program is right and ends with 0. planted.c has the errors.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

static char **errors; /* up to a NULL */

static void *run(void *arg)
{
	struct side *side = arg;

	side_open(side);
	if (!*errors) {
		talk(side);
		talk_by_address(side);
	}
	for (char **error = errors; *error; error++)
		CHECK(planted(*error, side));
	side_close(side);
	return NULL;
}

static void run_threads(struct side *client, struct side *server)
{
	struct note note = { 0 };
	pthread_t thread;

	client->note = server->note = &note;
	CHECK(!pthread_create(&thread, NULL, run, server));
	run(client);
	CHECK(!pthread_join(thread, NULL));
}

static void run_processes(struct side *client, struct side *server)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		close(client->socket);
		run(server);
		close(server->socket);
		exit(0);
	}
	close(server->socket);
	run(client);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	CHECK(WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	struct side client = { .server = false }, server = { .server = true };
	int sockets[2];

	CHECK(argc >= 2);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	errors = argv + 2;
	client.socket = sockets[0];
	server.socket = sockets[1];
	if (!strcmp(argv[1], "threads"))
		run_threads(&client, &server);
	else
		run_processes(&client, &server);
	puts("talked");
	return 0;
}
