/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/build.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADAPTERS "sys/devices/virtual/verbena"

/* The version of the kernel's uverbs interface as a whole. */
static const char uverbs_class_abi[] = "6\n";
/* The same of umad. */
static const char umad_class_abi[] = "5\n";

/* --- pieces --- */

/* Makes every directory on the way to the last name. The next call meets one that is missing. */
static int make_parents(int root_fd, const char *path)
{
	char directory[PATH_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
		/* The umask does not count. */
		if (!mkdirat(root_fd, directory, 0755) && fchmodat(root_fd, directory, 0755, 0))
			return -errno;
	}
	return 0;
}

static int write_file(int root_fd, const char *path, const char *text, size_t length)
{
	const int flags = O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(root_fd, path, flags, 0600);
	int result = 0;

	if (fd < 0 && errno == ENOENT) {
		result = make_parents(root_fd, path);
		if (result)
			return result;
		fd = openat(root_fd, path, flags, 0600);
	}
	if (fd < 0)
		return -errno;
	if (write(fd, text, length) != (ssize_t)length)
		result = -EIO;
	fchmod(fd, 0444);
	close(fd);
	return result;
}

static int make_link(int root_fd, const char *target, const char *path)
{
	int result = make_parents(root_fd, path);

	if (result)
		return result;
	return symlinkat(target, root_fd, path) && errno != EEXIST ? -errno : 0;
}

static size_t text_length(const struct vb_attribute_text *text)
{
	return text->length < 0 ? 0 : (size_t)text->length;
}

bool vb_build_differs(int root_fd, const char *path, const struct vb_attribute_text *text)
{
	char old[VB_ATTRIBUTE_SIZE + 1];
	int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, old, sizeof(old));
	close(fd);
	return length != (ssize_t)text_length(text) || memcmp(old, text->text, (size_t)length);
}

void vb_build_replace(int root_fd, const char *path, const struct vb_attribute_text *text)
{
	char scratch[32];

	snprintf(scratch, sizeof(scratch), "new.%d", (int)gettid());
	if (write_file(root_fd, scratch, text->text, text_length(text)) ||
	    renameat(root_fd, scratch, root_fd, path))
		unlinkat(root_fd, scratch, 0);
}

/* --- one device --- */

struct visit {
	int root_fd;
	const struct vb_adapter *adapter;
	int (*file)(int root_fd, const char *path, const struct vb_attribute_text *text);
};

static int visit_attribute(const char *name, const struct vb_attribute_text *text, void *arg)
{
	const struct visit *visit = arg;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), ADAPTERS "/%s/%s", visit->adapter->name, name);
	return visit->file(visit->root_fd, path, text);
}

/* A counter is 0 in the shared tree, because each process has its own value. */
static int create_file(int root_fd, const char *path, const struct vb_attribute_text *text)
{
	if (text->own)
		return write_file(root_fd, path, "0\n", 2);
	return write_file(root_fd, path, text->text, text_length(text));
}

static int refresh_file(int root_fd, const char *path, const struct vb_attribute_text *text)
{
	if (!text->own && vb_build_differs(root_fd, path, text))
		vb_build_replace(root_fd, path, text);
	return 0;
}

/* The entry of a class, and the links from the device to its class and its adapter. */
static int link_class(int root_fd, const char *adapter, const char *class, const char *device)
{
	char target[256], path[256];
	int result;

	snprintf(target, sizeof(target), "../../devices/virtual/verbena/%s/%s/%s", adapter, class,
		 device);
	snprintf(path, sizeof(path), "sys/class/%s/%s", class, device);
	result = make_link(root_fd, target, path);
	snprintf(target, sizeof(target), "../../../%s", adapter);
	snprintf(path, sizeof(path), ADAPTERS "/%s/%s/%s/device", adapter, class, device);
	if (!result)
		result = make_link(root_fd, target, path);
	snprintf(target, sizeof(target), "../../../../../../class/%s", class);
	snprintf(path, sizeof(path), ADAPTERS "/%s/%s/%s/subsystem", adapter, class, device);
	return result ? result : make_link(root_fd, target, path);
}

static int link_netdev(int root_fd, const struct vb_adapter *adapter)
{
	char target[64], path[256];

	if (!*adapter->netdev)
		return 0;
	snprintf(target, sizeof(target), "/sys/class/net/%s", adapter->netdev);
	snprintf(path, sizeof(path), ADAPTERS "/%s/net/%s", adapter->name, adapter->netdev);
	return make_link(root_fd, target, path);
}

/*
 * The node is a character device that any user may open. It refuses writes and all ioctls, so a
 * program that speaks to the kernel's uverbs itself sees an error, and no false success.
 */
static int link_node(int root_fd, const char *name)
{
	const char *target = access("/dev/full", R_OK | W_OK) ? "/dev/null" : "/dev/full";
	char path[128];

	snprintf(path, sizeof(path), "dev/infiniband/%s", name);
	return make_link(root_fd, target, path);
}

/* The node of MADs: the file behind it is opened by no program (umad.h). */
static int link_mad(int root_fd, const struct vb_adapter *adapter, const char *kind)
{
	char name[16];
	int result;

	snprintf(name, sizeof(name), "%s%u", kind, adapter->index);
	result = link_class(root_fd, adapter->name, "infiniband_mad", name);
	return result ? result : link_node(root_fd, name);
}

static int build_adapter(const struct vb_adapter *adapter, void *arg)
{
	struct visit visit = { *(int *)arg, adapter, create_file };
	int result = vb_attribute_each(adapter, visit_attribute, &visit);

	if (!result)
		result = link_class(visit.root_fd, adapter->name, "infiniband", adapter->name);
	if (!result)
		result = link_class(visit.root_fd, adapter->name, "infiniband_verbs",
				    adapter->uverbs);
	if (!result)
		result = link_netdev(visit.root_fd, adapter);
	if (!result)
		result = link_mad(visit.root_fd, adapter, "umad");
	if (!result && adapter->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		result = link_mad(visit.root_fd, adapter, "issm");
	return result ? result : link_node(visit.root_fd, adapter->uverbs);
}

/*
 * A device of the system's, where VERBENA_DEVICES asks for them. The kernel follows the link, so it
 * leads to the kernel's own directory. Its uverbs and umad nodes have the names of ours, and are
 * not there.
 */
static int link_system(const char *name, void *arg)
{
	char target[128], path[128];

	snprintf(target, sizeof(target), "/sys/class/infiniband/%s", name);
	snprintf(path, sizeof(path), "sys/class/infiniband/%s", name);
	return make_link(*(int *)arg, target, path);
}

/* --- all devices --- */

int vb_build(int root_fd)
{
	/* It exists even without devices. */
	int result = make_parents(root_fd, "sys/class/infiniband/");

	if (!result)
		result = write_file(root_fd, "sys/class/infiniband_verbs/abi_version",
				    uverbs_class_abi, strlen(uverbs_class_abi));
	if (!result)
		result = write_file(root_fd, "sys/class/infiniband_mad/abi_version", umad_class_abi,
				    strlen(umad_class_abi));
	if (!result)
		result = link_node(root_fd, "rdma_cm");
	if (!result)
		result = vb_adapter_each(build_adapter, &root_fd);
	return result ? result : vb_adapter_each_system(link_system, &root_fd);
}

static int refresh_adapter(const struct vb_adapter *adapter, void *arg)
{
	struct visit visit = { *(int *)arg, adapter, refresh_file };

	return vb_attribute_each(adapter, visit_attribute, &visit);
}

void vb_build_refresh(int root_fd)
{
	vb_adapter_each(refresh_adapter, &root_fd);
}

struct reading {
	const char *path; /* relative to the directory of adapters */
	struct vb_attribute_text *text;
};

static int read_adapter(const struct vb_adapter *adapter, void *arg)
{
	const struct reading *reading = arg;
	const size_t length = strlen(adapter->name);

	if (strncmp(reading->path, adapter->name, length) || reading->path[length] != '/')
		return 0;
	vb_attribute_read(adapter, reading->path + length + 1, reading->text);
	return 1;
}

void vb_build_read(const char *path, struct vb_attribute_text *text)
{
	struct reading reading = { path + strlen(ADAPTERS "/"), text };

	text->length = -ENOENT;
	if (!strncmp(path, ADAPTERS "/", strlen(ADAPTERS "/")))
		vb_adapter_each(read_adapter, &reading);
}

/* --- the key of the tree --- */

static uint64_t mix_bytes(uint64_t key, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		key = (key ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return key;
}

static int mix_adapter(const struct vb_adapter *adapter, void *arg)
{
	uint64_t *key = arg;
	uint16_t pkey;

	for (unsigned i = 0; !vb_adapter_pkey(adapter, i, &pkey); i++)
		*key = mix_bytes(*key, &pkey, sizeof(pkey));
	*key = mix_bytes(*key, adapter->name, strlen(adapter->name) + 1);
	*key = mix_bytes(*key, adapter->netdev, strlen(adapter->netdev) + 1);
	*key = mix_bytes(*key, &adapter->attr.node_guid, sizeof(adapter->attr.node_guid));
	*key = mix_bytes(*key, &adapter->port.link_layer, sizeof(adapter->port.link_layer));
	return 0;
}

static int mix_system(const char *name, void *arg)
{
	uint64_t *key = arg;

	*key = mix_bytes(*key, name, strlen(name) + 1);
	return 0;
}

uint64_t vb_build_key(void)
{
	const char *release = vb_adapter_release();
	uint64_t key = UINT64_C(0xcbf29ce484222325);
	struct stat namespace;

	/* Devices with the same names in another network namespace have other addresses. */
	if (!stat("/proc/self/ns/net", &namespace))
		key = mix_bytes(key, &namespace.st_ino, sizeof(namespace.st_ino));
	key = mix_bytes(key, release, strlen(release));
	vb_adapter_each(mix_adapter, &key);
	vb_adapter_each_system(mix_system, &key);
	return key;
}
