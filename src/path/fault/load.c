/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of this process, from its environment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/adversary.h"
#include "base/config.h"
#include "base/environment.h"
#include "base/once.h"
#include "path/fault/rule.h"

enum { FILE_BYTES_MAX = 65536 };

struct vb_fault_rules vb_fault_rules;
_Atomic bool vb_fault_in_force;

static int load_text(const char *where, const char *text)
{
	char why[VB_FAULT_WHY_MAX];

	return vb_fault_parse(text, &vb_fault_rules, why) ? vb_config_refuse(where, why) : 0;
}

static int load_file(const char *path)
{
	char *text = malloc(FILE_BYTES_MAX + 1);
	int err = text ? vb_config_read_file(path, 0, text, FILE_BYTES_MAX + 1)
		       : vb_config_refuse(path, strerror(ENOMEM));

	if (!err)
		err = load_text(path, text);
	free(text);
	return err;
}

static int rules_load(void)
{
	const char *text = vb_environment_text(VB_ENV_FAULTS);
	const char *path = vb_environment_text(VB_ENV_FAULTS_FILE);
	int err = text ? load_text(vb_environment_rows[VB_ENV_FAULTS].name, text) : 0;

	if (!err && path)
		err = load_file(path);
	if (!err)
		err = vb_adversary_load();
	if (!err && (vb_fault_rules.count || vb_adversary_on()))
		atomic_store(&vb_fault_in_force, true);
	return err;
}

int vb_fault_load(void)
{
	static struct vb_once once = VB_ONCE_INIT;

	return vb_once_load(&once, rules_load);
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
