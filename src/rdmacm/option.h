/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of rdma_set_option that only this library has. */
#ifndef VB_RDMACM_OPTION_H
#define VB_RDMACM_OPTION_H

/*
 * An int of level RDMA_OPTION_ID, far from the numbers of librdmacm: a request that finds no
 * listener is not sent again (connect_retry.h). rsockets set it, because TCP refuses at once and a
 * program may have another address to try.
 */
enum { VB_OPTION_ID_AT_ONCE = 0x76620001 };

#endif
