/* SPDX-License-Identifier: BSD-2-Clause */
/* Can Verbena's libraries get into this ELF file? Each check that fails has its sentence. */
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/capability.h>

#include "elf_file.h"
#include "program.h"

bool verdict_refuse(const struct verdict *verdict, const char *format, ...)
{
	const bool itself = !strcmp(verdict->asked, verdict->path);
	char reason[2 * PATH_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (itself)
		complain("%s %s, or run it without Verbena by --anyway", verdict->path, reason);
	else
		complain("%s is run by %s, which %s, or run it without Verbena by --anyway",
			 verdict->asked, verdict->path, reason);
	return false;
}

/* --- rights: the loader ignores both variables for a program that gains some --- */

static bool gains_an_id(const struct stat *info)
{
	return ((info->st_mode & S_ISUID) && info->st_uid != getuid()) ||
	       ((info->st_mode & S_ISGID) && (info->st_mode & S_IXGRP) && info->st_gid != getgid());
}

/* Root has all capabilities anyway. */
static bool gains_capabilities(int fd)
{
	struct vfs_ns_cap_data data = { 0 };
	ssize_t size = fgetxattr(fd, "security.capability", &data, sizeof(data));
	uint32_t bits = 0;

	if (getuid() == 0 || size < (ssize_t)sizeof(data.magic_etc))
		return false;
	for (int i = 0; i < VFS_CAP_U32; i++)
		bits |= data.data[i].permitted | data.data[i].inheritable;
	return bits || (le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE);
}

static bool rights_are_ignored(int fd)
{
	struct statvfs mount;

	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	       (!fstatvfs(fd, &mount) && (mount.f_flag & ST_NOSUID));
}

static bool allows_rights(const struct verdict *verdict)
{
	struct stat info;

	if (fstat(verdict->fd, &info) || rights_are_ignored(verdict->fd))
		return true;
	if (gains_an_id(&info))
		return verdict_refuse(
			verdict, "is set-user-ID or set-group-ID, so that the dynamic loader "
				 "ignores LD_LIBRARY_PATH and LD_PRELOAD; use 'verbena run' as "
				 "the user that it becomes");
	if (gains_capabilities(verdict->fd))
		return verdict_refuse(verdict, "has file capabilities, so that the dynamic loader "
					       "ignores LD_LIBRARY_PATH and LD_PRELOAD; use a copy "
					       "without them, as root if need be");
	return true;
}

/* --- machine and C library --- */

static bool read_own_file(struct elf_file *own)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : elf_file_read(fd, own);

	if (fd >= 0)
		close(fd);
	return !err && own->kind == ELF_PROGRAM;
}

static unsigned bits_of(const struct elf_file *file)
{
	return file->class == ELFCLASS64 ? 64 : 32;
}

static bool allows_machine(const struct verdict *verdict, const struct elf_file *file,
			   const struct elf_file *own)
{
	char text[32], own_text[32];

	if (elf_file_is_native(file))
		return true;
	return verdict_refuse(
		verdict,
		"is a program of %u bits for %s, and Verbena's libraries have %u bits "
		"for %s; build it for this machine",
		bits_of(file), elf_file_machine_name(file->machine, text, sizeof(text)),
		bits_of(own), elf_file_machine_name(own->machine, own_text, sizeof(own_text)));
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The loader itself has no interpreter: ld.so PROGRAM. */
static bool allows_linking(const struct verdict *verdict, const struct elf_file *file,
			   const struct elf_file *own)
{
	if (*file->interpreter || is_same_file(verdict->path, own->interpreter))
		return true;
	if (file->is_go)
		return verdict_refuse(verdict,
				      "is a static Go program, which cannot load Verbena's "
				      "libraries; build it with CGO_ENABLED=1 and a dynamic "
				      "libibverbs");
	return verdict_refuse(verdict, "is linked statically and cannot load Verbena's libraries; "
				       "link it without -static");
}

static bool allows_libc(const struct verdict *verdict, const struct elf_file *file,
			const struct elf_file *own)
{
	const char *theirs = base_name(file->interpreter);

	if (!*file->interpreter || !strcmp(theirs, base_name(own->interpreter)) ||
	    is_same_file(file->interpreter, own->interpreter))
		return true;
	return verdict_refuse(verdict,
			      "uses %s, the loader of another C library%s, and Verbena's libraries "
			      "need %s; build it for that C library",
			      file->interpreter, strncmp(theirs, "ld-musl-", 8) ? "" : " (musl)",
			      own->interpreter);
}

/* --- DT_RPATH, which comes before LD_LIBRARY_PATH --- */

/* Replaces $ORIGIN, the directory of the program; other names of the loader are left alone. */
static bool expand_origin(const char *program, const char *entry, size_t length,
			  char path[PATH_SIZE])
{
	static const char *const names[] = { "${ORIGIN}", "$ORIGIN" };
	char origin[PATH_SIZE];

	if (!realpath(program, origin))
		return false;
	*strrchr(origin, '/') = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const size_t named = strlen(names[i]);

		if (length >= named && !memcmp(entry, names[i], named))
			return snprintf(path, PATH_SIZE, "%s%.*s", origin, (int)(length - named),
					entry + named) < PATH_SIZE;
	}
	return length && snprintf(path, PATH_SIZE, "%.*s", (int)length, entry) < PATH_SIZE;
}

/* The directory has a libibverbs or librdmacm that is not ours: its path goes to found. */
static bool has_foreign_library(const char *directory, const char *libdir,
				char found[PATH_SIZE + 32])
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1" };
	char ours[PATH_SIZE + 32];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(found, PATH_SIZE + 32, "%s/%s", directory, names[i]);
		snprintf(ours, sizeof(ours), "%s/%s", libdir, names[i]);
		if (!access(found, F_OK) && !is_same_file(found, ours))
			return true;
	}
	return false;
}

static bool allows_rpath(const struct verdict *verdict, const struct elf_file *file)
{
	char directory[PATH_SIZE], found[PATH_SIZE + 32];

	for (const char *entry = file->rpath; *entry;) {
		const size_t length = strcspn(entry, ":");

		if (expand_origin(verdict->path, entry, length, directory) &&
		    has_foreign_library(directory, verdict->libdir, found))
			return verdict_refuse(verdict,
					      "finds %s by its DT_RPATH, which comes before "
					      "LD_LIBRARY_PATH; link it with "
					      "-Wl,--enable-new-dtags or without that path",
					      found);
		entry += length + (entry[length] == ':');
	}
	return true;
}

/* --- the whole --- */

bool verdict_allows(const struct verdict *verdict)
{
	struct elf_file file, own;

	if (elf_file_read(verdict->fd, &file) || !read_own_file(&own))
		return true; /* the kernel decides */
	if (file.kind == ELF_DAMAGED)
		return verdict_refuse(verdict, "is a damaged ELF file, whose headers do not fit "
					       "together; build or copy it again");
	if (file.kind == ELF_NO_PROGRAM)
		return verdict_refuse(verdict, "is an object file or a core dump, not a program; "
					       "name the program");
	return allows_machine(verdict, &file, &own) && allows_rights(verdict) &&
	       allows_linking(verdict, &file, &own) && allows_libc(verdict, &file, &own) &&
	       allows_rpath(verdict, &file);
}
