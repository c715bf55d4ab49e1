/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/link_speed.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>

enum { MASK_WORDS_MAX = 127, SPEED_NOT_KNOWN = -1 };

union settings {
	struct ethtool_link_settings head;
	/* Three masks of link modes follow the head. Nothing reads them. */
	char room[sizeof(struct ethtool_link_settings) + 3 * MASK_WORDS_MAX * sizeof(uint32_t)];
};

static const struct {
	unsigned mbps_max;
	struct vb_link_rate rate;
} rates[] = {
	{ 1000, { VB_WIDTH_1X, VB_SPEED_SDR } },    { 10000, { VB_WIDTH_1X, VB_SPEED_FDR10 } },
	{ 20000, { VB_WIDTH_4X, VB_SPEED_DDR } },   { 25000, { VB_WIDTH_1X, VB_SPEED_EDR } },
	{ 40000, { VB_WIDTH_4X, VB_SPEED_FDR10 } }, { 50000, { VB_WIDTH_2X, VB_SPEED_EDR } },
	{ 100000, { VB_WIDTH_4X, VB_SPEED_EDR } },  { 200000, { VB_WIDTH_4X, VB_SPEED_HDR } },
	{ 400000, { VB_WIDTH_4X, VB_SPEED_NDR } },
};

struct vb_link_rate vb_link_rate(unsigned mbps)
{
	if (!mbps)
		return (struct vb_link_rate){ VB_WIDTH_4X, VB_SPEED_EDR };
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		if (mbps <= rates[i].mbps_max)
			return rates[i].rate;
	return (struct vb_link_rate){ VB_WIDTH_4X, VB_SPEED_XDR };
}

static int ask_driver(int fd, const char *name, union settings *settings)
{
	struct ifreq request = { .ifr_data = (char *)settings };

	memcpy(request.ifr_name, name, sizeof(request.ifr_name));
	settings->head.cmd = ETHTOOL_GLINKSETTINGS;
	return ioctl(fd, SIOCETHTOOL, &request) ? -errno : 0;
}

/* The kernel answers the first question with the length of the masks, as a negative number. */
static int read_speed(const char *name)
{
	union settings settings = { .room = { 0 } };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return SPEED_NOT_KNOWN;
	err = ask_driver(fd, name, &settings);
	if (!err && settings.head.link_mode_masks_nwords >= 0)
		err = -EPROTO;
	if (!err) {
		const int8_t words = (int8_t)-settings.head.link_mode_masks_nwords;

		memset(&settings, 0, sizeof(settings));
		settings.head.link_mode_masks_nwords = words;
		err = ask_driver(fd, name, &settings);
	}
	close(fd);
	/* The kernel's SPEED_UNKNOWN is -1. */
	return err || (int)settings.head.speed <= 0 ? SPEED_NOT_KNOWN : (int)settings.head.speed;
}

unsigned vb_link_speed_mbps(const struct vb_netif *netif)
{
	/*
	 * The only field of a snapshot that is filled in later. Two threads write the same value.
	 */
	_Atomic int *cached = &((struct vb_netif *)netif)->speed_mbps;
	int speed = atomic_load_explicit(cached, memory_order_relaxed);

	if (!speed) {
		const int saved_errno = errno;

		speed = read_speed(netif->name);
		errno = saved_errno;
		atomic_store_explicit(cached, speed, memory_order_relaxed);
	}
	return speed < 0 ? 0 : (unsigned)speed;
}
