/* SPDX-License-Identifier: BSD-2-Clause */
/* The facts of an ELF file that decide whether Verbena's libraries can be loaded into it. */
#ifndef TOOLS_ELF_FILE_H
#define TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { ELF_TEXT_SIZE = 4096 };

enum elf_kind {
	ELF_NONE,       /* another format */
	ELF_PROGRAM,    /* executable, or a shared object that may be one */
	ELF_NO_PROGRAM, /* an object file, a core dump */
	ELF_DAMAGED,    /* its headers lead beyond the end of the file, or contradict each other */
};

struct elf_file {
	enum elf_kind kind;
	unsigned char class, data; /* e_ident: 32 or 64 bit, byte order */
	unsigned machine;
	/* The rest is known for a program of the machine that this command was built for. */
	bool is_go;                      /* the Go linker made it */
	char interpreter[ELF_TEXT_SIZE]; /* the dynamic loader; "": linked statically */
	char rpath[ELF_TEXT_SIZE];       /* DT_RPATH where it counts: without a DT_RUNPATH */
};

/* 0, or -errno: the file cannot be read. Any content is legal. */
int elf_file_read(int fd, struct elf_file *file);

/* Does this command belong to the same machine: class, byte order, instructions? */
bool elf_file_is_native(const struct elf_file *file);
/* "x86-64", or "machine 243" for an unknown one. */
const char *elf_file_machine_name(unsigned machine, char *text, size_t size);

#endif
