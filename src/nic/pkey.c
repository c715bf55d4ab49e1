/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/pkey.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/environment.h"
#include "base/once.h"
#include "nic/fact.h"

enum { FILE_BYTES_MAX = 4096 };

_Atomic uint16_t vb_pkeys[VB_PKEYS_MAX] = { VB_PKEY_DEFAULT };
static unsigned table_length = 1; /* written by vb_pkey_load, once */
static char file[PATH_MAX];       /* likewise; empty: none */

/* --- the table --- */

unsigned vb_pkey_table_length(void)
{
	return table_length;
}

int vb_pkey_index(uint16_t pkey)
{
	for (unsigned i = 0; i < table_length; i++)
		if (vb_pkey_at(i) == pkey)
			return (int)i;
	return -EINVAL;
}

static bool is_same_partition(uint16_t a, uint16_t b)
{
	return a & VB_PKEY_PARTITION && !((a ^ b) & VB_PKEY_PARTITION);
}

int vb_pkey_index_of(uint16_t pkey)
{
	int limited = -EINVAL;

	for (unsigned i = 0; i < table_length; i++) {
		const uint16_t own = vb_pkey_at(i);

		if (!is_same_partition(own, pkey))
			continue;
		if (own & VB_PKEY_FULL)
			return (int)i;
		limited = limited < 0 ? (int)i : limited;
	}
	return limited;
}

static bool table_replace(const uint16_t keys[VB_PKEYS_MAX])
{
	bool changed = false;

	for (unsigned i = 0; i < VB_PKEYS_MAX; i++)
		changed |= atomic_exchange(&vb_pkeys[i], keys[i]) != keys[i];
	return changed;
}

/* --- the text --- */

static bool is_between(char c)
{
	return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int refuse_key(char why[VB_PKEY_WHY_MAX], const char *key, size_t length,
		      const char *problem)
{
	snprintf(why, VB_PKEY_WHY_MAX, "'%.*s' %s", (int)(length < 32 ? length : 32), key, problem);
	return -EINVAL;
}

static int parse_key(const char *text, size_t length, uint16_t *key, char why[VB_PKEY_WHY_MAX])
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (end != text + length || *text == '-' || *text == '+' || errno || value > UINT16_MAX)
		return refuse_key(why, text, length, "is no P_Key: a number up to 0xffff");
	if (!(value & VB_PKEY_PARTITION))
		return refuse_key(why, text, length, "names no partition: its lower 15 bits are 0");
	*key = (uint16_t)value;
	return 0;
}

int vb_pkey_parse(const char *text, uint16_t keys[VB_PKEYS_MAX], unsigned *count,
		  char why[VB_PKEY_WHY_MAX])
{
	*count = 0;
	memset(keys, 0, VB_PKEYS_MAX * sizeof(*keys));
	for (;;) {
		size_t length = 0;

		while (is_between(*text))
			text++;
		if (!*text)
			break;
		while (text[length] && !is_between(text[length]))
			length++;
		if (*count == VB_PKEYS_MAX)
			return refuse_key(why, text, length,
					  "is one P_Key more than the table has entries");
		if (parse_key(text, length, &keys[(*count)++], why))
			return -EINVAL;
		text += length;
	}
	if (!*count)
		snprintf(why, VB_PKEY_WHY_MAX, "there is no P_Key");
	return *count ? 0 : -EINVAL;
}

/* --- its sources: environment and file --- */

static int load_text(const char *where, const char *text, unsigned *count, bool *changed)
{
	uint16_t keys[VB_PKEYS_MAX];
	char why[VB_PKEY_WHY_MAX];

	if (vb_pkey_parse(text, keys, count, why))
		return vb_config_refuse(where, why);
	if (*count > vb_fact(VB_FACT_PKEY_TBL_LEN))
		return vb_config_refuse(where, "more P_Keys than the profile of VERBENA_AS has");
	*changed = table_replace(keys);
	return 0;
}

static int load_file(const char *path, bool *changed)
{
	char text[FILE_BYTES_MAX + 1];
	unsigned count;
	/* O_NONBLOCK, because the service thread reads the file again and must not wait. */
	int err = vb_config_read_file(path, O_NONBLOCK, text, sizeof(text));

	return err ? err : load_text(path, text, &count, changed);
}

static int load_named(const char *path, bool *changed)
{
	if (realpath(path, file))
		return load_file(file, changed);
	*file = '\0';
	return vb_config_refuse(path, strerror(errno));
}

/* A file may grow, so its table always has the full length. */
static int load_environment(void)
{
	const char *text = vb_environment_text(VB_ENV_PKEYS);
	const char *path = vb_environment_text(VB_ENV_PKEYS_FILE);
	unsigned count = 1;
	bool changed;
	int err = 0;

	if (path)
		err = load_named(path, &changed);
	else if (text)
		err = load_text(vb_environment_rows[VB_ENV_PKEYS].name, text, &count, &changed);
	if (!err)
		table_length = *file ? vb_fact_u32(VB_FACT_PKEY_TBL_LEN) : count;
	return err;
}

int vb_pkey_load(void)
{
	static struct vb_once once = VB_ONCE_INIT;

	return vb_once_load(&once, load_environment);
}

const char *vb_pkey_file(void)
{
	return *file ? file : NULL;
}

bool vb_pkey_reload(void)
{
	bool changed = false;

	return *file && !load_file(file, &changed) && changed;
}
