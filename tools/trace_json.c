/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of a trace: an array of events, one per line (Chrome's trace event format, which
 * Perfetto reads). Lines are appended by whole writes, so several programs can share a file, and
 * the file can be read after any of them was killed: readers need no end of the array. The last
 * program that leaves ends the array.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace.h"
#include "verbena.h"

enum { BUFFER = 1 << 20, LINE_MAX_SIZE = 2048, NAME_MAX_SIZE = 128 };

static bool write_all(struct trace_file *file, const char *bytes, size_t size)
{
	while (size && !file->broken) {
		ssize_t put = write(file->fd, bytes, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			complain("trace: cannot write: %s", strerror(errno));
			file->broken = true;
			return false;
		}
		bytes += put;
		size -= (size_t)put;
	}
	return !file->broken;
}

/* The first of several programs empties the file; all of them hold the lock for reading. */
static bool begin(struct trace_file *file, const char *path)
{
	struct stat status;

	if (fstat(file->fd, &status) || !S_ISREG(status.st_mode)) {
		complain("trace: %s is not a file", path);
		return false;
	}
	if (!flock(file->fd, LOCK_EX | LOCK_NB) &&
	    (ftruncate(file->fd, 0) || !write_all(file, "[\n", 2)))
		return false;
	return !flock(file->fd, LOCK_SH);
}

bool trace_file_open(struct trace_file *file, const char *path, uint64_t limit)
{
	*file = (struct trace_file){ .limit = limit };
	file->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
	file->buffer = malloc(BUFFER);
	if (file->fd < 0)
		complain("trace: %s: %s", path, strerror(errno));
	if (file->fd >= 0 && file->buffer && begin(file, path))
		return true;
	if (file->fd >= 0)
		close(file->fd);
	free(file->buffer);
	return false;
}

bool trace_file_flush(struct trace_file *file)
{
	const size_t used = file->used;

	file->used = 0;
	return write_all(file, file->buffer, used);
}

bool trace_file_close(struct trace_file *file)
{
	static const char end[] =
		"{\"ph\":\"M\",\"name\":\"trace_ends\",\"pid\":0,\"tid\":0,\"args\":{}}\n]\n";
	bool good = trace_file_flush(file);

	if (!flock(file->fd, LOCK_EX | LOCK_NB))
		good &= write_all(file, end, sizeof(end) - 1);
	close(file->fd);
	free(file->buffer);
	return good;
}

__attribute__((format(printf, 2, 3))) static void line_put(struct trace_file *file,
							   const char *format, ...)
{
	va_list args;
	int size;

	if (file->written >= file->limit) {
		file->refused++;
		return;
	}
	if (file->used + LINE_MAX_SIZE > BUFFER)
		trace_file_flush(file);
	va_start(args, format);
	size = vsnprintf(file->buffer + file->used, LINE_MAX_SIZE, format, args);
	va_end(args);
	if (size < 0 || size >= LINE_MAX_SIZE)
		return;
	file->used += (size_t)size;
	file->written += (size_t)size;
	file->events++;
}

/* Microseconds, with all digits of the nanoseconds. */
#define TIME          "%" PRIu64 ".%03u"
#define TIME_ARGS(ns) (ns) / 1000, (unsigned)((ns) % 1000)

/* A slice without a length encloses no arrow: readers get a nanosecond. */
void trace_slice(struct trace_file *file, struct trace_track track, const char *name,
		 uint64_t from_ns, uint64_t to_ns, const char *args)
{
	const uint64_t length_ns = to_ns > from_ns ? to_ns - from_ns : 1;

	line_put(file,
		 "{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":" TIME ",\"dur\":" TIME
		 ",\"name\":\"%s\",\"cat\":\"verbena\",\"args\":{%s}},\n",
		 track.pid, track.tid, TIME_ARGS(from_ns), TIME_ARGS(length_ns), name, args);
}

void trace_instant(struct trace_file *file, struct trace_track track, const char *name,
		   uint64_t at_ns, const char *args)
{
	line_put(file,
		 "{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%u,\"ts\":" TIME
		 ",\"name\":\"%s\",\"cat\":\"verbena\",\"args\":{%s}},\n",
		 track.pid, track.tid, TIME_ARGS(at_ns), name, args);
}

void trace_flow(struct trace_file *file, struct trace_track track, bool start, uint64_t at_ns,
		uint64_t id)
{
	line_put(file,
		 "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":" TIME
		 ",\"name\":\"message\",\"cat\":\"message\",\"id\":\"0x%" PRIx64
		 "\",\"bp\":\"e\"},\n",
		 start ? "s" : "f", track.pid, track.tid, TIME_ARGS(at_ns), id);
}

/* Names of programs may have any characters. */
static void escape(const char *text, char out[NAME_MAX_SIZE])
{
	size_t used = 0;

	for (; *text && used + 7 < NAME_MAX_SIZE; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f)
			used += (size_t)snprintf(out + used, 7, "\\u%04x", c);
		else
			out[used++] = (char)c;
	}
	out[used] = '\0';
}

void trace_name_process(struct trace_file *file, pid_t pid, const char *program)
{
	char name[NAME_MAX_SIZE];

	escape(program, name);
	line_put(file,
		 "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
		 "\"args\":{\"name\":\"%s\"}},\n",
		 pid, name);
}

void trace_name_track(struct trace_file *file, struct trace_track track, const char *name)
{
	line_put(file,
		 "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,"
		 "\"args\":{\"name\":\"%s\"}},\n",
		 track.pid, track.tid, name);
}
