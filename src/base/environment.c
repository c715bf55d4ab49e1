/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

const struct vb_environment_row vb_environment_rows[VB_ENV_COUNT] = {
	[VB_ENV_DEVICES] = { "VERBENA_DEVICES",
			     "interfaces that have devices, in order; ib; +system",
			     .otherwise = "the interface of the default route, and ib" },
	[VB_ENV_SYSTEM_LIBDIR] = { "VERBENA_SYSTEM_LIBDIR",
				   "where +system finds the system's RDMA libraries",
				   .otherwise = "as ldconfig says", .page = "verbena(1)" },
	[VB_ENV_AS] = { "VERBENA_AS", "a file with the facts of the device to act as",
			.otherwise = "Verbena's own", .page = "verbena-profiles(7)" },
	[VB_ENV_EXPLAIN] = { "VERBENA_EXPLAIN", "a sentence for each failure: 1, or a file",
			     .otherwise = "0" },
	[VB_ENV_TRACE] = { "VERBENA_TRACE", "the trace that verbena run --trace writes",
			   .otherwise = "none" },
	[VB_ENV_CHECK] = { "VERBENA_CHECK",
			   "how run --check reports: warn, a file, rules to leave out",
			   .otherwise = "standard error, status 66", .page = "verbena-check(7)" },
	[VB_ENV_PATH] = { "VERBENA_PATH", "which way messages go", .otherwise = "auto",
			  .values = { [VB_PATH_AUTO] = "auto",
				      [VB_PATH_WIRE] = "wire",
				      [VB_PATH_SLOT] = "slot",
				      [VB_PATH_SIM] = "sim" },
			  .page = "verbena(7)" },
	[VB_ENV_KEYS] = { "VERBENA_KEYS", "whether lkey and rkey of a region differ",
			  .otherwise = "equal", .values = { "equal", "distinct" },
			  .page = "verbena(7)" },
	[VB_ENV_LANES] = { "VERBENA_LANES", "how many lanes packets may take: 1 to 16",
			   .otherwise = "the CPUs that the process may use, at most 16",
			   .page = "verbena(7)" },
	[VB_ENV_MAP] = { "VERBENA_MAP", "whether regions are mapped into peers", .otherwise = "off",
			 .values = { [VB_MAP_OFF] = "off",
				     [VB_MAP_AUTO] = "auto",
				     [VB_MAP_ALWAYS] = "always" },
			 .page = "verbena(7)" },
	[VB_ENV_FAULTS] = { "VERBENA_FAULTS", "rules that make packets and work requests fail",
			    .otherwise = "none", .page = "verbena-faults(7)" },
	[VB_ENV_FAULTS_FILE] = { "VERBENA_FAULTS_FILE",
				 "a file of rules that make packets and work requests fail",
				 .otherwise = "none", .page = "verbena-faults(7)" },
	[VB_ENV_ADVERSARY] = { "VERBENA_ADVERSARY",
			       "the seed of an adapter that uses every freedom it has",
			       .otherwise = "none", .page = "verbena-adversary(7)" },
	[VB_ENV_PKEYS] = { "VERBENA_PKEYS", "the P_Keys of the port", .otherwise = "0xffff",
			   .page = "verbena(7)" },
	[VB_ENV_PKEYS_FILE] = { "VERBENA_PKEYS_FILE",
				"a file with the P_Keys of the port, which may change",
				.otherwise = "none", .page = "verbena(7)" },
	[VB_ENV_SOCKETS_WAIT_MS] = { "VERBENA_SOCKETS_WAIT_MS",
				     "how long run --sockets waits for RDMA before TCP",
				     .otherwise = "1000" },

	[VB_ENV_FORK_SAFE] = { "RDMAV_FORK_SAFE", "run --sockets: listeners stay TCP",
			       .otherwise = "0" },
	[VB_ENV_RS_SQ_SIZE] = { "RS_SQ_SIZE", "run --sockets: depth of send queues",
				.otherwise = "as /etc/rdma/rsocket says" },
	[VB_ENV_RS_RQ_SIZE] = { "RS_RQ_SIZE", "run --sockets: depth of receive queues",
				.otherwise = "as /etc/rdma/rsocket says" },
	[VB_ENV_RS_INLINE] = { "RS_INLINE", "run --sockets: bytes that are sent inline",
			       .otherwise = "as /etc/rdma/rsocket says" },
	[VB_ENV_SYSFS_PATH] = { "SYSFS_PATH", "what ibv_get_sysfs_path answers",
				.otherwise = "/sys" },
	[VB_ENV_LOG_LEVEL] = { "VERBS_LOG_LEVEL", "what libraries of vendors log: 0 to 4",
			       .otherwise = "0" },
	[VB_ENV_LOG_FILE] = { "VERBS_LOG_FILE", "where libraries of vendors log",
			      .otherwise = "standard error" },
	[VB_ENV_RUNTIME_DIR] = { "XDG_RUNTIME_DIR", "where the files of a device may be",
				 .otherwise = "/dev/shm" },
	[VB_ENV_TMPDIR] = { "TMPDIR", "where the files of a device may be, too",
			    .otherwise = "/tmp" },
	[VB_ENV_NO_COLOR] = { "NO_COLOR", "sentences have no colours on a terminal",
			      .otherwise = "colours" },
	[VB_ENV_TERM] = { "TERM", "dumb: sentences have no colours, too", .otherwise = "colours" },
};

const char *vb_environment(enum vb_variable variable)
{
	return secure_getenv(vb_environment_rows[variable].name);
}

const char *vb_environment_text(enum vb_variable variable)
{
	const char *text = vb_environment(variable);

	return text && *text ? text : NULL;
}

bool vb_environment_flag(enum vb_variable variable)
{
	const char *text = vb_environment_text(variable);

	return text && strcmp(text, "0") != 0;
}

int vb_environment_number(enum vb_variable variable)
{
	const char *text = vb_environment_text(variable);

	return atoi(text ? text : vb_environment_rows[variable].otherwise);
}

bool vb_environment_has(enum vb_variable variable, const char *word)
{
	static const char between[] = ", \t";
	const char *list = vb_environment(variable);
	size_t length;

	for (; list && *list; list += length) {
		list += strspn(list, between);
		length = strcspn(list, between);
		if (length == strlen(word) && !memcmp(list, word, length))
			return true;
	}
	return false;
}

int vb_environment_choice(enum vb_variable variable)
{
	const struct vb_environment_row *row = &vb_environment_rows[variable];
	const char *text = vb_environment_text(variable);

	for (int i = 0; text && i < VB_ENV_VALUES_MAX && row->values[i]; i++)
		if (!strcmp(text, row->values[i]))
			return i;
	return text ? -EINVAL : 0;
}
