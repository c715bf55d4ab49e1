/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/ah.h"

#include <string.h>

#include "base/annotate.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/symver.h"
#include "net/gid.h"
#include "system/forward.h"
#include "verbs/given.h"
#include "verbs/stale.h"
#include "wire/grh.h"

VB_PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	VB_SYSTEM_PASS(pd, ibv_create_ah, (pd, attr));
	VB_NO_CANCEL;
	struct vb_ah *ah;
	int err = vb_verbs_check_pd(pd, "ibv_create_ah");

	if (!err)
		err = vb_ah_create(vb_pd(pd), attr, &ah);
	if (err)
		return vb_return_null(err);
	ah->ibv.handle = vb_given_number();
	err = vb_given_add(VB_GIVEN_AH, ah);
	if (err)
		vb_ah_destroy(ah);
	return err ? vb_return_null(err) : &ah->ibv;
}

VB_PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
	VB_SYSTEM_PASS(ah, ibv_destroy_ah, (ah));
	VB_NO_CANCEL;
	int err = vb_given_end(VB_GIVEN_AH, ah, "ibv_destroy_ah");

	if (err)
		return vb_return_errno(err);
	vb_ah_destroy(vb_ah(ah));
	return vb_given_ended(VB_GIVEN_AH, ah, 0);
}

static int gid_index(const struct vb_device *dev, const union ibv_gid *gid)
{
	union ibv_gid own[VB_GIDS];

	vb_device_gids(dev, own);
	for (int i = 0; i < VB_GIDS; i++)
		if (!memcmp(&own[i], gid, sizeof(*gid)))
			return i;
	return -1;
}

/* The index of an own GID, of the same family if there is one. */
static int any_gid_index(const struct vb_device *dev, bool ipv4)
{
	union ibv_gid own[VB_GIDS];
	int found = -1;

	vb_device_gids(dev, own);
	for (int i = VB_GIDS - 1; i >= 0; i--)
		if (!vb_gid_is_zero(&own[i]) && (found < 0 || vb_gid_is_ipv4(&own[i]) == ipv4))
			found = i;
	return found;
}

/* The way back: source and destination of the GRH change places. */
static int reply_to(const struct vb_device *dev, const struct ibv_grh *ibv_grh,
		    struct ibv_ah_attr *attr)
{
	struct vb_grh grh;
	int err = vb_grh_parse((const uint8_t *)ibv_grh, &grh);
	int index = err ? -1 : gid_index(dev, &grh.dgid);

	/* The packet went to a loopback address or a group: any own address will do. */
	if (!err && index < 0)
		index = gid_index(dev, &grh.sgid);
	/* Both are addresses by which this host sends to itself: every source can do that. */
	if (!err && index < 0 && vb_gid_is_loopback(&grh.sgid))
		index = any_gid_index(dev, vb_gid_is_ipv4(&grh.sgid));
	if (err || index < 0)
		return -EINVAL;
	attr->is_global = 1;
	attr->grh.dgid = grh.sgid;
	attr->grh.sgid_index = (uint8_t)index;
	attr->grh.flow_label = grh.flow_label;
	attr->grh.traffic_class = grh.traffic_class;
	attr->grh.hop_limit = 0xff;
	return 0;
}

VB_PUBLIC int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
				  struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	VB_SYSTEM_PASS_CONTEXT(context, ibv_init_ah_from_wc, (context, port_num, wc, grh, attr));
	VB_NO_CANCEL;

	memset(attr, 0, sizeof(*attr));
	vb_tell_filled(attr, sizeof(*attr)); /* all bytes, from now on */
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	if (port_num == 1 && !reply_to(vb_context(context)->dev, grh, attr))
		return 0;
	vb_explain("ibv_init_ah_from_wc: the GRH does not name an address of this port");
	return vb_return_minus_one(-EINVAL);
}

VB_PUBLIC struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					       struct ibv_grh *grh, uint8_t port_num)
{
	VB_SYSTEM_PASS(pd, ibv_create_ah_from_wc, (pd, wc, grh, port_num));
	VB_NO_CANCEL;
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
