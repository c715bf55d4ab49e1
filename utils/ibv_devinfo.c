/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the attributes of the RDMA devices of this host. */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devinfo.h"

enum { TAB = 8, EXIT_BAD = 255, EXIT_NO_PORT = 4 };

static struct {
	const char *device;
	unsigned port; /* 0: all */
	bool list, verbose;
} options;

void devinfo_line(unsigned tabs, unsigned column, const char *name, const char *format, ...)
{
	unsigned at = TAB * tabs + (unsigned)strlen(name) + 1;
	va_list args;

	for (unsigned i = 0; i < tabs; i++)
		putchar('\t');
	printf("%s:", name);
	do
		putchar('\t');
	while ((at = at - at % TAB + TAB) < column);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void devinfo_bits(const struct devinfo_bit *bits, size_t count, uint64_t flags)
{
	for (size_t i = 0; i < count; i++) {
		if (flags & bits[i].bit)
			printf("\t\t\t\t\t%s\n", bits[i].name);
		flags &= ~bits[i].bit;
	}
	if (flags)
		printf("\t\t\t\t\tUnknown flags: 0x%llX\n", (unsigned long long)flags);
}

const char *devinfo_text(const char *const *texts, size_t count, unsigned value,
			 const char *instead)
{
	return value < count && texts[value] ? texts[value] : instead;
}

static const char *transport(const struct ibv_device *device)
{
	static const char *const texts[] = { "InfiniBand", "iWARP", "usNIC", "usNIC UDP",
					     "unspecified" };

	return devinfo_text(texts, sizeof(texts) / sizeof(*texts), (unsigned)device->transport_type,
			    "invalid transport");
}

static void print_guid(const char *name, uint64_t guid)
{
	uint64_t g = be64toh(guid);

	devinfo_line(1, 40, name, "%04x:%04x:%04x:%04x", (unsigned)(g >> 48),
		     (unsigned)(g >> 32 & 0xffff), (unsigned)(g >> 16 & 0xffff),
		     (unsigned)(g & 0xffff));
}

/* The id of the adapter's board, if sysfs has one. */
static void print_board(const struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 16], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/board_id", device->ibdev_path);
	file = device->ibdev_path[0] ? fopen(path, "re") : NULL;
	if (!file)
		return;
	if (fgets(text, sizeof(text), file) && text[strcspn(text, "\n")]) {
		text[strcspn(text, "\n")] = '\0';
		devinfo_line(1, 40, "board_id", "%s", text);
	}
	fclose(file);
}

static void print_device(struct ibv_context *context, const struct ibv_device_attr *attr)
{
	const struct ibv_device *device = context->device;

	printf("hca_id:\t%s\n", device->name);
	devinfo_line(1, 40, "transport", "%s (%d)", transport(device), device->transport_type);
	if (attr->fw_ver[0])
		devinfo_line(1, 40, "fw_ver", "%s", attr->fw_ver);
	print_guid("node_guid", attr->node_guid);
	print_guid("sys_image_guid", attr->sys_image_guid);
	devinfo_line(1, 40, "vendor_id", "0x%04x", attr->vendor_id);
	devinfo_line(1, 40, "vendor_part_id", "%d", attr->vendor_part_id);
	devinfo_line(1, 40, "hw_ver", "0x%X", attr->hw_ver);
	print_board(device);
	devinfo_line(1, 40, "phys_port_cnt", "%d", attr->phys_port_cnt);
}

static int print_ports(struct ibv_context *context, unsigned count)
{
	unsigned first = options.port ? options.port : 1;
	unsigned last = options.port ? options.port : count;

	for (unsigned port = first; port <= last; port++)
		if (devinfo_port(context, port, options.verbose))
			return EXIT_BAD;
	putchar('\n');
	return EXIT_SUCCESS;
}

static int query(struct ibv_context *context, struct ibv_device_attr_ex *attr)
{
	memset(attr, 0, sizeof(*attr));
	/* A device may support ibv_query_device only. */
	if (!ibv_query_device_ex(context, NULL, attr) ||
	    !ibv_query_device(context, &attr->orig_attr))
		return 0;
	fprintf(stderr, "Failed to query device props\n");
	return EXIT_BAD;
}

static int show_queried(struct ibv_context *context, const struct ibv_device_attr_ex *attr)
{
	unsigned ports = attr->phys_port_cnt_ex;

	if (!ports)
		ports = attr->orig_attr.phys_port_cnt;
	if (options.port > ports) {
		fprintf(stderr, "Invalid port requested for device\n");
		return EXIT_NO_PORT;
	}
	print_device(context, &attr->orig_attr);
	if (options.verbose)
		devinfo_device(context, attr);
	return print_ports(context, ports);
}

static int show(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr_ex attr;
	int status;

	if (!context) {
		fprintf(stderr, "Failed to open device %s: %s\n", device->name, strerror(errno));
		return EXIT_BAD;
	}
	status = query(context, &attr);
	if (!status)
		status = show_queried(context, &attr);
	if (ibv_close_device(context)) {
		fprintf(stderr, "Failed to close device\n");
		status = EXIT_BAD;
	}
	return status;
}

static int list_names(struct ibv_device **list, int count)
{
	printf("%d HCA%s found:\n", count, count == 1 ? "" : "s");
	for (int i = 0; i < count; i++)
		printf("\t%s\n", ibv_get_device_name(list[i]));
	putchar('\n');
	return EXIT_SUCCESS;
}

static int show_all(struct ibv_device **list, int count)
{
	int status = EXIT_SUCCESS;
	bool any = false;

	for (int i = 0; i < count; i++) {
		if (options.device && strcmp(ibv_get_device_name(list[i]), options.device))
			continue;
		any = true;
		status |= show(list[i]);
	}
	if (any)
		return status;
	if (options.device)
		fprintf(stderr, "IB device '%s' wasn't found\n", options.device);
	else
		fprintf(stderr, "No IB devices found\n");
	return EXIT_BAD;
}

static void print_usage(const char *name)
{
	fprintf(stderr,
		"Usage: %s             print the ca attributes\n\nOptions:\n"
		"  -d, --ib-dev=<dev>     use IB device <dev> (default: all)\n"
		"  -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n"
		"  -l, --list             print only the IB devices names\n"
		"  -v, --verbose          print all the attributes of the IB device(s)\n",
		name);
}

static bool parse_options(int argc, char **argv)
{
	static const struct option longs[] = { { "ib-dev", required_argument, NULL, 'd' },
					       { "ib-port", required_argument, NULL, 'i' },
					       { "list", no_argument, NULL, 'l' },
					       { "verbose", no_argument, NULL, 'v' },
					       { 0 } };
	int letter;
	char *end;

	while ((letter = getopt_long(argc, argv, "d:i:lv", longs, NULL)) != -1) {
		if (letter == 'd') {
			options.device = optarg;
		} else if (letter == 'i') {
			options.port = (unsigned)strtoul(optarg, &end, 0);
			if (*end || !options.port)
				return false;
		} else if (letter == 'l') {
			options.list = true;
		} else if (letter == 'v') {
			options.verbose = true;
		} else {
			return false;
		}
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	int count, status;

	if (!parse_options(argc, argv)) {
		print_usage(argv[0]);
		return EXIT_BAD;
	}
	list = ibv_get_device_list(&count);
	if (!list) {
		perror("Failed to get IB devices list");
		return EXIT_BAD;
	}
	status = options.list ? list_names(list, count) : show_all(list, count);
	ibv_free_device_list(list);
	return status;
}
