/* SPDX-License-Identifier: BSD-2-Clause */
/* The meaning of the variables of base/environment.h to the libraries. */
#ifndef VB_BASE_CONFIG_H
#define VB_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* VERBENA_EXPLAIN: each failure prints a sentence, on standard error or into a file. Read once. */
bool vb_config_explain(void);
/* The file; NULL: standard error. */
const char *vb_config_explain_file(void);
/* VERBENA_EXPLAIN=hint: a program with failures ends with one line about --explain. */
bool vb_config_explain_hint(void);

/* VERBENA_DEVICES has the word +system: the devices of the host are listed, too. Read once. */
bool vb_config_system(void);

/* VERBENA_PATH: the path of messages, for tests. Read once. */
enum vb_path_choice {
	VB_PATH_AUTO, /* unset: the verdict of the attach decides */
	VB_PATH_WIRE, /* UDP, also within this host and this process */
	VB_PATH_SLOT, /* packets over slot sockets, also where the peer's memory is accessible */
	VB_PATH_SIM,  /* packets through memory of this process */
};
enum vb_path_choice vb_config_path(void);

/* VERBENA_KEYS=distinct: the lkey and the rkey of a region differ. Read once. */
bool vb_config_distinct_keys(void);

/* VERBENA_LANES: the number of lanes (nic/lane.h); 0: unset. */
unsigned vb_config_lanes(void);

/*
 * VERBENA_MAP: whether regions are mapped into peers. Read once. Off beside devices of the host:
 * they have the physical pages of regions, which a mapping changes.
 */
enum vb_map_choice {
	VB_MAP_OFF,    /* never: copies go through the kernel */
	VB_MAP_AUTO,   /* when it pays */
	VB_MAP_ALWAYS, /* at registration, for tests */
};
enum vb_map_choice vb_config_map(void);

/*
 * -EINVAL, and a line on standard error: VERBENA_PATH, VERBENA_KEYS, VERBENA_LANES or VERBENA_MAP
 * has a value that does not exist. No device opens then.
 */
int vb_config_check(void);

/*
 * Prints a line on standard error, with and without VERBENA_EXPLAIN, and returns -EINVAL: a program
 * with other rules or partitions than its user means fails strangely. where: a variable or a file.
 */
int vb_config_refuse(const char *where, const char *why);
/*
 * Reads the text of a file that a variable names. size: room, with the NUL; flags: more flags of
 * open. Errors are refused as above.
 */
int vb_config_read_file(const char *file, int flags, char *text, size_t size);

#endif
