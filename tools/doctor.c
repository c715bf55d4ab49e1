/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena doctor: the list of checks, and the printing of findings. */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "verbena.h"

static const char usage[] =
	"usage: verbena doctor\n\n"
	"Tries the features of this machine that Verbena needs. Each line says ok, warn or fail;\n"
	"the line below it says what to do. The exit status is 0 if nothing fails.\n";

static unsigned verdicts[3]; /* counts, by enum verdict */

void report(enum verdict verdict, const char *subject, const char *format, ...)
{
	static const char *const words[] = { "ok", "warn", "fail" };
	va_list args;

	verdicts[verdict]++;
	printf("%-5s %-18s ", words[verdict], subject);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout); /* the child of a check that forks would print it again */
}

void advise(const char *format, ...)
{
	va_list args;

	printf("%-5s %-18s -> ", "", "");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static void check_libraries(void)
{
	if (libdir_loaded_is_ours()) {
		report(VERDICT_OK, "libraries", "%s", libdir_loaded());
		return;
	}
	report(VERDICT_FAIL, "libraries", "libibverbs is %s, which is not Verbena's",
	       libdir_loaded());
	advise("look at LD_LIBRARY_PATH; build with 'make', or install again");
}

static bool reaches_others;

static void look_at_interface(struct ibv_context *context)
{
	char name[IF_NAMESIZE];

	describe_netdev(context, name);
	reaches_others |= strcmp(name, "lo") != 0 && strcmp(name, "-") != 0;
}

static void ignore_system(const struct ibv_device *device)
{
	(void)device;
}

/* What VERBENA_DEVICES=+system asks for. */
static void check_system(void)
{
	int count;

	if (!vb_environment_has(VB_ENV_DEVICES, VB_WORD_SYSTEM))
		return;
	count = devices_each_system(ignore_system);
	if (count) {
		report(VERDICT_OK, "system devices", "%d, by the system's own libraries", count);
		return;
	}
	report(VERDICT_WARN, "system devices", "none, although VERBENA_DEVICES has +system");
	advise("the host needs an RDMA device (rdma link), and rdma-core's libibverbs; with "
	       "--explain programs say which is missing");
}

static void check_devices(void)
{
	const int result = try_devices();
	int count = 0;

	if (result) {
		report(VERDICT_FAIL, "devices", "cannot be opened: %s", probe_text(result));
		advise("see the other findings");
		return;
	}
	count = devices_each(look_at_interface);
	if (count && !reaches_others) {
		report(VERDICT_WARN, "devices",
		       "%d, all on the loopback interface: no other host can be reached", count);
		advise("give an interface an address and bring it up, or name one in "
		       "VERBENA_DEVICES");
	} else if (count) {
		report(VERDICT_OK, "devices", "%d, see 'verbena devices'", count);
	} else {
		report(VERDICT_FAIL, "devices", "none");
		advise("VERBENA_DEVICES names no interface of this host: unset it");
	}
}

static void (*const checks[])(void) = {
	check_libraries,   check_yama,    check_seccomp,     check_capabilities,
	check_dumpable,    check_netlink, check_environment, check_profile,
	check_devices,     check_system,  check_memfd,       check_abstract_socket,
	check_peer_memory, check_mapping, check_namespaces,  check_limits,
	check_buffers,     check_port,
};

int verbena_doctor(int argc, char **argv)
{
	int status;

	if (options_end(argc, argv, usage, &status))
		return status;
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++)
		checks[i]();
	printf("\n%u ok, %u warnings, %u failures\n", verdicts[VERDICT_OK], verdicts[VERDICT_WARN],
	       verdicts[VERDICT_FAIL]);
	return verdicts[VERDICT_FAIL] ? EXIT_FAILURE : EXIT_SUCCESS;
}
