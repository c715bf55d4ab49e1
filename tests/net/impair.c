/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad link between two network namespaces, made of two taps and this relay:
 *
 *     namespace A  [tap] --- relay A->B: loss, order, delay ... --> [tap]  namespace B
 *                        <-- relay B->A ---
 *
 * netem does the same in kernels that have it; loss on veth hits whole GSO buffers. Taps without
 * offloads see the packets as they would be on a wire.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"
#include "relay.h"
#include "tap.h"

static const char usage_text[] =
	"usage: impair [options] NAMESPACE-A NAMESPACE-B\n"
	"\n"
	"P is per cent, one for both directions or two (A to B, B to A): 2 or 2,0.5\n"
	"  --loss P          frames vanish\n"
	"  --duplicate P     frames arrive twice\n"
	"  --reorder P       frames are overtaken by 1 to --overtakers (3) others, for 5 ms at "
	"most\n"
	"  --corrupt P       a bit behind the Ethernet header flips\n"
	"  --tamper P        a bit of a UDP payload flips and the UDP checksum is mended\n"
	"  --delay US[,US]   every frame takes this much longer; --jitter adds up to this much\n"
	"  --rate MBIT[,..]  megabits a second, with a queue of --queue (1000) frames\n"
	"  --partition MS,LENGTH_MS   nothing passes, from MS after the start on, for LENGTH_MS\n"
	"  --what KINDS      what is impaired: roce (the default), udp, tcp, other, all, or a "
	"list\n"
	"  --seed N          the same frames meet the same fates\n"
	"  --name IF[,IF]    names of the taps (eth0), --mtu N (1500)\n"
	"  --fates           print what happens to which frame\n"
	"\n"
	"Prints \"ready\" when the taps are up. SIGUSR1 cuts the link, SIGUSR2 mends it, SIGHUP "
	"prints\n"
	"the counts, SIGINT and SIGTERM print them and end.\n";

enum { BUDGET = 256 };
enum option_code {
	O_LOSS = 256,
	O_DUPLICATE,
	O_REORDER,
	O_OVERTAKERS,
	O_CORRUPT,
	O_TAMPER,
	O_DELAY,
	O_JITTER,
	O_RATE,
	O_QUEUE,
	O_PARTITION,
	O_WHAT,
	O_SEED,
	O_NAME,
	O_MTU,
	O_FATES,
};

static struct {
	struct relay relay[DIRECTION_COUNT];
	const char *netns[DIRECTION_COUNT];
	char name[DIRECTION_COUNT][16];
	uint32_t mtu, queue_frames;
	uint32_t partition_ms[2]; /* beginning and length; length 0: none */
	uint64_t start_ns, cut_ns, mend_ns;
	int epoll, signals;
} link_ = { .name = { "eth0", "eth0" }, .mtu = 1500, .queue_frames = 1000 };

static void fail(const char *what, int err)
{
	fprintf(stderr, "impair: %s: %s\n", what, strerror(-err));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- options --------------------------------------------------------------------------------- */

static int names_parse(const char *text)
{
	size_t first = strcspn(text, ",");
	const char *second = text[first] ? text + first + 1 : NULL;

	if (!first || first > 15 || (second && (!*second || strlen(second) > 15)))
		return -EINVAL;
	snprintf(link_.name[0], 16, "%.*s", (int)first, text);
	snprintf(link_.name[1], 16, "%s", second ? second : link_.name[0]);
	return 0;
}

/* The field of fate_odds that an option sets; NULL: the option is of another sort. */
static uint32_t *odds_field(struct fate_odds *odds, int code)
{
	switch (code) {
	case O_LOSS:
		return &odds->loss;
	case O_DUPLICATE:
		return &odds->duplicate;
	case O_REORDER:
		return &odds->reorder;
	case O_CORRUPT:
		return &odds->corrupt;
	case O_TAMPER:
		return &odds->tamper;
	}
	return NULL;
}

static uint32_t *amount_field(struct fate_odds *odds, int code)
{
	switch (code) {
	case O_DELAY:
		return &odds->delay_us;
	case O_JITTER:
		return &odds->jitter_us;
	case O_OVERTAKERS:
		return &odds->overtakers_max;
	}
	return NULL;
}

static int relay_option(int code, const char *text)
{
	bool is_odds = odds_field(&link_.relay[0].odds, code);
	uint32_t values[DIRECTION_COUNT];
	int err = is_odds ? odds_parse(text, values) : pair_parse(text, values);

	for (int i = 0; i < DIRECTION_COUNT && !err; i++) {
		struct fate_odds *odds = &link_.relay[i].odds;

		if (code == O_RATE)
			link_.relay[i].rate_bps = values[i] * 1000000ull;
		else
			*(is_odds ? odds_field(odds, code) : amount_field(odds, code)) = values[i];
	}
	return err;
}

static int what_option(const char *text)
{
	unsigned kinds;
	int err = kinds_parse(text, &kinds);

	for (int i = 0; i < DIRECTION_COUNT && !err; i++)
		link_.relay[i].kinds = kinds;
	return err;
}

static int number_option(const char *text, uint32_t *value)
{
	uint32_t values[DIRECTION_COUNT];
	int err = pair_parse(text, values);

	*value = values[0];
	return err ? err : *value ? 0 : -EINVAL;
}

static int seed_option(const char *text)
{
	char *end;
	uint64_t seed = strtoull(text, &end, 0);

	link_.relay[0].seed = link_.relay[1].seed = seed;
	return end == text || *end ? -EINVAL : 0;
}

static int option_apply(int code, const char *text)
{
	switch (code) {
	case O_PARTITION:
		return pair_parse(text, link_.partition_ms);
	case O_WHAT:
		return what_option(text);
	case O_SEED:
		return seed_option(text);
	case O_NAME:
		return names_parse(text);
	case O_MTU:
		return number_option(text, &link_.mtu);
	case O_QUEUE:
		return number_option(text, &link_.queue_frames);
	case O_FATES:
		link_.relay[0].log = link_.relay[1].log = stdout;
		return 0;
	default:
		return relay_option(code, text);
	}
}

static void options_read(int argc, char **argv)
{
	static const struct option options[] = {
		{ "loss", 1, 0, O_LOSS },
		{ "duplicate", 1, 0, O_DUPLICATE },
		{ "reorder", 1, 0, O_REORDER },
		{ "overtakers", 1, 0, O_OVERTAKERS },
		{ "corrupt", 1, 0, O_CORRUPT },
		{ "tamper", 1, 0, O_TAMPER },
		{ "delay", 1, 0, O_DELAY },
		{ "jitter", 1, 0, O_JITTER },
		{ "rate", 1, 0, O_RATE },
		{ "queue", 1, 0, O_QUEUE },
		{ "partition", 1, 0, O_PARTITION },
		{ "what", 1, 0, O_WHAT },
		{ "seed", 1, 0, O_SEED },
		{ "name", 1, 0, O_NAME },
		{ "mtu", 1, 0, O_MTU },
		{ "fates", 0, 0, O_FATES },
		{ "help", 0, 0, 'h' },
		{ 0 },
	};
	int code, at;

	while ((code = getopt_long(argc, argv, "h", options, &at)) != -1) {
		if (code == 'h') {
			fputs(usage_text, stdout);
			exit(0);
		}
		if (code == '?' || option_apply(code, optarg)) {
			if (code != '?')
				fprintf(stderr, "impair: --%s %s?\n", options[at].name, optarg);
			fputs(usage_text, stderr);
			exit(2);
		}
	}
	if (argc - optind != 2) {
		fputs(usage_text, stderr);
		exit(2);
	}
	link_.netns[0] = argv[optind];
	link_.netns[1] = argv[optind + 1];
}

/* ---- the link -------------------------------------------------------------------------------- */

static void watch(int fd, uint32_t tag)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = tag };

	if (epoll_ctl(link_.epoll, EPOLL_CTL_ADD, fd, &event))
		fail("epoll_ctl", -errno);
}

static void signals_open(void)
{
	static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(caught) / sizeof(*caught); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	link_.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (link_.signals < 0)
		fail("signalfd", -errno);
}

static void link_open(void)
{
	link_.epoll = epoll_create1(EPOLL_CLOEXEC);
	signals_open();
	watch(link_.signals, DIRECTION_COUNT);
	for (int i = 0; i < DIRECTION_COUNT; i++) {
		struct relay *relay = &link_.relay[i];
		int fd = tap_open(link_.netns[i], link_.name[i], link_.mtu);

		if (fd < 0)
			fail(link_.netns[i], fd);
		relay->direction = i;
		relay->in = fd;
		link_.relay[1 - i].out = fd;
		watch(fd, (uint32_t)i);
		if (relay_open(relay, link_.queue_frames))
			fail("queue", -ENOMEM);
	}
	link_.start_ns = now_ns();
	link_.cut_ns = link_.mend_ns = UINT64_MAX;
	if (link_.partition_ms[1]) {
		link_.cut_ns = link_.start_ns + link_.partition_ms[0] * 1000000ull;
		link_.mend_ns = link_.cut_ns + link_.partition_ms[1] * 1000000ull;
	}
}

static void link_cut(bool cut)
{
	printf("impair: link %s at %" PRIu64 " ms\n", cut ? "cut" : "mended",
	       (now_ns() - link_.start_ns) / 1000000);
	fflush(stdout);
	for (int i = 0; i < DIRECTION_COUNT; i++)
		link_.relay[i].partitioned = cut;
}

static void counts_print(void)
{
	for (int i = 0; i < DIRECTION_COUNT; i++)
		relay_print(&link_.relay[i], stdout);
	for (int i = 0; i < DIRECTION_COUNT; i++)
		printf("impair %s: %" PRIu64 " frames found the tap's queue full\n",
		       i ? "B->A" : "A->B", tap_dropped(link_.netns[i], link_.name[i]));
	fflush(stdout);
}

/* False: time to end. */
static bool signals_take(void)
{
	struct signalfd_siginfo info;

	while (read(link_.signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2)
			link_cut(info.ssi_signo == SIGUSR1);
		else if (info.ssi_signo == SIGHUP)
			counts_print();
		else
			return false;
	}
	return true;
}

static void partition_due(uint64_t at_ns)
{
	if (at_ns >= link_.cut_ns) {
		link_.cut_ns = UINT64_MAX;
		link_cut(true);
	}
	if (at_ns >= link_.mend_ns) {
		link_.mend_ns = UINT64_MAX;
		link_cut(false);
	}
}

static uint64_t next_ns(void)
{
	uint64_t next = link_.cut_ns < link_.mend_ns ? link_.cut_ns : link_.mend_ns;

	for (int i = 0; i < DIRECTION_COUNT; i++) {
		uint64_t due = relay_next_ns(&link_.relay[i]);

		next = due < next ? due : next;
	}
	return next;
}

static int wait_events(struct epoll_event *events, int count)
{
	uint64_t next = next_ns(), at = now_ns(), left = next > at ? next - at : 0;
	struct timespec timeout = { .tv_sec = (time_t)(left / 1000000000),
				    .tv_nsec = (long)(left % 1000000000) };

	return epoll_pwait2(link_.epoll, events, count, next == UINT64_MAX ? NULL : &timeout, NULL);
}

int main(int argc, char **argv)
{
	struct epoll_event events[DIRECTION_COUNT + 1];
	bool goes_on = true;

	for (int i = 0; i < DIRECTION_COUNT; i++) {
		link_.relay[i].kinds = FRAME_ROCE;
		link_.relay[i].odds.overtakers_max = 3;
	}
	options_read(argc, argv);
	link_open();
	puts("ready");
	fflush(stdout);
	while (goes_on) {
		int count = wait_events(events, DIRECTION_COUNT + 1);
		uint64_t at = now_ns();

		partition_due(at);
		for (int i = 0; i < count; i++) {
			uint32_t tag = events[i].data.u32;
			int err = 0;

			if (tag == DIRECTION_COUNT)
				goes_on = signals_take();
			else
				err = relay_pull(&link_.relay[tag], at, BUDGET);
			if (err < 0) { /* the namespace is gone, and its tap with it */
				fprintf(stderr, "impair: %s: %s\n", link_.netns[tag],
					strerror(-err));
				goes_on = false;
			}
		}
		for (int i = 0; i < DIRECTION_COUNT; i++)
			relay_release(&link_.relay[i], at);
	}
	counts_print();
	for (int i = 0; i < DIRECTION_COUNT; i++)
		relay_close(&link_.relay[i]);
	return 0;
}
