/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of a QP, or of an address handle (nic/rate.h), for packets of a requester. READs and
 * ATOMICs do not wait: the other side sends their data.
 *
 * Congestion may ask for a pause behind each packet, too (congestion.h, gap_ns).
 */
#include "nic/rate.h"
#include "path/roce/requester.h"

enum {
	HEADERS_SIZE = 20 + 8 + 12 + 4, /* IPv4, UDP, BTH, ICRC */
	DETH_SIZE = 8,
};

/* The size of the packet at next_psn, on the wire. */
static uint32_t packet_size(const struct vb_wired *wired, const struct vb_wqe *wqe)
{
	uint32_t index = (uint32_t)vb_psn_diff(wired->req.next_psn, wqe->psn);
	uint32_t left = wqe->length - index * wired->mtu;

	return HEADERS_SIZE + (left < wired->mtu ? left : wired->mtu);
}

/* Pays for a packet and returns 0, or the time at which to try again. */
static uint64_t rate_pay(struct vb_wired *wired, uint32_t size, uint32_t rate_kbps)
{
	uint64_t again_ns =
		vb_rate_wait_ns(wired->qp, &wired->req.paid, rate_kbps, wired->roce->now_ns);

	if (!again_ns)
		vb_rate_pay(&wired->req.paid, size, rate_kbps);
	return again_ns;
}

/*
 * A probe after silence is one packet, and its time runs: it does not wait for the rate. It pays
 * all the same, so that the packets behind it wait longer.
 */
bool vb_requester_pace(struct vb_wired *wired, const struct vb_wqe *wqe, uint32_t rate_kbps)
{
	const uint32_t size = packet_size(wired, wqe);
	uint64_t again_ns = rate_pay(wired, size, rate_kbps);

	if (again_ns && wired->req.probing) {
		vb_rate_pay(&wired->req.paid, size, rate_kbps);
		return true;
	}
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
	       wired->req.paid.until_ns >
		       wired->roce->now_ns + vb_rate_burst_ns(wired->qp, rate_kbps);
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
