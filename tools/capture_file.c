/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of packets: pcapng, with an interface for each process and a comment for each packet. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "capture.h"
#include "verbena.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
	BYTE_ORDER_MAGIC = 0x1a2b3c4d,
	LINK_ETHERNET = 1,
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	SECTION_OS = 3,
	SECTION_PROGRAM = 4,
	INTERFACE_NAME = 2,
	INTERFACE_DESCRIPTION = 3,
	INTERFACE_TIME_UNIT = 9,
	PACKET_FLAGS = 2,
	STATISTICS_RECEIVED = 4,
	STATISTICS_DROPPED = 5,
	INBOUND = 1,
	OUTBOUND = 2,
	NANOSECONDS = 9,
	BLOCK_SIZE_MAX = 1 << 18,
	OUTPUT_BUFFER = 1 << 20,
};

/* A block in memory. Everything is a multiple of 4 bytes, in the byte order of this host. */
struct block {
	uint8_t bytes[BLOCK_SIZE_MAX];
	uint32_t used;
};
static struct block block;

static void put(const void *bytes, size_t size)
{
	const size_t padded = (size + 3) & ~(size_t)3;

	if (block.used + padded > sizeof(block.bytes) - 8)
		return;
	memcpy(block.bytes + block.used, bytes, size);
	memset(block.bytes + block.used + size, 0, padded - size);
	block.used += (uint32_t)padded;
}

static void put32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put_option(uint16_t code, const void *bytes, size_t size)
{
	const uint16_t head[2] = { code, (uint16_t)size };

	put(head, sizeof(head));
	put(bytes, size);
}

static void put_text(uint16_t code, const char *text)
{
	put_option(code, text, strlen(text));
}

static void block_begin(uint32_t type)
{
	block.used = 0;
	put32(type);
	put32(0); /* the length, later */
}

static bool block_end(struct capture_file *file)
{
	const uint32_t length = block.used + 4;

	memcpy(block.bytes + 4, &length, sizeof(length));
	put32(length);
	return fwrite(block.bytes, 1, block.used, file->file) == block.used;
}

static void put_time(const struct capture_file *file, uint64_t time_ns)
{
	const uint64_t time = time_ns + (uint64_t)file->realtime_ns;

	put32((uint32_t)(time >> 32));
	put32((uint32_t)time);
}

static int64_t clock_difference(void)
{
	struct timespec real, now;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (real.tv_sec - now.tv_sec) * 1000000000ll + real.tv_nsec - now.tv_nsec;
}

static bool section_put(struct capture_file *file)
{
	const uint16_t version[2] = { 1, 0 };
	const int64_t length = -1;
	struct utsname host;
	char os[256];

	block_begin(BLOCK_SECTION);
	put32(BYTE_ORDER_MAGIC);
	put(version, sizeof(version));
	put(&length, sizeof(length));
	if (!uname(&host)) {
		snprintf(os, sizeof(os), "%s %s", host.sysname, host.release);
		put_text(SECTION_OS, os);
	}
	put_text(SECTION_PROGRAM, "verbena capture " VERBENA_VERSION);
	put32(OPTION_END);
	return block_end(file);
}

bool file_open(struct capture_file *file, const char *path)
{
	*file = (struct capture_file){ .realtime_ns = clock_difference() };
	file->file = path ? fopen(path, "we") : stdout;
	if (!file->file) {
		complain("capture: %s: %s", path, strerror(errno));
		return false;
	}
	setvbuf(file->file, NULL, _IOFBF, OUTPUT_BUFFER);
	return section_put(file) && file_flush(file);
}

static bool interface_put(struct capture_file *file, struct vb_source *source)
{
	const struct passwd *user = getpwuid(source->uid);
	const uint8_t unit = NANOSECONDS;
	char text[128];

	block_begin(BLOCK_INTERFACE);
	put32(LINK_ETHERNET);
	put32(0); /* packets may have any length */
	snprintf(text, sizeof(text), "%s:%d", source->program, source->pid);
	put_text(INTERFACE_NAME, text);
	snprintf(text, sizeof(text), "RDMA of %s, pid %d, user %s", source->program, source->pid,
		 user ? user->pw_name : "?");
	put_text(INTERFACE_DESCRIPTION, text);
	put_option(INTERFACE_TIME_UNIT, &unit, sizeof(unit));
	put32(OPTION_END);
	source->interface = (int)file->interfaces++;
	return block_end(file);
}

bool file_packet(struct capture_file *file, struct held *held)
{
	const uint32_t flags = held->out ? OUTBOUND : INBOUND;

	if (held->source->interface < 0 && !interface_put(file, held->source))
		return false;
	block_begin(BLOCK_PACKET);
	put32((uint32_t)held->source->interface);
	put_time(file, held->time_ns);
	put32(held->kept);
	put32(held->length);
	put(held->bytes, held->kept);
	put_option(PACKET_FLAGS, &flags, sizeof(flags));
	put_text(OPTION_COMMENT, held->comment);
	put32(OPTION_END);
	held->source->packets++;
	return block_end(file);
}

void file_statistics(struct capture_file *file, struct vb_source *source)
{
	const uint64_t lost = vb_source_lost(source), received = source->packets + lost;
	const struct capture_notes *notes = source->notes;
	struct timespec now;

	if (source->interface < 0 && (lost || notes->failure_count))
		interface_put(file, source);
	if (source->interface < 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	block_begin(BLOCK_STATISTICS);
	put32((uint32_t)source->interface);
	put_time(file, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	for (unsigned i = 0; i < notes->failure_count; i++) {
		const struct capture_failure *failure = &notes->failures[i];
		char text[COMMENT_SIZE];

		snprintf(text, sizeof(text), "pid %d: QP 0x%06x, wr_id %llu: %s", source->pid,
			 failure->note.qpn, (unsigned long long)failure->note.wr_id, failure->text);
		put_text(OPTION_COMMENT, text);
	}
	put_option(STATISTICS_RECEIVED, &received, sizeof(received));
	put_option(STATISTICS_DROPPED, &lost, sizeof(lost));
	put32(OPTION_END);
	block_end(file);
}

bool file_flush(struct capture_file *file)
{
	return !fflush(file->file);
}

bool file_close(struct capture_file *file)
{
	bool good = !ferror(file->file) && file_flush(file);

	return (file->file == stdout || !fclose(file->file)) && good;
}
