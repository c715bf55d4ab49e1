/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct vb_rs_settings defaults = {
	.receive_size = VB_RS_BUFFER_DEFAULT,
	.send_size = VB_RS_BUFFER_DEFAULT,
	.sq_size = 384,
	.rq_size = 384,
	.inline_size = 64,
	.polling_time_us = 10,
};

static uint32_t read_value(const char *directory, const char *name, uint32_t fallback, uint32_t min,
			   uint32_t max)
{
	char path[256], text[32], *end;
	unsigned long value;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fallback;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size <= 0)
		return fallback;
	text[size] = 0;
	value = strtoul(text, &end, 0);
	if (end == text || text[0] == '-')
		return fallback;
	return value < min ? min : value > max ? max : (uint32_t)value;
}

void vb_rs_settings_read(const char *directory, struct vb_rs_settings *settings)
{
	const struct vb_rs_settings *d = &defaults;

	settings->receive_size = read_value(directory, "mem_default", d->receive_size,
					    VB_RS_BUFFER_MIN, VB_RS_BUFFER_MAX);
	settings->send_size = read_value(directory, "wmem_default", d->send_size, VB_RS_BUFFER_MIN,
					 VB_RS_BUFFER_MAX);
	settings->sq_size = (uint16_t)read_value(directory, "sqsize_default", d->sq_size,
						 VB_RS_QUEUE_MIN, VB_RS_QUEUE_MAX);
	settings->rq_size = (uint16_t)read_value(directory, "rqsize_default", d->rq_size,
						 VB_RS_QUEUE_MIN, VB_RS_QUEUE_MAX);
	settings->inline_size =
		(uint16_t)read_value(directory, "inline_default", d->inline_size, 0, 0xffff);
	settings->iomap_count =
		(uint16_t)read_value(directory, "iomap_size", d->iomap_count, 0, VB_RS_IOMAP_MAX);
	settings->polling_time_us =
		read_value(directory, "polling_time", d->polling_time_us, 0, 1000000);
}

static struct vb_rs_settings machine;

static void read_machine(void)
{
	vb_rs_settings_read(VB_RS_SETTINGS_DIRECTORY, &machine);
}

const struct vb_rs_settings *vb_rs_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_machine);
	return &machine;
}
