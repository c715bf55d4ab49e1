/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of Wireshark's extcap: Wireshark and tshark start this program for its list of
 * interfaces, and to capture from one of them into a pipe. Each RDMA device is an interface.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "verbena.h"

enum { LINK_ETHERNET = 1 };

struct extcap {
	bool interfaces, dlts, config, capture;
	const char *interface, *fifo;
	uint32_t bytes;
};

static void interface_print(struct ibv_context *context)
{
	const char *name = ibv_get_device_name(context->device);
	char netdev[IF_NAMESIZE];

	printf("interface {value=%s}{display=RDMA device on %s, local path included}\n", name,
	       describe_netdev(context, netdev));
}

static int interfaces_print(void)
{
	printf("extcap {version=%s}{help=man:verbena(1)}\n", VERBENA_VERSION);
	return devices_each(interface_print) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int dlts_print(void)
{
	printf("dlt {number=%d}{name=EN10MB}{display=Ethernet}\n", LINK_ETHERNET);
	return EXIT_SUCCESS;
}

static int config_print(void)
{
	printf("arg {number=0}{call=--bytes}{display=Bytes of payload}"
	       "{tooltip=Bytes of payload to keep of each packet}"
	       "{type=unsigned}{range=0,%d}{default=%d}\n",
	       VB_CAPTURE_ALL, CAPTURE_BYTES);
	return EXIT_SUCCESS;
}

static int capture_to_fifo(const struct extcap *extcap)
{
	const struct capture_options options = { .output = extcap->fifo,
						 .qpn = -1,
						 .device = extcap->interface,
						 .bytes = extcap->bytes,
						 .quiet = true };

	if (!extcap->fifo || !extcap->interface) {
		complain("extcap: --capture needs --extcap-interface and --fifo");
		return EXIT_USAGE;
	}
	return capture_run(&options);
}

bool is_extcap(int argc, char **argv)
{
	return argc > 1 && (!strncmp(argv[1], "--extcap-", 9) || !strcmp(argv[1], "--capture"));
}

static bool option_take(struct extcap *extcap, int letter)
{
	uint64_t bytes;
	bool good;

	switch (letter) {
	case 'I':
		extcap->interfaces = true;
		return true;
	case 'D':
		extcap->dlts = true;
		return true;
	case 'C':
		extcap->config = true;
		return true;
	case 'c':
		extcap->capture = true;
		return true;
	case 'i':
		extcap->interface = optarg;
		return true;
	case 'f':
		extcap->fifo = optarg;
		return true;
	case 'b':
		good = value_number(optarg, 10, VB_CAPTURE_ALL, &bytes);
		extcap->bytes = (uint32_t)bytes;
		return good;
	case 'x':
		return true;
	}
	return false;
}

int verbena_extcap(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "extcap-interfaces", no_argument, NULL, 'I' },
		{ "extcap-dlts", no_argument, NULL, 'D' },
		{ "extcap-config", no_argument, NULL, 'C' },
		{ "capture", no_argument, NULL, 'c' },
		{ "extcap-interface", required_argument, NULL, 'i' },
		{ "fifo", required_argument, NULL, 'f' },
		{ "bytes", required_argument, NULL, 'b' },
		/* Known, and without a meaning here. */
		{ "extcap-version", optional_argument, NULL, 'x' },
		{ "extcap-capture-filter", required_argument, NULL, 'x' },
		{ "extcap-control-in", required_argument, NULL, 'x' },
		{ "extcap-control-out", required_argument, NULL, 'x' },
		{ 0 },
	};
	struct extcap extcap = { .bytes = CAPTURE_BYTES };
	int letter;

	while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (!option_take(&extcap, letter))
			return EXIT_USAGE;
	if (extcap.interfaces)
		return interfaces_print();
	if (extcap.dlts)
		return dlts_print();
	if (extcap.config)
		return config_print();
	return capture_to_fifo(&extcap);
}
