/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/sniffer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "capture/frame.h"
#include "engine/attach/sources.h"
#include "engine/watch.h"
#include "nic/device.h"
#include "path/raw/raw.h"

enum {
	TICK_NS = 2000000,
	LOOK_NS = 200000000,    /* between looks for processes that did not come by themselves */
	BATCH = 48,             /* frames per tick: programs post 128 receives or so */
	HELD_BYTES = 64u << 20, /* frames that wait; more are lost, and counted */
};

/* A frame that waits for its turn. */
struct held {
	struct held *next;
	uint32_t length;
	uint8_t bytes[];
};

/* One per process. */
static struct sniffer {
	pthread_mutex_t lock; /* for all of it; before that of a raw port */
	unsigned flows;
	struct vb_nic *nic;
	int timer; /* -1: none */
	uint64_t looked_ns;
	struct vb_sources *sources; /* owned; NULL: nothing is captured */
	struct vb_capture_framer *framer;
	struct held *first, **last;
	size_t held_bytes;
	uint64_t lost;      /* frames that found no room */
	uint64_t lost_told; /* all lost ones that are counted */
} sniffer = { .lock = PTHREAD_MUTEX_INITIALIZER, .timer = -1 };

/* --- frames --- */

/* A packet of the wire comes from the interface. One that stays on the host is told twice. */
static bool is_unseen(const struct vb_capture_frame *frame)
{
	return frame->local || (frame->out && frame->by != VB_BY_UDP);
}

static void frame_hold(void *arg, const struct vb_capture_frame *frame)
{
	struct held *held = NULL;

	(void)arg;
	if (!is_unseen(frame) || frame->kept > VB_FRAME_MAX)
		return;
	if (sniffer.held_bytes + frame->kept <= HELD_BYTES)
		held = malloc(sizeof(*held) + frame->kept);
	if (!held) {
		sniffer.lost++;
		return;
	}
	held->next = NULL;
	held->length = frame->kept;
	memcpy(held->bytes, frame->bytes, frame->kept);
	sniffer.held_bytes += frame->kept;
	*sniffer.last = held;
	sniffer.last = &held->next;
}

static void record_take(void *arg, struct vb_source *source, const struct vb_capture_head *record)
{
	(void)source;
	vb_capture_frames(sniffer.framer, record, frame_hold, arg);
}

/* The GID of an address in the frame. */
static union ibv_gid gid_of(const struct held *held, bool destination)
{
	const bool ipv6 = held->bytes[12] == 0x86;
	const uint32_t size = ipv6 ? 16 : 4, at = 14 + (ipv6 ? 8 : 12) + (destination ? size : 0);
	union ibv_gid gid = { .raw = { 0 } };

	if (!ipv6)
		gid.raw[10] = gid.raw[11] = 0xff;
	if (at + size <= held->length)
		memcpy(gid.raw + 16 - size, held->bytes + at, size);
	return gid;
}

static bool device_has(const struct vb_device *dev, const struct held *held)
{
	const union ibv_gid src = gid_of(held, false), dst = gid_of(held, true);
	union ibv_gid table[VB_GIDS];

	vb_device_gids(dev, table);
	for (unsigned i = 0; i < VB_GIDS; i++)
		if (!memcmp(&table[i], &src, sizeof(src)) || !memcmp(&table[i], &dst, sizeof(dst)))
			return true;
	return false;
}

static void frame_show(struct vb_thread *thread, struct held *held)
{
	struct vb_frame frame;

	if (!vb_frame_parse(&frame, held->bytes, held->length))
		return;
	frame.from_here = true;
	for (struct vb_raw_port *port = NULL; (port = vb_raw_port_next(port));) {
		pthread_mutex_lock(&port->lock);
		if (port->fd >= 0 && device_has(port->dev, held))
			vb_raw_sniff(port, thread, &frame);
		pthread_mutex_unlock(&port->lock);
	}
}

static void frames_show(unsigned most)
{
	struct vb_thread *thread = vb_thread_get();

	for (; thread && most && sniffer.first; most--) {
		struct held *held = sniffer.first;

		frame_show(thread, held);
		sniffer.first = held->next;
		sniffer.held_bytes -= held->length;
		free(held);
	}
	if (!sniffer.first)
		sniffer.last = &sniffer.first;
}

/* --- the capture --- */

/* Frames that are lost count where those of a full socket do. */
static void lost_count(void)
{
	uint64_t lost = sniffer.lost;
	struct vb_raw_port *port = vb_raw_port_next(NULL);

	for (unsigned i = 0; i < sniffer.sources->count; i++)
		lost += vb_source_lost(sniffer.sources->list[i]);
	if (!port || lost <= sniffer.lost_told)
		return;
	pthread_mutex_lock(&port->lock);
	port->counts.overrun += lost - sniffer.lost_told;
	pthread_mutex_unlock(&port->lock);
	sniffer.lost_told = lost;
}

/* Called by the service thread, again and again. */
static void on_tick(int fd, void *arg)
{
	uint64_t count;

	(void)arg;
	pthread_mutex_lock(&sniffer.lock);
	if (sniffer.timer == fd && sniffer.sources && read(fd, &count, sizeof(count)) > 0) {
		if (vb_now_ns() - sniffer.looked_ns >= LOOK_NS) {
			vb_sources_look(sniffer.sources);
			sniffer.looked_ns = vb_now_ns();
		}
		vb_sources_wait(sniffer.sources, 0);
		vb_sources_read(sniffer.sources, record_take, NULL);
		frames_show(BATCH);
		lost_count();
	}
	pthread_mutex_unlock(&sniffer.lock);
}

static int timer_start(struct vb_nic *nic)
{
	const struct itimerspec every = { { 0, TICK_NS }, { 0, TICK_NS } };

	sniffer.timer = vb_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (sniffer.timer < 0 || timerfd_settime(sniffer.timer, 0, &every, NULL))
		return -1;
	sniffer.nic = nic;
	return vb_watch(nic, sniffer.timer, on_tick, NULL);
}

/* Under lock. */
static void stop(void)
{
	if (sniffer.timer >= 0 && sniffer.nic == vb_nic_current())
		vb_unwatch(sniffer.nic, sniffer.timer);
	vb_fd_close(&sniffer.timer);
	if (sniffer.sources)
		vb_sources_close(sniffer.sources);
	free(sniffer.sources);
	free(sniffer.framer);
	while (sniffer.first) {
		struct held *held = sniffer.first;

		sniffer.first = held->next;
		free(held);
	}
	sniffer.sources = NULL;
	sniffer.framer = NULL;
	sniffer.held_bytes = 0;
}

/* A flow without it sees the frames of the interface, as it does without this file. */
static void start(struct vb_nic *nic)
{
	const struct vb_sources_options options = { .tool = "sniffer",
						    .wants = VB_WANT_PACKETS,
						    .bytes = VB_CAPTURE_ALL };

	sniffer.last = &sniffer.first;
	sniffer.looked_ns = sniffer.lost = sniffer.lost_told = 0;
	sniffer.sources = calloc(1, sizeof(*sniffer.sources));
	sniffer.framer = calloc(1, sizeof(*sniffer.framer));
	if (sniffer.sources && sniffer.framer)
		vb_sources_open(sniffer.sources, &options);
	if (sniffer.sources && sniffer.framer && !timer_start(nic))
		return;
	vb_explain_work("the sniffer flow sees the frames of the interface only: out of memory or "
			"descriptors");
	stop();
}

void vb_sniffer_begin(struct vb_nic *nic)
{
	pthread_mutex_lock(&sniffer.lock);
	if (!sniffer.flows++)
		start(nic);
	pthread_mutex_unlock(&sniffer.lock);
}

void vb_sniffer_end(void)
{
	pthread_mutex_lock(&sniffer.lock);
	if (sniffer.flows && !--sniffer.flows)
		stop();
	pthread_mutex_unlock(&sniffer.lock);
}

void vb_sniffer_forget(void)
{
	pthread_mutex_init(&sniffer.lock, NULL);
	sniffer.flows = 0;
	stop();
}
