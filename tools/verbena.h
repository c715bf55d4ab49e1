/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbena command: one file per subcommand, each with a function here. */
#ifndef VERBENA_H
#define VERBENA_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { EXIT_USAGE = 2, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* argv[0] is the name of the subcommand. Each returns the exit status. */
int verbena_run(int argc, char **argv);
int verbena_devices(int argc, char **argv);
int verbena_info(int argc, char **argv);
int verbena_resources(int argc, char **argv);
int verbena_capture(int argc, char **argv);
int verbena_why(int argc, char **argv);
int verbena_doctor(int argc, char **argv);
int verbena_top(int argc, char **argv);
int verbena_trace(int argc, char **argv);

/* Wireshark calls this program, by its own options (capture_extcap.c). */
bool is_extcap(int argc, char **argv);
int verbena_extcap(int argc, char **argv);

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * For subcommands without arguments. True: exit with *status, after --help (the usage on standard
 * output) or an unknown argument.
 */
bool options_end(int argc, char **argv, const char *usage, int *status);

/* --- values of options: values.c; false: the text is no such value --- */

/* A number up to most, without a sign. base 0: 0x... is hexadecimal. */
bool value_number(const char *text, int base, uint64_t most, uint64_t *number);
bool value_pid(const char *text, pid_t *pid);
bool value_seconds(const char *text, double *seconds); /* more than 0, and finite */

/* --- target.c --- */

/* False, and a sentence: it does not exist, or has ended. */
bool process_is_there(const char *tool, pid_t pid);

/* --- words that do not exist: nearest.c --- */

/* Looks for the word that is nearest to a given one, among those that are offered. */
struct nearest {
	char given[32], word[32]; /* word: empty if none is near */
	unsigned distance;
};
void nearest_begin(struct nearest *nearest, const char *given);
void nearest_offer(struct nearest *nearest, const char *word);
/* Complains of an option, and names the nearest one of the usage. Returns EXIT_USAGE. */
int option_unknown(const char *command, const char *given, const char *usage);
/* The same of what getopt_long has answered '?' or ':' to. opterr is 0, and the letters of short
 * options begin with ':'. */
void option_refused(const char *command, int letter, char **argv, const char *usage);

/* Puts the words of --check=WORDS into the environment; NULL: none. False after a complaint. */
bool check_choose(const char *words);

/* --- finding the libraries: libdir.c --- */

enum { PATH_SIZE = 4096 };
/* The directory of our libraries, relative to this executable; false after a complaint. */
bool libdir_find(char directory[PATH_SIZE]);
/* A file of share/verbena, likewise; false: it is not there. */
bool share_find(const char *name, char path[PATH_SIZE]);
/* The file of the libibverbs that this process runs with. */
const char *libdir_loaded(void);
/* That file is in the directory that libdir_find gives. */
bool libdir_loaded_is_ours(void);

/* --- tools that watch programs: run_tools.c --- */

/* Sets the variables that make them know our libraries. False: out of memory. */
bool tools_prepare(void);

/* --- profiles of other devices: profile.c --- */

/* Makes the program's device act as this one: a name or a file. False after a complaint. */
bool profile_choose(const char *name);
/* The profile that this process has; false: none. */
enum { PROFILE_TEXT = 192 };
bool profile_describe(char text[PROFILE_TEXT]);

/* --- devices as text: describe.c --- */

enum { GID_TEXT = 46 };
const char *describe_gid(const union ibv_gid *gid, char text[GID_TEXT]);
bool describe_gid_is_empty(const union ibv_gid *gid);
const char *describe_link_layer(const struct ibv_port_attr *port);
const char *describe_mtu(enum ibv_mtu mtu);
/* The interface of a device's GIDs; "-": there is none. */
const char *describe_netdev(struct ibv_context *context, char name[IF_NAMESIZE]);

/* True: the device is one of the system's own library (VERBENA_DEVICES=+system). */
bool device_is_systems(const struct ibv_device *device);
/*
 * Opens every device of Verbena and calls each for it. Returns their number, or -1 after a
 * complaint if the list cannot be read or a device cannot be opened.
 */
int devices_each(void (*each)(struct ibv_context *context));
/* Calls each for the devices of the system, which are not opened. Returns their number. */
int devices_each_system(void (*each)(const struct ibv_device *device));

#endif
