/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An option of ours, for those who speak the protocol of sockets: a request that found no listener
 * is not sent again (connect_retry.h). TCP refuses at once, and programs may have another way to try.
 */
#ifndef VB_RDMACM_AT_ONCE_H
#define VB_RDMACM_AT_ONCE_H

/* Of level RDMA_OPTION_ID, far from the names that librdmacm has; an int. */
enum { VB_OPTION_ID_AT_ONCE = 0x76620001 };

#endif
