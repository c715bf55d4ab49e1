/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload-sockets/config.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/environment.h"
#include "rsocket/settings.h"

struct line {
	char program[64], domain[16], type[16], protocol[16];
};

struct word {
	const char *name;
	int value;
};

static const struct word domains[] = { { "INET", AF_INET }, { "INET6", AF_INET6 }, { 0 } };
static const struct word types[] = { { "STREAM", SOCK_STREAM }, { "DGRAM", SOCK_DGRAM }, { 0 } };
static const struct word protocols[] = { { "TCP", IPPROTO_TCP }, { "UDP", IPPROTO_UDP }, { 0 } };

/* The word may have the prefix of the C constant. */
static bool word_means(const char *word, const char *prefix, const struct word *words, int value)
{
	const size_t prefix_size = strlen(prefix);

	if (!strcmp(word, "*"))
		return true;
	if (!strncasecmp(word, "PF_", 3))
		word += 3;
	else if (!strncasecmp(word, prefix, prefix_size))
		word += prefix_size;
	for (; words->name; words++) {
		if (!strcasecmp(word, words->name))
			return words->value == value;
	}
	return false;
}

static bool split(const char *text, struct line *line)
{
	return text[0] != '#' && sscanf(text, "%63s%15s%15s%15s", line->program, line->domain,
					line->type, line->protocol) == 4;
}

bool vb_sockets_line_counts(const char *text)
{
	struct line line;

	return split(text, &line);
}

bool vb_sockets_line_matches(const char *text, const char *program, int domain, int type,
			     int protocol)
{
	struct line line;

	if (!split(text, &line))
		return false;
	if (strcmp(line.program, "*") && strncasecmp(line.program, program, strlen(line.program)))
		return false;
	return word_means(line.domain, "AF_", domains, domain) &&
	       word_means(line.type, "SOCK_", types, type) &&
	       word_means(line.protocol, "IPPROTO_", protocols, protocol);
}

enum { LINES_MAX = 64 };
static char lines[LINES_MAX][120];
static int line_count;
static struct vb_sockets_config config;

static void read_file(void)
{
	FILE *file = fopen(VB_RS_SETTINGS_DIRECTORY "/preload_config", "re");

	if (!file)
		return;
	while (line_count < LINES_MAX && fgets(lines[line_count], sizeof(lines[0]), file)) {
		if (vb_sockets_line_counts(lines[line_count]))
			line_count++;
	}
	fclose(file);
}

static void read_config(void)
{
	const int wait_ms = vb_environment_number(VB_ENV_SOCKETS_WAIT_MS);

	config.listen = !vb_environment_number(VB_ENV_FORK_SAFE);
	config.sq_size = vb_environment_number(VB_ENV_RS_SQ_SIZE);
	config.rq_size = vb_environment_number(VB_ENV_RS_RQ_SIZE);
	config.inline_size = vb_environment_number(VB_ENV_RS_INLINE);
	config.connect_wait_ns = (uint64_t)(wait_ms < 0 ? 0 : wait_ms) * 1000000u;
	read_file();
}

const struct vb_sockets_config *vb_sockets_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_config);
	return &config;
}

bool vb_sockets_wanted(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return false;
	type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (type != SOCK_STREAM || (protocol && protocol != IPPROTO_TCP))
		return false;
	vb_sockets_config();
	for (int i = 0; i < line_count; i++) {
		if (vb_sockets_line_matches(lines[i], program_invocation_short_name, domain, type,
					    IPPROTO_TCP))
			return true;
	}
	return !line_count;
}
