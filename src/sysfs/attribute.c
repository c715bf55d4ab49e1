/* SPDX-License-Identifier: BSD-2-Clause */
/* The formats are those of the kernel's Documentation/ABI/stable/sysfs-class-infiniband. */
#include "sysfs/attribute.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/port_text.h"

/* Writes the line into text, and returns its length or -errno. */
typedef int (*line_fn)(const struct vb_adapter *adapter, unsigned index, char *text);

#define LINE(...) snprintf(text, VB_ATTRIBUTE_SIZE, __VA_ARGS__)

/* --- the device --- */

static int print_guid(uint64_t guid, char *text)
{
	uint16_t part[4];

	memcpy(part, &guid, sizeof(part));
	return LINE("%04x:%04x:%04x:%04x\n", ntohs(part[0]), ntohs(part[1]), ntohs(part[2]),
		    ntohs(part[3]));
}

static int node_guid(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return print_guid(adapter->attr.node_guid, text);
}

static int sys_image_guid(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return print_guid(adapter->attr.sys_image_guid, text);
}

static int node_type(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%d: CA\n", IBV_NODE_CA);
}

static int node_desc(const struct vb_adapter *adapter, unsigned index, char *text)
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	return LINE("%s %s\n", host, adapter->name);
}

static int fw_ver(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%s\n", adapter->attr.fw_ver);
}

static int hw_rev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%x\n", adapter->attr.hw_ver);
}

static int hca_type(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("Verbena\n");
}

static int node_ibdev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%s\n", adapter->name);
}

static int uverbs_abi(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%d\n", VB_UVERBS_ABI);
}

static int uverbs_dev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%d:%u\n", VB_UVERBS_MAJOR, VB_UVERBS_MINOR + adapter->index);
}

/* --- nodes for MADs --- */

static int mad_port(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("1\n");
}

static int umad_dev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%d:%u\n", VB_UVERBS_MAJOR, adapter->index);
}

static int issm_dev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	return LINE("%d:%u\n", VB_UVERBS_MAJOR, VB_ISSM_MINOR + adapter->index);
}

/* Programs pin their threads by this number, so it is that of the interface's adapter. */
static int numa_node(const struct vb_adapter *adapter, unsigned index, char *text)
{
	char path[64 + IF_NAMESIZE];
	FILE *file;
	int node = -1;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", adapter->netdev);
	file = *adapter->netdev ? fopen(path, "re") : NULL;
	if (file) {
		if (fscanf(file, "%d", &node) != 1)
			node = -1;
		fclose(file);
	}
	return LINE("%d\n", node);
}

/* --- tables --- */

static int gid(const struct vb_adapter *adapter, unsigned index, char *text)
{
	union ibv_gid value;

	vb_adapter_gid(adapter, index, &value);
	return vb_port_print_gid(&value, text, VB_ATTRIBUTE_SIZE);
}

static int gid_type(const struct vb_adapter *adapter, unsigned index, char *text)
{
	struct ibv_gid_entry entry;

	if (vb_adapter_gid_entry(adapter, index, &entry))
		return -EINVAL;
	return LINE("%s\n", entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

static int gid_ndev(const struct vb_adapter *adapter, unsigned index, char *text)
{
	struct ibv_gid_entry entry;
	char netdev[IF_NAMESIZE];

	if (vb_adapter_gid_entry(adapter, index, &entry) || !entry.ndev_ifindex ||
	    !if_indextoname(entry.ndev_ifindex, netdev))
		return -EINVAL;
	return LINE("%s\n", netdev);
}

static int pkey(const struct vb_adapter *adapter, unsigned index, char *text)
{
	uint16_t value;

	if (vb_adapter_pkey(adapter, index, &value))
		return -EINVAL;
	return LINE("0x%04x\n", value);
}

/* --- the port --- */

static int port_line(const struct vb_adapter *adapter, unsigned which, char *text)
{
	return vb_port_print((enum vb_port_line)which, &adapter->port, text, VB_ATTRIBUTE_SIZE);
}

/* --- the list --- */

enum table { ALONE, GIDS, PKEYS, INFINIBAND }; /* the last: a file of InfiniBand ports only */

struct attribute {
	const char *directory; /* $ is the device, # its uverbs node, @ its number */
	const char *file;      /* NULL: one file for each index of the table */
	line_fn line;
	enum table table;
	unsigned index; /* the argument of line, for an attribute without a table */
};

#define DEVICE "infiniband/$"
#define UVERBS "infiniband_verbs/#"
#define PORT   "infiniband/$/ports/1"
#define UMAD   "infiniband_mad/umad@"
#define ISSM   "infiniband_mad/issm@"

static const struct attribute attributes[] = {
	{ "", "numa_node", numa_node },
	{ UVERBS, "ibdev", node_ibdev },
	{ UVERBS, "abi_version", uverbs_abi },
	{ UVERBS, "dev", uverbs_dev },
	{ UMAD, "ibdev", node_ibdev },
	{ UMAD, "port", mad_port },
	{ UMAD, "dev", umad_dev },
	{ ISSM, "ibdev", node_ibdev, INFINIBAND },
	{ ISSM, "port", mad_port, INFINIBAND },
	{ ISSM, "dev", issm_dev, INFINIBAND },
	{ DEVICE, "node_guid", node_guid },
	{ DEVICE, "sys_image_guid", sys_image_guid },
	{ DEVICE, "node_type", node_type },
	{ DEVICE, "node_desc", node_desc },
	{ DEVICE, "fw_ver", fw_ver },
	{ DEVICE, "hw_rev", hw_rev },
	{ DEVICE, "hca_type", hca_type },
	{ PORT, "state", port_line, .index = VB_PORT_STATE },
	{ PORT, "phys_state", port_line, .index = VB_PORT_PHYS_STATE },
	{ PORT, "rate", port_line, .index = VB_PORT_RATE },
	{ PORT, "link_layer", port_line, .index = VB_PORT_LINK_LAYER },
	{ PORT, "lid", port_line, .index = VB_PORT_LID },
	{ PORT, "lid_mask_count", port_line, .index = VB_PORT_LID_MASK_COUNT },
	{ PORT, "sm_lid", port_line, .index = VB_PORT_SM_LID },
	{ PORT, "sm_sl", port_line, .index = VB_PORT_SM_SL },
	{ PORT, "cap_mask", port_line, .index = VB_PORT_CAP_MASK },
	{ PORT "/gids", NULL, gid, GIDS },
	{ PORT "/gid_attrs/types", NULL, gid_type, GIDS },
	{ PORT "/gid_attrs/ndevs", NULL, gid_ndev, GIDS },
	{ PORT "/pkeys", NULL, pkey, PKEYS },
};

enum { ATTRIBUTES = sizeof(attributes) / sizeof(*attributes) };

static unsigned table_length(const struct vb_adapter *adapter, enum table table)
{
	if (table == GIDS)
		return (unsigned)adapter->port.gid_tbl_len;
	if (table == INFINIBAND)
		return adapter->port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	return table == PKEYS ? adapter->port.pkey_tbl_len : 1;
}

/* Puts the names of this device into the directory, and adds a slash unless it is "". */
static void expand(const struct vb_adapter *adapter, const char *directory, char *name)
{
	const char *end = name + VB_ATTRIBUTE_NAME_SIZE - 1;

	for (const char *from = directory; *from && name < end; from++) {
		if (*from == '@')
			name += snprintf(name, (size_t)(end - name), "%u", adapter->index);
		else if (*from == '$' || *from == '#')
			name += snprintf(name, (size_t)(end - name), "%s",
					 *from == '$' ? adapter->name : adapter->uverbs);
		else
			*name++ = *from;
	}
	if (*directory)
		*name++ = '/';
	*name = '\0';
}

static void name_of(const struct vb_adapter *adapter, const struct attribute *attribute,
		    unsigned index, char name[VB_ATTRIBUTE_NAME_SIZE])
{
	size_t length;

	expand(adapter, attribute->directory, name);
	length = strlen(name);
	if (attribute->file)
		snprintf(name + length, VB_ATTRIBUTE_NAME_SIZE - length, "%s", attribute->file);
	else
		snprintf(name + length, VB_ATTRIBUTE_NAME_SIZE - length, "%u", index);
}

static void print_attribute(const struct vb_adapter *adapter, const struct attribute *attribute,
			    unsigned index, struct vb_attribute_text *text)
{
	text->own = false;
	text->length =
		attribute->line(adapter, attribute->file ? attribute->index : index, text->text);
}

/* --- counters: their names are known only at run time --- */

struct counter_walk {
	const struct vb_adapter *adapter;
	int (*each)(const char *name, const struct vb_attribute_text *text, void *arg);
	void *arg;
	int result;
};

static void show_counter(struct counter_walk *walk, const char *directory, const char *counter,
			 uint64_t value)
{
	struct vb_attribute_text text = { .own = true };
	char name[VB_ATTRIBUTE_NAME_SIZE];
	size_t length;

	if (walk->result)
		return;
	expand(walk->adapter, directory, name);
	length = strlen(name);
	snprintf(name + length, sizeof(name) - length, "%s", counter);
	text.length = snprintf(text.text, sizeof(text.text), "%llu\n", (unsigned long long)value);
	walk->result = walk->each(name, &text, walk->arg);
}

static void hw_counter(void *arg, const char *name, uint64_t value)
{
	show_counter(arg, PORT "/hw_counters", name, value);
}

static void port_counter(void *arg, const char *name, uint64_t value)
{
	show_counter(arg, PORT "/counters", name, value);
}

static int counters_each(struct counter_walk *walk)
{
	struct vb_port_counters counters = { 0 };

	vb_adapter_counters_each(vb_port_counters_add, &counters);
	vb_port_counters_each(&counters, port_counter, walk);
	vb_adapter_counters_each(hw_counter, walk);
	return walk->result;
}

/* --- all files, and one --- */

int vb_attribute_each(const struct vb_adapter *adapter,
		      int (*each)(const char *name, const struct vb_attribute_text *text,
				  void *arg),
		      void *arg)
{
	struct counter_walk walk = { adapter, each, arg, 0 };
	char name[VB_ATTRIBUTE_NAME_SIZE];
	struct vb_attribute_text text;

	for (int i = 0; i < ATTRIBUTES; i++)
		for (unsigned k = 0; k < table_length(adapter, attributes[i].table); k++) {
			int result;

			name_of(adapter, &attributes[i], k, name);
			print_attribute(adapter, &attributes[i], k, &text);
			result = each(name, &text, arg);
			if (result)
				return result;
		}
	return counters_each(&walk);
}

struct search {
	const char *name;
	struct vb_attribute_text *text;
};

static int take_match(const char *name, const struct vb_attribute_text *text, void *arg)
{
	struct search *search = arg;

	if (strcmp(name, search->name))
		return 0;
	*search->text = *text;
	return 1;
}

void vb_attribute_read(const struct vb_adapter *adapter, const char *name,
		       struct vb_attribute_text *text)
{
	struct search search = { name, text };

	text->length = -ENOENT;
	vb_attribute_each(adapter, take_match, &search);
}
