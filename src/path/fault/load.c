/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of this process, from its environment. */
#include "base/log.h"
#include "base/once.h"
#include "path/fault/rule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 65536 };

struct vb_fault_rules vb_fault_rules;
_Atomic bool vb_fault_in_force;

/*
 * Said even without VERBENA_EXPLAIN: who asks for faults and gets none, or other ones, would draw
 * wrong conclusions.
 */
static int complain(const char *where, const char *why)
{
	vb_complain("%.80s: %s", where, why);
	return -EINVAL;
}

static int load_text(const char *where, const char *text)
{
	char why[VB_FAULT_WHY_MAX];

	return vb_fault_parse(text, &vb_fault_rules, why) ? complain(where, why) : 0;
}

static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t part;

	while (used < size && (part = read(fd, text + used, size - used)) != 0) {
		if (part < 0 && errno != EINTR)
			return -errno;
		used += part > 0 ? (size_t)part : 0;
	}
	return (ssize_t)used;
}

static int load_file(const char *path)
{
	char *text = malloc(FILE_BYTES_MAX + 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = -EINVAL;
	ssize_t length = !text ? -ENOMEM : fd < 0 ? -errno : read_all(fd, text, FILE_BYTES_MAX + 1);

	if (length < 0) {
		err = complain(path, strerror((int)-length));
	} else if (length > FILE_BYTES_MAX || memchr(text, '\0', (size_t)length)) {
		err = complain(path, "not a text of at most 64 KiB");
	} else {
		text[length] = '\0';
		err = load_text(path, text);
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return err;
}

static int load(void)
{
	const char *text = secure_getenv("VERBENA_FAULTS");
	const char *path = secure_getenv("VERBENA_FAULTS_FILE");
	int err = text ? load_text("VERBENA_FAULTS", text) : 0;

	if (!err && path && *path)
		err = load_file(path);
	if (!err && vb_fault_rules.count)
		atomic_store(&vb_fault_in_force, true);
	return err;
}

int vb_fault_load(void)
{
	static struct vb_once once = VB_ONCE_INIT;

	return vb_once_load(&once, load);
}

unsigned vb_fault_count(void)
{
	return vb_fault_any() ? vb_fault_rules.count : 0;
}

struct vb_fault_counter vb_fault_counter(unsigned index)
{
	struct vb_fault_rule *rule = &vb_fault_rules.rule[index];

	return (struct vb_fault_counter){ rule->text, atomic_load(&rule->seen),
					  atomic_load(&rule->hits) };
}
