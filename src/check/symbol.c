/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of frames. addr2line or llvm-symbolizer reads the debug information: one process per file
 * and report, and only for reports. Without them, function and offset as the loader knows them.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/report.h"

extern char **environ;

void vb_text_add(struct vb_text *text, const char *format, ...)
{
	va_list args;
	char *more;
	int length;

	va_start(args, format);
	length = vasprintf(&more, format, args);
	va_end(args);
	if (length < 0)
		return;
	if (text->length + (size_t)length + 1 > text->size) {
		const size_t size = 2 * (text->length + (size_t)length + 1);
		char *bytes = realloc(text->bytes, size);

		if (!bytes) {
			free(more);
			return;
		}
		text->bytes = bytes;
		text->size = size;
	}
	memcpy(text->bytes + text->length, more, (size_t)length + 1);
	text->length += (size_t)length;
	free(more);
}

/* --- the program that reads debug information --- */

/* Without what would put this library, or the network, into it. */
static char **clean_environment(void)
{
	static const char *const dropped[] = { "LD_PRELOAD=", "LD_LIBRARY_PATH=",
					       "DEBUGINFOD_URLS=", "VERBENA_" };
	size_t count = 0, kept = 0;
	char **clean;

	while (environ && environ[count])
		count++;
	clean = calloc(count + 1, sizeof(*clean));
	for (size_t i = 0; clean && i < count; i++) {
		bool drop = false;

		for (size_t j = 0; j < sizeof(dropped) / sizeof(*dropped); j++)
			drop |= !strncmp(environ[i], dropped[j], strlen(dropped[j]));
		if (!drop)
			clean[kept++] = environ[i];
	}
	return clean;
}

/* The answer of addr2line, as llvm-symbolizer gives it, too: names and places in turn. */
static void spawn_reader(const char *file, char (*addresses)[20], uint32_t count, int out,
			 pid_t *pid)
{
	char *gnu[8 + VB_STACK_DEPTH] = { "addr2line", "-a", "-f", "-C", "-i", "-e", (char *)file };
	char *llvm[9 + VB_STACK_DEPTH] = {
		"llvm-symbolizer", "--output-style=GNU", "-a", "-f", "-C", "-i", "-e", (char *)file
	};
	char **clean = clean_environment();
	posix_spawn_file_actions_t actions;

	for (uint32_t i = 0; i < count; i++) {
		gnu[7 + i] = addresses[i];
		llvm[8 + i] = addresses[i];
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!clean || (posix_spawnp(pid, "addr2line", &actions, NULL, gnu, clean) &&
		       posix_spawnp(pid, "llvm-symbolizer", &actions, NULL, llvm, clean)))
		*pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	free(clean);
}

static FILE *ask_reader(const char *file, char (*addresses)[20], uint32_t count, pid_t *pid)
{
	int ends[2];
	FILE *in;

	if (pipe2(ends, O_CLOEXEC))
		return NULL;
	spawn_reader(file, addresses, count, ends[1], pid);
	close(ends[1]);
	in = *pid > 0 ? fdopen(ends[0], "r") : NULL;
	if (!in)
		close(ends[0]);
	return in;
}

/* --- frames --- */

struct frame {
	Dl_info info;
	uintptr_t offset;
	bool known, done;
	char text[1024]; /* function and place; several of them where calls were inlined */
};

/* The address in the file: programs at a fixed address are loaded where they say. */
static void frame_find(struct frame *frame, void *pc)
{
	const uintptr_t at = (uintptr_t)pc - 1;

	frame->known = dladdr((void *)at, &frame->info) && frame->info.dli_fname;
	frame->offset = at;
	if (frame->known && ((const ElfW(Ehdr) *)frame->info.dli_fbase)->e_type == ET_DYN)
		frame->offset = at - (uintptr_t)frame->info.dli_fbase;
}

static void frame_plainly(struct frame *frame)
{
	const char *file = frame->known ? strrchr(frame->info.dli_fname, '/') : NULL;

	if (!frame->known)
		snprintf(frame->text, sizeof(frame->text), "0x%lx", (unsigned long)frame->offset);
	else
		snprintf(frame->text, sizeof(frame->text), "%s (%s+0x%lx)",
			 frame->info.dli_sname ? frame->info.dli_sname : "?",
			 file ? file + 1 : frame->info.dli_fname, (unsigned long)frame->offset);
}

/* A relative name of the main program means its own file. */
static const char *file_of(const struct frame *frame)
{
	return access(frame->info.dli_fname, R_OK) ? "/proc/self/exe" : frame->info.dli_fname;
}

static void frame_take(struct frame *frame, char *function, char *place)
{
	const size_t used = strlen(frame->text);
	char *space = strstr(place, " (discriminator");

	if (space)
		*space = '\0';
	if (!strncmp(place, "??", 2) || !strcmp(function, "??"))
		return;
	snprintf(frame->text + used, sizeof(frame->text) - used, "%s%s (%s)", used ? "\n" : "",
		 function, place);
}

static void frames_read(FILE *in, struct frame **asked, uint32_t count)
{
	char function[512], place[512];
	uint32_t at = 0;
	bool first = true;

	while (fgets(function, sizeof(function), in)) {
		function[strcspn(function, "\n")] = '\0';
		if (!strncmp(function, "0x", 2)) {
			at += !first;
			first = false;
			continue;
		}
		if (!fgets(place, sizeof(place), in) || at >= count)
			break;
		place[strcspn(place, "\n")] = '\0';
		frame_take(asked[at], function, place);
	}
}

/* All frames of one file, with one process. */
static void frames_of_file(struct frame *frames, uint32_t count, uint32_t from)
{
	char addresses[VB_STACK_DEPTH][20];
	struct frame *asked[VB_STACK_DEPTH];
	uint32_t asked_count = 0;
	pid_t pid = -1;
	FILE *in;

	for (uint32_t i = from; i < count; i++) {
		if (!frames[i].known || frames[i].info.dli_fbase != frames[from].info.dli_fbase)
			continue;
		frames[i].done = true;
		snprintf(addresses[asked_count], sizeof(*addresses), "0x%lx",
			 (unsigned long)frames[i].offset);
		asked[asked_count++] = &frames[i];
	}
	in = ask_reader(file_of(&frames[from]), addresses, asked_count, &pid);
	if (in) {
		frames_read(in, asked, asked_count);
		fclose(in);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void print_frame(struct vb_text *text, struct frame *frame, int *number)
{
	if (!*frame->text)
		frame_plainly(frame);
	/* The inline functions of <infiniband/verbs.h> stand before the call. */
	for (char *line = strtok(frame->text, "\n"); line; line = strtok(NULL, "\n"))
		if (*number || strncmp(line, "ibv_", 4) != 0)
			vb_text_add(text, "      #%d %s\n", (*number)++, line);
}

void vb_symbol_stack(struct vb_text *text, const struct vb_stack *stack)
{
	struct frame *frames = calloc(VB_STACK_DEPTH, sizeof(*frames));
	int number = 0;

	for (uint32_t i = 0; frames && i < stack->depth; i++)
		frame_find(&frames[i], stack->pc[i]);
	for (uint32_t i = 0; frames && i < stack->depth; i++)
		if (frames[i].known && !frames[i].done)
			frames_of_file(frames, stack->depth, i);
	for (uint32_t i = 0; frames && i < stack->depth; i++) {
		const bool last = !strncmp(frames[i].text, "main (", 6) ||
				  (frames[i].known && frames[i].info.dli_sname &&
				   !strcmp(frames[i].info.dli_sname, "main"));

		/* The frames that called main, or began a thread, are the C library's. */
		if (frames[i].known && i && strstr(frames[i].info.dli_fname, "/libc.so"))
			break;
		print_frame(text, &frames[i], &number);
		if (last)
			break;
	}
	free(frames);
}
