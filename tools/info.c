/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena info: the installation, attributes of devices, limits of this process. */
#include <endian.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/environment.h"
#include "verbena.h"

static const char usage[] = "usage: verbena info\n\n"
			    "Prints the version, the libraries in use, Verbena's environment "
			    "variables, all attributes of\n"
			    "the devices and the resource limits of this process.\n";

static void print_line(const char *name, const char *value)
{
	printf("  %-24s %s\n", name, value);
}

static void print_number(const char *name, uint64_t value)
{
	printf("  %-24s %" PRIu64 "\n", name, value);
}

static void print_guid(const char *name, uint64_t guid)
{
	const uint64_t host = be64toh(guid);

	printf("  %-24s %04x:%04x:%04x:%04x\n", name, (unsigned)(host >> 48),
	       (unsigned)(host >> 32 & 0xffff), (unsigned)(host >> 16 & 0xffff),
	       (unsigned)(host & 0xffff));
}

static void print_device_attr(const struct ibv_device_attr *attr)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "max_qp", (uint64_t)attr->max_qp },
		{ "max_qp_wr", (uint64_t)attr->max_qp_wr },
		{ "max_sge", (uint64_t)attr->max_sge },
		{ "max_cq", (uint64_t)attr->max_cq },
		{ "max_cqe", (uint64_t)attr->max_cqe },
		{ "max_mr", (uint64_t)attr->max_mr },
		{ "max_mr_size", attr->max_mr_size },
		{ "max_mw", (uint64_t)attr->max_mw },
		{ "max_pd", (uint64_t)attr->max_pd },
		{ "max_ah", (uint64_t)attr->max_ah },
		{ "max_srq", (uint64_t)attr->max_srq },
		{ "max_srq_wr", (uint64_t)attr->max_srq_wr },
		{ "max_qp_rd_atom", (uint64_t)attr->max_qp_rd_atom },
		{ "max_qp_init_rd_atom", (uint64_t)attr->max_qp_init_rd_atom },
		{ "max_mcast_grp", (uint64_t)attr->max_mcast_grp },
		{ "max_mcast_qp_attach", (uint64_t)attr->max_mcast_qp_attach },
		{ "max_pkeys", attr->max_pkeys },
	};

	print_line("firmware", attr->fw_ver);
	print_guid("node_guid", attr->node_guid);
	print_guid("sys_image_guid", attr->sys_image_guid);
	printf("  %-24s 0x%x, part 0x%x\n", "vendor", attr->vendor_id, attr->vendor_part_id);
	printf("  %-24s 0x%08x\n", "device_cap_flags", attr->device_cap_flags);
	print_line("atomics",
		   attr->atomic_cap == IBV_ATOMIC_HCA ? "among RDMA operations" : "none");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		print_number(rows[i].name, rows[i].value);
}

static void print_gids(struct ibv_context *context, int count)
{
	char name[16], text[GID_TEXT];
	union ibv_gid gid;

	for (int i = 0; i < count; i++) {
		if (ibv_query_gid(context, 1, i, &gid) || describe_gid_is_empty(&gid))
			continue;
		snprintf(name, sizeof(name), "gid[%d]", i);
		print_line(name, describe_gid(&gid, text));
	}
}

static void print_port(struct ibv_context *context)
{
	struct ibv_port_attr port;
	char netdev[IF_NAMESIZE];

	if (ibv_query_port(context, 1, &port))
		return;
	print_line("link layer", describe_link_layer(&port));
	print_line("interface", describe_netdev(context, netdev));
	print_line("state", port.state == IBV_PORT_ACTIVE ? "active" : "down");
	print_line("active_mtu", describe_mtu(port.active_mtu));
	print_line("max_mtu", describe_mtu(port.max_mtu));
	print_number("max_msg_sz", port.max_msg_sz);
	print_number("lid", port.lid);
	print_number("gid_tbl_len", (uint64_t)port.gid_tbl_len);
	print_gids(context, port.gid_tbl_len);
}

static void print_device(struct ibv_context *context)
{
	struct ibv_device_attr attr;

	printf("\ndevice %s\n", ibv_get_device_name(context->device));
	if (!ibv_query_device(context, &attr))
		print_device_attr(&attr);
	print_number("completion vectors", (uint64_t)context->num_comp_vectors);
	printf(" port 1\n");
	print_port(context);
}

static void print_limit(const char *name, int resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		print_line(name, "unlimited");
	else
		print_number(name, limit.rlim_cur);
}

static void print_environment(void)
{
	for (int i = 0; i < VB_ENV_OURS; i++) {
		const struct vb_environment_row *row = &vb_environment_rows[i];
		const char *value = vb_environment(i);

		if (value)
			print_line(row->name, value);
		else
			printf("  %-24s (not set: %s)\n", row->name, row->otherwise);
	}
}

int verbena_info(int argc, char **argv)
{
	char directory[PATH_SIZE], profile[PROFILE_TEXT];
	int status;

	if (options_end(argc, argv, usage, &status))
		return status;
	printf("verbena %s\n", VERBENA_VERSION);
	print_line("libraries", libdir_find(directory) ? directory : "not found");
	print_line("libibverbs in use", libdir_loaded());
	print_environment();
	if (profile_describe(profile))
		print_line("acts as", profile);
	printf("\nlimits of this process\n");
	print_limit("open files", RLIMIT_NOFILE);
	print_limit("address space", RLIMIT_AS);
	print_limit("file size", RLIMIT_FSIZE);
	print_limit("locked memory", RLIMIT_MEMLOCK);
	if (!libdir_loaded_is_ours()) {
		complain("the libibverbs in use is not Verbena's");
		return EXIT_FAILURE;
	}
	return devices_each(print_device) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
