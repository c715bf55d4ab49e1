/* SPDX-License-Identifier: BSD-2-Clause */
/* Subnet administration of this host, for its own programs. */
#ifndef VB_GSI_SA_H
#define VB_GSI_SA_H

#include "gsi/impl.h"
#include "mad/sa.h"

/* The length of the answer; 0: none. room is VB_SA_ANSWER_MAX at least. */
size_t vb_mad_sa(struct vb_nic *nic, const struct vb_device *dev, const uint8_t *request,
		 uint8_t *answer, size_t room);

/* --- sa_service.c --- */

/* The services of the own port that programs of this host have registered. Waits for them. */
void vb_gsi_see_services(struct vb_gsi *gsi, struct vb_sa_view *view);
/* False: no memory, or no descriptor. */
bool vb_gsi_register(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE]);
void vb_gsi_withdraw(struct vb_gsi *gsi, const uint8_t record[VB_SA_SERVICE_SIZE]);
void vb_gsi_forget_services(struct vb_gsi *gsi);

/* In a child of fork: memberships are the parent's. */
void vb_gsi_forget_groups(struct vb_gsi *gsi);

#endif
