/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transfer checker: every operation of RC, UC and UD between two processes or hosts, every
 * payload byte, every byte around it, the order and number of completions, the sum of atomics.
 * `transfer --help` lists the options; a seed repeats a run.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel.h"
#include "counters.h"
#include "session.h"

static struct options options;
static struct session session;

/* Nothing that hangs goes unnoticed, and it says where. Not safe in a signal handler, but last. */
static void deadline_passed(int signal_number)
{
	fprintf(stderr, "# FAIL transfer (pid %d): no end after %u s\n", getpid(),
		session.terms.deadline_s);
	if (session.lanes)
		session_print(&session);
	_exit(1);
}

static void missing_print(const struct tally *tally)
{
	printf("# messages: sent %" PRIu64 " arrived %" PRIu64 " missing %" PRIu64
	       " repeated %" PRIu64 " overtaken %" PRIu64 "; writes: broken %" PRIu64
	       " missing %" PRIu64 "\n",
	       tally->sent, tally->arrived, tally->missing, tally->repeated, tally->overtaken,
	       tally->writes_partial, tally->writes_missing);
}

/* What the peer's port could not send is missing here. */
static uint64_t exchange(uint64_t lost_out)
{
	uint64_t lost_there = 0;

	channel_send(session.channel, &lost_out, sizeof(lost_out));
	channel_receive(session.channel, &lost_there, sizeof(lost_there));
	return lost_there;
}

/* Each missing one was lost by the link, by the other side's port, or counted here. */
static void explained_check(const struct tally *tally, uint64_t counted)
{
	uint64_t missing = tally->missing + tally->writes_partial + tally->writes_missing;
	uint32_t link_lost = session.terms.link_lost;

	printf("# unexplained %" PRIu64 ": missing %" PRIu64 " counted %" PRIu64 "\n",
	       missing > counted ? missing - counted : 0, missing, counted);
	fflush(stdout);
	CHECK(link_lost == LINK_LOST_UNKNOWN || missing <= link_lost + counted,
	      "%" PRIu64 " messages are missing, the link lost %u and %" PRIu64 " are counted",
	      missing, link_lost, counted);
}

/* Messages may only be missing where the caller says that the network loses. */
static void missing_check(void)
{
	struct tally tally = session_tally(&session);
	struct counted counted;
	uint64_t lost_there;
	bool counts;

	if (session.terms.qp_type == IBV_QPT_RC)
		return;
	counts = counters_counted(session.home.ctx, &counted);
	lost_there = exchange(counted.lost_out);
	if (!tally.sent)
		return;
	missing_print(&tally);
	if (!tally.missing && !tally.writes_partial && !tally.writes_missing) {
		printf("# unexplained 0: nothing is missing\n");
		return;
	}
	printf("# counters of this side that moved:\n");
	counters_explain_missing(session.home.ctx, stdout);
	fflush(stdout);
	CHECK(session.terms.lossy, "%" PRIu64 " messages are missing", tally.missing);
	CHECK(counts || session.terms.link_lost == LINK_LOST_UNKNOWN,
	      "this libibverbs shows no counters");
	if (counts)
		explained_check(&tally, counted.dropped_in + lost_there);
	/* A responder that never finds its way back after a gap loses nearly everything. */
	CHECK(tally.missing * 100 <= tally.sent * session.terms.missing_percent_max,
	      "%" PRIu64 " of %" PRIu64 " messages are missing, more than %u %%", tally.missing,
	      tally.sent, session.terms.missing_percent_max);
}

static void connection_print(const struct lane *lane)
{
	printf("# QP %#x expects PSN %u\n", lane->self.qpn, lane->peer.psn);
	fflush(stdout);
}

static void run(int channel, bool is_client)
{
	uint64_t begin_us;

	rig_name(is_client ? "client" : "server", "");
	signal(SIGALRM, deadline_passed);
	session.terms.deadline_s = options.terms.deadline_s;
	alarm(options.terms.deadline_s);
	session_open(&session, &options, channel, is_client);
	alarm(session.terms.deadline_s);
	counters_begin(session.home.ctx);
	begin_us = clock_us();
	/* For those who ask whether several ran side by side. */
	printf("# connected at %.6f\n", begin_us / 1e6);
	if (options.verbose)
		connection_print(&session.lanes[0]);
	if (options.stop)
		raise(SIGSTOP);
	session_run(&session);
	printf("# ended at %.6f\n", clock_us() / 1e6);
	missing_check();
	if (options.verbose)
		counters_explain_missing(session.home.ctx, stdout);
	printf("transfer: %s: %" PRIu64 " operations, %" PRIu64
	       " bytes right, %u QPs, MTU %u, seed %" PRIu64 ", %.3f s\n",
	       is_client ? "client" : "server", session.ops, session.bytes, session.terms.lanes,
	       session.terms.mtu_bytes, session.terms.seed, (clock_us() - begin_us) / 1e6);
	fflush(stdout);
	session_close(&session);
}

/* Before any verbs call: the two share nothing but a socket. */
static int run_pair(void)
{
	int pair[2], status;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair: %s", strerror(errno));
	child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		run(pair[1], false);
		exit(0);
	}
	close(pair[1]);
	run(pair[0], true);
	CHECK(waitpid(child, &status, 0) == child && !status, "the server ended with status %#x",
	      status);
	return 0;
}

int main(int argc, char **argv)
{
	options_read(&options, argc, argv);
	rig_name("transfer", "");
	if (options.pair)
		return run_pair();
	if (options.host)
		run(channel_connect(options.host, options.port), true);
	else
		run(channel_accept(options.port), false);
	return 0;
}
