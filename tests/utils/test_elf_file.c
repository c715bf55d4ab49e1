/* SPDX-License-Identifier: BSD-2-Clause */
/* What `verbena run` reads of an ELF file: damaged, hostile and foreign ones. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf_file.h"

enum { KEPT = 1 << 16, ROUNDS = 5000 };

/* The start of this program, and a file to try changes in. */
static unsigned char own[KEPT];
static size_t own_size;

static int read_own(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, own, sizeof(own));

	close(fd);
	own_size = n > 0 ? (size_t)n : 0;
	return n <= 0;
}

static struct elf_file read_bytes(const void *bytes, size_t size)
{
	struct elf_file file;
	int fd = memfd_create("elf", MFD_CLOEXEC);

	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(elf_file_read(fd, &file), 0);
	close(fd);
	assert_non_null(memchr(file.interpreter, '\0', sizeof(file.interpreter)));
	assert_non_null(memchr(file.rpath, '\0', sizeof(file.rpath)));
	return file;
}

static ElfW(Ehdr) own_header(void)
{
	ElfW(Ehdr) header;

	memcpy(&header, own, sizeof(header));
	return header;
}

static void a_program_is_one(void **state)
{
	struct elf_file file;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_file_read(fd, &file), 0);
	close(fd);
	assert_int_equal(file.kind, ELF_PROGRAM);
	assert_true(elf_file_is_native(&file));
	assert_non_null(strstr(file.interpreter, "/ld"));
	assert_false(file.is_go);
}

static void other_files_are_none(void **state)
{
	assert_int_equal(read_bytes("", 0).kind, ELF_NONE);
	assert_int_equal(read_bytes("\177EL", 3).kind, ELF_NONE);
	assert_int_equal(read_bytes("#!/bin/sh\n", 10).kind, ELF_NONE);
}

static void a_short_file_is_damaged(void **state)
{
	for (size_t size = 4; size < sizeof(ElfW(Ehdr)) + sizeof(ElfW(Phdr)); size++)
		assert_int_equal(read_bytes(own, size).kind, ELF_DAMAGED);
}

static void objects_and_cores_are_no_programs(void **state)
{
	ElfW(Ehdr) header = own_header();

	header.e_type = ET_REL;
	assert_int_equal(read_bytes(&header, sizeof(header)).kind, ELF_NO_PROGRAM);
	header.e_type = ET_CORE;
	assert_int_equal(read_bytes(&header, sizeof(header)).kind, ELF_NO_PROGRAM);
}

static void a_foreign_header_is_enough(void **state)
{
	ElfW(Ehdr) header = own_header();
	struct elf_file file;
	char text[32];

	header.e_machine = EM_S390;
	file = read_bytes(&header, sizeof(header));
	assert_int_equal(file.kind, ELF_PROGRAM);
	assert_false(elf_file_is_native(&file));
	assert_string_equal(elf_file_machine_name(file.machine, text, sizeof(text)), "s390");
	header = own_header();
	header.e_ident[EI_CLASS] = ELFCLASS32;
	file = read_bytes(&header, sizeof(header));
	assert_int_equal(file.kind, ELF_PROGRAM);
	assert_false(elf_file_is_native(&file));
	assert_string_equal(elf_file_machine_name(4711, text, sizeof(text)), "machine 4711");
}

/* Each value alone makes the header lead nowhere. */
static void headers_that_lead_nowhere(void **state)
{
	static const uint64_t offsets[] = { UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1,
					    UINT64_C(1) << 40 };
	unsigned char bytes[KEPT];
	ElfW(Ehdr) header;

	memcpy(bytes, own, own_size);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		header = own_header();
		header.e_phoff = (ElfW(Off))offsets[i];
		memcpy(bytes, &header, sizeof(header));
		assert_int_equal(read_bytes(bytes, own_size).kind, ELF_DAMAGED);
	}
	header = own_header();
	header.e_phnum = 0xffff;
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(read_bytes(bytes, own_size).kind, ELF_DAMAGED);
	header = own_header();
	header.e_phentsize = 1;
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(read_bytes(bytes, own_size).kind, ELF_DAMAGED);
}

/* The test is that nothing is read outside; the sanitizers look. */
static void random_damage(void **state)
{
	const ElfW(Ehdr) header = own_header();
	const size_t tables = sizeof(header) + header.e_phnum * sizeof(ElfW(Phdr));
	unsigned char bytes[KEPT];
	unsigned seed = 1;

	for (int i = 0; i < ROUNDS; i++) {
		const size_t size = i % 4 ? own_size : (size_t)rand_r(&seed) % own_size;
		const size_t changes = 1 + (size_t)rand_r(&seed) % 8;

		memcpy(bytes, own, own_size);
		for (size_t k = 0; k < changes; k++)
			bytes[EI_NIDENT + (size_t)rand_r(&seed) % (tables - EI_NIDENT)] =
				rand_r(&seed) % 3 ? (unsigned char)rand_r(&seed) : 0xff;
		read_bytes(bytes, size < 4096 || i % 4 == 0 ? size : 4096);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_is_one),
		cmocka_unit_test(other_files_are_none),
		cmocka_unit_test(a_short_file_is_damaged),
		cmocka_unit_test(objects_and_cores_are_no_programs),
		cmocka_unit_test(a_foreign_header_is_enough),
		cmocka_unit_test(headers_that_lead_nowhere),
		cmocka_unit_test(random_damage),
	};

	return cmocka_run_group_tests(tests, read_own, NULL);
}
