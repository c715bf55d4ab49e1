/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of a QP, or of an address handle (nic/rate.h). Each packet costs the time that it takes
 * at that rate. The packets sent may be ahead of the clock by one burst. READs and ATOMICs do not
 * wait: the other side sends their data.
 *
 * Congestion may ask for a pause behind each packet, too (congestion.h, gap_ns).
 */
#include "nic/rate.h"
#include "path/roce/requester.h"

enum {
	HEADERS_SIZE = 20 + 8 + 12 + 4, /* IPv4, UDP, BTH, ICRC */
	DETH_SIZE = 8,
	BURST_DEFAULT_BYTES = 32 << 10,
	BURST_DEFAULT_NS = 200000, /* a burst lasts at least as long as a timer may be late */
};

static uint64_t bytes_time_ns(uint64_t bytes, uint32_t rate_kbps)
{
	return bytes * 8000000 / rate_kbps;
}

/* The size of the packet at next_psn, on the wire. */
static uint32_t packet_size(const struct vb_wired *wired, const struct vb_wqe *wqe)
{
	uint32_t index = (uint32_t)vb_psn_diff(wired->req.next_psn, wqe->psn);
	uint32_t left = wqe->length - index * wired->mtu;

	return HEADERS_SIZE + (left < wired->mtu ? left : wired->mtu);
}

static uint64_t burst_time_ns(const struct vb_wired *wired, uint32_t rate_kbps)
{
	uint32_t burst = atomic_load(&wired->qp->rate_burst_bytes);

	uint64_t burst_ns = bytes_time_ns(burst ? burst : (uint32_t)BURST_DEFAULT_BYTES, rate_kbps);

	return burst || burst_ns > BURST_DEFAULT_NS ? burst_ns : BURST_DEFAULT_NS;
}

/* Pays for a packet and returns 0, or the time at which to try again. */
static uint64_t rate_pay(struct vb_wired *wired, uint32_t size, uint32_t rate_kbps)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns;
	uint64_t burst_ns = burst_time_ns(wired, rate_kbps);
	uint32_t own_kbps = atomic_load_explicit(&wired->qp->rate_kbps, memory_order_relaxed);

	/* A time that was paid at another rate of the QP does not count. */
	if (req->paid_ns < now_ns || req->paid_kbps != own_kbps)
		req->paid_ns = now_ns;
	req->paid_kbps = own_kbps;
	/* The timer waits for half a burst, not for each packet. */
	if (req->paid_ns > now_ns + burst_ns)
		return req->paid_ns - burst_ns / 2;
	req->paid_ns += bytes_time_ns(size, rate_kbps);
	return 0;
}

bool vb_requester_pace(struct vb_wired *wired, const struct vb_wqe *wqe, uint32_t rate_kbps)
{
	uint64_t again_ns = rate_pay(wired, packet_size(wired, wqe), rate_kbps);

	if (!again_ns)
		return true;
	wired->req.pace_ns = again_ns;
	vb_requester_set_timer(wired);
	return false;
}

/* A timer may be late. The gap after it is shorter then, so that the rate stays. */
void vb_requester_gap_begin(struct vb_wired *wired, uint32_t count)
{
	struct vb_requester *req = &wired->req;
	uint64_t now_ns = wired->roce->now_ns, gap_ns = req->congestion.gap_ns;

	if (req->gap_end_ns + gap_ns < now_ns || req->gap_end_ns > now_ns)
		req->gap_end_ns = now_ns;
	req->gap_end_ns += gap_ns * count;
}

bool vb_requester_gap_over(struct vb_wired *wired)
{
	struct vb_requester *req = &wired->req;

	if (req->gap_end_ns <= wired->roce->now_ns)
		return true;
	req->pace_ns = req->gap_end_ns;
	vb_requester_set_timer(wired);
	return false;
}

bool vb_requester_pace_holds(const struct vb_wired *wired)
{
	uint32_t rate_kbps = atomic_load_explicit(&wired->qp->rate_kbps, memory_order_relaxed);

	return __builtin_expect(rate_kbps, 0) &&
	       wired->req.paid_ns > wired->roce->now_ns + burst_time_ns(wired, rate_kbps);
}

uint64_t vb_requester_pace_datagram(struct vb_wired *wired, const struct vb_av *av, uint32_t length)
{
	uint32_t rate_kbps = vb_rate_slower(atomic_load(&wired->qp->rate_kbps), av->rate_kbps);

	return rate_kbps ? rate_pay(wired, HEADERS_SIZE + DETH_SIZE + length, rate_kbps) : 0;
}

bool vb_requester_pace_all(struct vb_wired *wired)
{
	uint64_t wait_ns = vb_pace_wait_ns(wired->roce, &wired->way);

	if (wait_ns) {
		wired->req.pace_ns = wait_ns;
		vb_requester_set_timer(wired);
		return false;
	}
	return true;
}
