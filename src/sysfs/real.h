/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's functions behind those that this library replaces. A file that defines such a
 * function includes this header first: it keeps the other headers from renaming or inlining the
 * function.
 */
#ifndef VB_SYSFS_REAL_H
#define VB_SYSFS_REAL_H

#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#define VB_PUBLIC __attribute__((visibility("default")))

/* clang-format off */
#define VB_REAL_EACH(X) \
	X(open) X(open64) X(__open_2) X(__open64_2) \
	X(openat) X(openat64) X(__openat_2) X(__openat64_2) \
	X(fopen) X(fopen64) X(freopen) X(freopen64) \
	X(opendir) X(scandir) X(scandir64) X(scandirat) X(scandirat64) X(glob) X(glob64) \
	X(fstatat) X(fstatat64) X(__fxstatat) X(__fxstatat64) X(statx) \
	X(access) X(faccessat) X(euidaccess) \
	X(readlink) X(readlinkat) X(__readlink_chk) X(__readlinkat_chk) \
	X(realpath) X(__realpath_chk) X(chdir) \
	X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr) \
	X(read) X(__read_chk) X(pread) X(pread64) X(__pread_chk) X(__pread64_chk) \
	X(socket) X(bind) X(connect) X(setsockopt) X(send) X(sendto) X(sendmsg) \
	X(recv) X(__recv_chk) X(recvfrom) X(__recvfrom_chk) X(recvmsg) \
	X(ioctl) X(write) X(_exit) X(execve) X(execv) X(execvp) X(execvpe)
/* clang-format on */

#define VB_REAL_INDEX(name) VB_REAL_##name,
enum vb_real { VB_REAL_EACH(VB_REAL_INDEX) VB_REAL_COUNT };
#undef VB_REAL_INDEX

/* NULL: this C library has no such function. */
void *vb_real(enum vb_real which);

#define REAL(name) ((__typeof__(&name))vb_real(VB_REAL_##name))

#endif
