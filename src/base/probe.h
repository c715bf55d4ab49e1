/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static probes (USDT): a nop, and a note in the ELF file that tells where the arguments are. perf,
 * bpftrace and SystemTap put a breakpoint there. Arguments are values that the place has anyway.
 * Without sys/sdt.h at the build there are none. man/verbena.7 lists the probes.
 */
#ifndef VB_BASE_PROBE_H
#define VB_BASE_PROBE_H

#ifdef VB_HAS_SDT
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#define VB_PROBE(name, ...) STAP_PROBEV(verbena, name, __VA_ARGS__)
#else
#define VB_PROBE(name, ...) ((void)0)
#endif

#endif
