/* SPDX-License-Identifier: BSD-2-Clause */
#include "duo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool duo_split(struct duo *duo)
{
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair: %s",
	      strerror(errno));
	fflush(stdout);
	duo->child = fork();
	CHECK(duo->child >= 0, "fork: %s", strerror(errno));
	if (!duo->child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	duo->socket = pair[duo->child ? 0 : 1];
	close(pair[duo->child ? 1 : 0]);
	return !duo->child;
}

void duo_meet(struct duo *duo, struct flow *flow)
{
	struct hello mine = { 0 }, theirs;

	flow_describe(flow, &mine);
	CHECK(send(duo->socket, &mine, sizeof(mine), MSG_NOSIGNAL) == sizeof(mine), "hello: %s",
	      strerror(errno));
	CHECK(recv(duo->socket, &theirs, sizeof(theirs), 0) == sizeof(theirs),
	      "the other process ended before it said hello");
	flow_connect(flow, &theirs);
}

void duo_tell(struct duo *duo, char word)
{
	CHECK(send(duo->socket, &word, 1, MSG_NOSIGNAL) == 1, "the other process is gone (%c)",
	      word);
}

bool duo_told(struct duo *duo, char word)
{
	char heard;

	if (recv(duo->socket, &heard, 1, 0) != 1)
		return false;
	CHECK(heard == word, "heard '%c' instead of '%c'", heard, word);
	return true;
}

char duo_peek(struct duo *duo)
{
	char heard;

	return recv(duo->socket, &heard, 1, MSG_DONTWAIT) == 1 ? heard : 0;
}

int duo_status(struct duo *duo)
{
	int status;

	CHECK(waitpid(duo->child, &status, 0) == duo->child, "waitpid: %s", strerror(errno));
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
