/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing in the file is believed: every offset and count is compared with the size of the file
 * before it is used, and every read is bounded.
 */
#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel refuses programs with larger tables of program headers. */
enum { HEADERS_SIZE_MAX = 65536, DYNAMIC_MAX = 1 << 16, NOTES_MAX = 1 << 16 };

/* --- reading --- */

/* Exactly these bytes, or false. */
static bool read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	if (offset > INT64_MAX - size)
		return false;
	for (size_t at = 0; at < size;) {
		ssize_t n = pread(fd, (char *)bytes + at, size - at, (off_t)(offset + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

/* A text of at most ELF_TEXT_SIZE with its NUL. False: it is longer, or the file ends before. */
static bool read_text(int fd, char text[ELF_TEXT_SIZE], uint64_t offset)
{
	ssize_t n = offset > INT64_MAX ? -1 : pread(fd, text, ELF_TEXT_SIZE, (off_t)offset);

	if (n > 0 && memchr(text, '\0', (size_t)n))
		return true;
	text[0] = '\0';
	return false;
}

/* --- program headers --- */

struct segments {
	ElfW(Phdr) * list; /* owned */
	unsigned count;
};

static bool segments_read(int fd, const ElfW(Ehdr) * header, struct segments *segments)
{
	const size_t size = (size_t)header->e_phnum * sizeof(*segments->list);

	if (header->e_phentsize != sizeof(*segments->list) || !size || size > HEADERS_SIZE_MAX)
		return false;
	segments->list = malloc(size);
	segments->count = header->e_phnum;
	return segments->list && read_at(fd, segments->list, size, header->e_phoff);
}

static const ElfW(Phdr) * segment_find(const struct segments *segments, unsigned type)
{
	for (unsigned i = 0; i < segments->count; i++)
		if (segments->list[i].p_type == type)
			return &segments->list[i];
	return NULL;
}

/* Where the byte at this address lies in the file. */
static bool file_offset(const struct segments *segments, uint64_t address, uint64_t *offset)
{
	for (unsigned i = 0; i < segments->count; i++) {
		const ElfW(Phdr) *load = &segments->list[i];

		if (load->p_type != PT_LOAD || address < load->p_vaddr ||
		    address - load->p_vaddr >= load->p_filesz)
			continue;
		*offset = load->p_offset + (address - load->p_vaddr);
		return true;
	}
	return false;
}

/* --- the Go linker's note --- */

static bool is_go_note(const ElfW(Nhdr) * note, const char *name)
{
	enum { GO_BUILD_ID = 4 };

	return note->n_type == GO_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "Go\0", 4);
}

static bool has_go_note(int fd, const ElfW(Phdr) * notes)
{
	ElfW(Nhdr) note;
	uint64_t at = 0;
	char name[4];

	while (notes->p_filesz <= NOTES_MAX &&
	       at + sizeof(note) + sizeof(name) <= notes->p_filesz) {
		if (!read_at(fd, &note, sizeof(note), notes->p_offset + at) ||
		    !read_at(fd, name, sizeof(name), notes->p_offset + at + sizeof(note)))
			return false;
		if (is_go_note(&note, name))
			return true;
		at += sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3)) +
		      (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
	}
	return false;
}

static bool is_go(int fd, const struct segments *segments)
{
	for (unsigned i = 0; i < segments->count; i++)
		if (segments->list[i].p_type == PT_NOTE && has_go_note(fd, &segments->list[i]))
			return true;
	return false;
}

/* --- the dynamic section --- */

struct dynamic {
	uint64_t strings, rpath, runpath;
	bool has_strings, has_rpath, has_runpath;
};

static void dynamic_note(struct dynamic *dynamic, const ElfW(Dyn) * entry)
{
	switch (entry->d_tag) {
	case DT_STRTAB:
		dynamic->strings = entry->d_un.d_ptr;
		dynamic->has_strings = true;
		break;
	case DT_RPATH:
		dynamic->rpath = entry->d_un.d_val;
		dynamic->has_rpath = true;
		break;
	case DT_RUNPATH:
		dynamic->has_runpath = true;
		break;
	}
}

static bool dynamic_read(int fd, const ElfW(Phdr) * segment, struct dynamic *dynamic)
{
	ElfW(Dyn) entry;

	for (unsigned i = 0; i < DYNAMIC_MAX && (i + 1) * sizeof(entry) <= segment->p_filesz; i++) {
		if (!read_at(fd, &entry, sizeof(entry), segment->p_offset + i * sizeof(entry)))
			return false;
		if (entry.d_tag == DT_NULL)
			break;
		dynamic_note(dynamic, &entry);
	}
	return true;
}

/* A DT_RPATH beside a DT_RUNPATH does not count. */
static bool read_rpath(int fd, const struct segments *segments, char rpath[ELF_TEXT_SIZE])
{
	const ElfW(Phdr) *segment = segment_find(segments, PT_DYNAMIC);
	struct dynamic dynamic = { 0 };
	uint64_t offset;

	if (!segment)
		return true;
	if (!dynamic_read(fd, segment, &dynamic))
		return false;
	if (!dynamic.has_rpath || dynamic.has_runpath)
		return true;
	return dynamic.has_strings && dynamic.rpath <= UINT32_MAX &&
	       file_offset(segments, dynamic.strings, &offset) &&
	       read_text(fd, rpath, offset + dynamic.rpath);
}

/* --- the whole --- */

static bool read_interpreter(int fd, const struct segments *segments, char text[ELF_TEXT_SIZE])
{
	const ElfW(Phdr) *segment = segment_find(segments, PT_INTERP);

	return !segment || (read_text(fd, text, segment->p_offset) && *text &&
			    strlen(text) < segment->p_filesz);
}

static bool read_native(int fd, struct elf_file *file)
{
	struct segments segments = { 0 };
	ElfW(Ehdr) header;
	bool whole = read_at(fd, &header, sizeof(header), 0) &&
		     segments_read(fd, &header, &segments) &&
		     read_interpreter(fd, &segments, file->interpreter) &&
		     read_rpath(fd, &segments, file->rpath);

	if (whole)
		file->is_go = is_go(fd, &segments);
	free(segments.list);
	return whole;
}

/* The first bytes are the same in files of all classes; numbers follow the byte order. */
static unsigned half_at(const unsigned char *bytes, unsigned char data)
{
	return data == ELFDATA2MSB ? bytes[0] << 8 | bytes[1] : bytes[1] << 8 | bytes[0];
}

int elf_file_read(int fd, struct elf_file *file)
{
	unsigned char start[20];
	ssize_t n = pread(fd, start, sizeof(start), 0);
	unsigned type;

	*file = (struct elf_file){ .kind = ELF_NONE };
	if (n < 0)
		return -errno;
	if (n < SELFMAG || memcmp(start, ELFMAG, SELFMAG))
		return 0;
	file->kind = ELF_DAMAGED;
	if (n < (ssize_t)sizeof(start) || start[EI_CLASS] < ELFCLASS32 ||
	    start[EI_CLASS] > ELFCLASS64 || start[EI_DATA] < ELFDATA2LSB ||
	    start[EI_DATA] > ELFDATA2MSB)
		return 0;
	file->class = start[EI_CLASS];
	file->data = start[EI_DATA];
	type = half_at(start + EI_NIDENT, file->data);
	file->machine = half_at(start + EI_NIDENT + 2, file->data);
	if (type != ET_EXEC && type != ET_DYN)
		file->kind = ELF_NO_PROGRAM;
	else if (!elf_file_is_native(file) || read_native(fd, file))
		file->kind = ELF_PROGRAM;
	return 0;
}

/* --- machines --- */

static const struct {
	unsigned machine;
	const char *name;
} machines[] = {
	{ EM_X86_64, "x86-64" },   { EM_386, "i386" },    { EM_AARCH64, "arm64" },
	{ EM_ARM, "arm" },         { EM_RISCV, "riscv" }, { EM_PPC64, "powerpc64" },
	{ EM_S390, "s390" },       { EM_MIPS, "mips" },   { EM_PPC, "powerpc" },
	{ EM_SPARCV9, "sparc64" }, { 258, "loongarch" },
};

const char *elf_file_machine_name(unsigned machine, char *text, size_t size)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
		if (machines[i].machine == machine)
			return machines[i].name;
	snprintf(text, size, "machine %u", machine);
	return text;
}

/* The header of this executable, in memory since the loader mapped it. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

bool elf_file_is_native(const struct elf_file *file)
{
	return file->class == __ehdr_start.e_ident[EI_CLASS] &&
	       file->data == __ehdr_start.e_ident[EI_DATA] &&
	       file->machine == __ehdr_start.e_machine;
}
