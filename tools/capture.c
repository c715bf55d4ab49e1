/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena capture: the options, and the loop that reads rings and writes packets. */
#include "capture.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbena.h"

static const char usage[] =
	"usage: verbena capture [OPTIONS] [-- PROGRAM [ARGUMENTS]]\n\n"
	"Writes the RDMA traffic of this user's processes, as packets, to a file that Wireshark "
	"and\n"
	"tshark read (pcapng): the packets of the wire, and those that the local path spares.\n"
	"Ends at Ctrl-C, at a limit, or with PROGRAM.\n\n"
	"  -o, --output=FILE   the file; without it packets go to standard output\n"
	"  -p, --pid=PID       packets of this process only\n"
	"  -q, --qp=QPN        packets from and to this QP only\n"
	"  -d, --device=NAME   packets with an address of this device only\n"
	"  -b, --bytes=N       keep N bytes of payload of each packet, or 'all' (default: 64)\n"
	"  -c, --count=N       end after N packets\n"
	"  -s, --seconds=S     end after S seconds\n"
	"      --quiet         no summary at the end\n";

enum { LOOK_NS = 200000000, HOLD_NS = 20000000, HELD_MAX = 100000, IDLE_MS = 5 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* All that one capture has. */
struct capture {
	const struct capture_options *options;
	struct vb_sources sources;
	struct merge merge;
	struct capture_file file;
	struct vb_capture_framer framer;
	uint8_t gids[DEVICE_GIDS][16];
	unsigned gid_count;
	uint64_t packets;
	bool broken; /* the output takes no more */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the packets that are wanted --- */

static void address_gid(const uint8_t *address, bool ipv6, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (!ipv6)
		gid[10] = gid[11] = 0xff;
	memcpy(gid + (ipv6 ? 0 : 12), address, ipv6 ? 16 : 4);
}

static bool is_of_device(const struct capture *capture, const struct vb_capture_frame *frame)
{
	const bool ipv6 = frame->bytes[12] == 0x86;
	const uint8_t *addresses = frame->bytes + 14 + (ipv6 ? 8 : 12);
	uint8_t src[16], dst[16];

	address_gid(addresses, ipv6, src);
	address_gid(addresses + (ipv6 ? 16 : 4), ipv6, dst);
	for (unsigned i = 0; i < capture->gid_count; i++)
		if (!memcmp(capture->gids[i], src, 16) || !memcmp(capture->gids[i], dst, 16))
			return true;
	return false;
}

static pid_t pid_of(const struct capture *capture, uint32_t qpn)
{
	return capture->sources.pid_of_slot[qpn >> 12 < VB_ASK_SLOTS ? qpn >> 12 : 0];
}

static struct vb_source *source_of(const struct capture *capture, pid_t pid)
{
	for (unsigned i = capture->sources.count; i; i--)
		if (capture->sources.list[i - 1]->pid == pid)
			return capture->sources.list[i - 1];
	return NULL;
}

/*
 * The process whose interface shows the packet; NULL: it is not wanted. Only the sender of a
 * message tells of the local path: with --pid the target's interface shows it.
 */
static struct vb_source *shown_at(const struct capture *capture, struct vb_source *source,
				  struct vb_capture_frame *frame)
{
	const struct capture_options *options = capture->options;
	const pid_t pid = options->pid;

	if (options->qpn >= 0 && frame->src_qpn != options->qpn && frame->dest_qpn != options->qpn)
		return NULL;
	if (options->device && !is_of_device(capture, frame))
		return NULL;
	if (!pid || source->pid == pid)
		return source;
	if (!frame->local || frame->dest_qpn < 2 ||
	    (pid_of(capture, frame->dest_qpn) != pid && pid_of(capture, frame->src_qpn) != pid))
		return NULL;
	frame->out = !frame->out;
	return source_of(capture, pid);
}

/* --- records become packets --- */

struct taking {
	struct capture *capture;
	struct vb_source *source;
};

static const uint8_t *bth_of(const struct vb_capture_frame *frame)
{
	return frame->bytes + 14 + (frame->bytes[12] == 0x86 ? 40 : 20) + 8;
}

static void frame_take(void *arg, const struct vb_capture_frame *given)
{
	const struct taking *taking = arg;
	struct capture *capture = taking->capture;
	struct vb_capture_frame frame = *given;
	char comment[COMMENT_SIZE];
	const char *failure;
	struct vb_source *shown;
	size_t used;

	if (!frame.local)
		notes_find(taking->source, &frame, bth_of(&frame));
	comment_write(&capture->sources, taking->source, &frame, comment);
	failure = notes_failure(taking->source, &frame);
	used = strlen(comment);
	if (failure)
		snprintf(comment + used, sizeof(comment) - used, "; %s", failure);
	shown = shown_at(capture, taking->source, &frame);
	if (shown)
		merge_add(&capture->merge, shown, &frame, comment);
}

/* The sentence may be about a packet that is still held. */
static void failure_attach(struct capture *capture, struct vb_source *source)
{
	struct capture_notes *notes = source->notes;
	const struct capture_failure *last = &notes->failures[notes->failure_count - 1];
	struct held *held = merge_find(&capture->merge, source, &last->note);
	size_t used;

	if (!held)
		return;
	used = strlen(held->comment);
	snprintf(held->comment + used, sizeof(held->comment) - used, "; %s", last->text);
	notes->failure_count--;
}

static void record_take(void *arg, struct vb_source *source, const struct vb_capture_head *record)
{
	struct taking taking = { arg, source };

	if (record->kind == VB_CAPTURE_PSNS || record->kind == VB_CAPTURE_FAILED)
		notes_take(source, record);
	if (record->kind == VB_CAPTURE_FAILED &&
	    ((struct capture_notes *)source->notes)->failure_count)
		failure_attach(arg, source);
	vb_capture_frames(&taking.capture->framer, record, frame_take, &taking);
}

static bool packet_write(void *arg, struct held *held)
{
	struct capture *capture = arg;

	if (!file_packet(&capture->file, held)) {
		capture->broken = true;
		return false;
	}
	capture->packets++;
	return !capture->options->count || capture->packets < capture->options->count;
}

/* --- the loop --- */

static bool is_full(const struct capture *capture)
{
	return capture->broken ||
	       (capture->options->count && capture->packets >= capture->options->count);
}

/* Packets are held for a moment, because other processes may still tell of earlier ones. */
static bool round_do(struct capture *capture, uint64_t hold_ns)
{
	const uint64_t begun_ns = now_ns();
	bool any = vb_sources_read(&capture->sources, record_take, capture);

	if (capture->merge.count > HELD_MAX)
		hold_ns /= 10;
	merge_flush(&capture->merge, begun_ns > hold_ns ? begun_ns - hold_ns : 0, packet_write,
		    capture);
	if (!file_flush(&capture->file))
		capture->broken = true;
	return any;
}

static void signals_catch(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* -1: there is none, or it cannot be started; *status is the exit status then. */
static pid_t program_start(char **program, int *status)
{
	pid_t pid = program ? fork() : -1;

	if (pid)
		return pid;
	signal(SIGPIPE, SIG_DFL);
	execvp(program[0], program);
	complain("%s: %s", program[0], strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
	(void)status;
}

static bool program_ended(pid_t pid, int *status)
{
	int how;

	if (pid < 0 || waitpid(pid, &how, WNOHANG) != pid)
		return false;
	*status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	return true;
}

static int capture_loop(struct capture *capture)
{
	const uint64_t begun_ns = now_ns();
	const double seconds = capture->options->seconds;
	uint64_t looked_ns = 0;
	int status = EXIT_SUCCESS;
	bool any = false;
	pid_t program;

	vb_sources_look(&capture->sources);
	program = program_start(capture->options->program, &status);
	while (!interrupted && !is_full(capture) && !program_ended(program, &status) &&
	       !(seconds && (double)(now_ns() - begun_ns) >= seconds * 1e9)) {
		if (now_ns() - looked_ns >= LOOK_NS || capture->sources.came) {
			vb_sources_look(&capture->sources);
			looked_ns = now_ns();
		}
		vb_sources_wait(&capture->sources, any ? 1 : IDLE_MS);
		any = round_do(capture, HOLD_NS);
	}
	vb_sources_wait(&capture->sources, 0);
	if (!is_full(capture))
		round_do(capture, 0);
	if (program >= 0 && interrupted)
		kill(program, interrupted);
	return status;
}

static bool is_shown(const struct capture_options *options, const struct vb_source *source)
{
	return !options->pid || source->pid == options->pid;
}

static bool capture_finish(struct capture *capture)
{
	uint64_t lost = 0;
	unsigned processes = 0;
	bool good;

	for (unsigned i = 0; i < capture->sources.count; i++) {
		struct vb_source *source = capture->sources.list[i];

		if (!is_shown(capture->options, source))
			continue;
		if (!capture->broken)
			file_statistics(&capture->file, source);
		lost += vb_source_lost(source);
		processes += source->captured;
	}
	good = file_close(&capture->file) && !capture->broken;
	if (!capture->options->quiet)
		complain("capture: %llu packets of %u process%s, %llu lost",
			 (unsigned long long)capture->packets, processes,
			 processes == 1 ? "" : "es", (unsigned long long)lost);
	return good;
}

/* --- the device --- */

static struct capture *finding;

static void gids_take(struct ibv_context *context)
{
	struct capture *capture = finding;
	union ibv_gid gid;

	if (strcmp(ibv_get_device_name(context->device), capture->options->device))
		return;
	for (int i = 0; i < DEVICE_GIDS && !ibv_query_gid(context, 1, i, &gid); i++)
		if (!describe_gid_is_empty(&gid))
			memcpy(capture->gids[capture->gid_count++], gid.raw, 16);
}

static bool device_find(struct capture *capture)
{
	if (!capture->options->device)
		return true;
	finding = capture;
	if (devices_each(gids_take) < 0)
		return false;
	if (!capture->gid_count)
		complain("capture: there is no device %s, or it has no address; "
			 "'verbena devices' lists them",
			 capture->options->device);
	return capture->gid_count;
}

int capture_run(const struct capture_options *options)
{
	struct capture *capture = calloc(1, sizeof(*capture));
	int status = EXIT_FAILURE;

	if (!capture) {
		complain("capture: out of memory");
		return EXIT_FAILURE;
	}
	if (options->pid && !process_is_there("capture", options->pid)) {
		free(capture);
		return EXIT_FAILURE;
	}
	capture->options = options;
	signals_catch();
	if (device_find(capture) && file_open(&capture->file, options->output)) {
		vb_sources_open(
			&capture->sources,
			&(struct vb_sources_options){ .tool = "capture",
						      .tell = complain,
						      .notes_size = sizeof(struct capture_notes),
						      .wants = VB_WANT_PACKETS,
						      .bytes = options->bytes,
						      .pid = options->pid });
		status = capture_loop(capture);
		if (!capture_finish(capture) && !status && !capture->broken)
			status = EXIT_FAILURE;
		vb_sources_close(&capture->sources);
	}
	merge_free(&capture->merge);
	free(capture);
	return status;
}

/* --- options --- */

/* False: the value makes no sense. */
static bool parse_option(int letter, const char *value, struct capture_options *options)
{
	uint64_t number = 0;
	bool good = true;

	switch (letter) {
	case 'o':
		options->output = strcmp(value, "-") ? value : NULL;
		break;
	case 'p':
		good = value_pid(value, &options->pid);
		break;
	case 'q':
		good = value_number(value, 0, VB_QPN_MASK, &number);
		options->qpn = (int64_t)number;
		break;
	case 'd':
		options->device = value;
		break;
	case 'b':
		number = VB_CAPTURE_ALL;
		good = !strcmp(value, "all") || value_number(value, 10, VB_CAPTURE_ALL, &number);
		options->bytes = (uint32_t)number;
		break;
	case 'c':
		good = value_number(value, 10, UINT64_MAX, &options->count) && options->count;
		break;
	case 's':
		good = value_seconds(value, &options->seconds);
		break;
	case 'Q':
		options->quiet = true;
		break;
	}
	return good;
}

int verbena_capture(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "pid", required_argument, NULL, 'p' },
		{ "qp", required_argument, NULL, 'q' },
		{ "device", required_argument, NULL, 'd' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 's' },
		{ "quiet", no_argument, NULL, 'Q' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct capture_options options = { .qpn = -1, .bytes = CAPTURE_BYTES };
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "+:o:p:q:d:b:c:s:h", longs, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (letter != '?' && letter != ':' && parse_option(letter, optarg, &options))
			continue;
		if (letter == '?' || letter == ':')
			option_refused("capture", letter, argv, usage);
		else
			complain("capture: '%s' is no value for -%c", optarg, letter);
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (optind < argc)
		options.program = argv + optind;
	if (!options.output && isatty(STDOUT_FILENO)) {
		complain("capture: standard output is a terminal: name a file with -o, or pipe the "
			 "packets into 'tshark -r -'");
		return EXIT_USAGE;
	}
	return capture_run(&options);
}
