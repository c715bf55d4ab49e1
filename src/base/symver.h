/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported functions and their versions.
 *
 * Everything is compiled with hidden visibility. An exported function is an ordinary definition
 * with the name from the header and VB_PUBLIC in front:
 *
 *	VB_PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
 *
 * Its version is the node of the map that lists it (libibverbs.map, librdmacm.map): there is
 * nothing to write beside the function. An exported name that is missing in the map becomes local,
 * a name in the map without a definition is not exported; tests/abi notices both.
 *
 * Some names also exist in an older, non-default version, for programs linked before the change.
 * Only the older version is marked, and defined under a name of its own (see compat.c):
 *
 *	VB_VERSION(vb_compat_ibv_alloc_pd, "ibv_alloc_pd@IBVERBS_1.0");
 *
 * The map does not mention the older version: the name in the assembler line carries the node.
 * The attribute `symver` would do the same, but clang ignores it. Link-time optimisation would lose
 * top-level assembler, and so stays off for the libraries.
 *
 * A private name exists once in each private node from the one of its first version on, and is the
 * same function in all of them. Its declaration gives it a name of its own inside the library, and
 * a line behind its definition gives that the exported name and the versions. (The linker would
 * take a plain definition at the address of an older version for that version.)
 *
 *	int ibv_cmd_alloc_dmah(void) VB_PRIVATE(ibv_cmd_alloc_dmah);
 *	VB_PRIVATE_SINCE_59(ibv_cmd_alloc_dmah);
 *
 * <infiniband/verbs.h> hides four exported functions behind macros of the same name. A file that
 * defines (or means) the function itself removes the macro after the include:
 *
 *	#undef ibv_get_device_list
 *	#undef ibv_query_port      // takes struct _compat_ibv_port_attr *: write 48 bytes, no more
 *	#undef ibv_reg_mr
 *	#undef ibv_reg_mr_iova
 */
#ifndef VB_BASE_SYMVER_H
#define VB_BASE_SYMVER_H

#define VB_PUBLIC __attribute__((visibility("default")))

/* The function must be VB_PUBLIC and not static; its own name stays inside the library. */
#define VB_VERSION(function, name_at_node)               \
	__asm__(".symver " #function ", " name_at_node); \
	_Static_assert(sizeof(&function), "declared before its version")

#define VB_PRIVATE(name) __asm__("vb_private_" #name)

/* A function or variable of the same file gets the version of a private node; @@ is the default. */
#define VB_PRIVATE_NODE(name, node, at)                                             \
	extern __typeof__(name) vb_private_##node##_##name                          \
		__attribute__((alias("vb_private_" #name), visibility("default"))); \
	VB_VERSION(vb_private_##node##_##name, #name at "IBVERBS_PRIVATE_" #node)

#define VB_PRIVATE_SINCE_65(name) VB_PRIVATE_NODE(name, 65, "@@")
#define VB_PRIVATE_SINCE_64(name)       \
	VB_PRIVATE_NODE(name, 64, "@"); \
	VB_PRIVATE_SINCE_65(name)
#define VB_PRIVATE_SINCE_59(name)       \
	VB_PRIVATE_NODE(name, 59, "@"); \
	VB_PRIVATE_SINCE_64(name)
#define VB_PRIVATE_SINCE_34(name)       \
	VB_PRIVATE_NODE(name, 34, "@"); \
	VB_PRIVATE_NODE(name, 57, "@"); \
	VB_PRIVATE_SINCE_59(name)

#endif
