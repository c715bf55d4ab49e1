# shellcheck shell=bash
# A fresh system in a folder of its own, for the scripts of this folder. As root.

# apart SCRIPT ARGUMENT...: starts the script again in namespaces of its own. Mounts and processes
# end with the script, however it ends.
apart() {
	[ "${VERBENA_TEST_APART:-}" != 1 ] || return 0
	exec env VERBENA_TEST_APART=1 unshare --mount --pid --fork --kill-child "$@"
}

# unpack_root TAR: the system is in $root, with /proc, /sys and the harmless part of /dev.
unpack_root() {
	local node
	root=$(mktemp -d "${TMPDIR:-/tmp}/verbena-root.XXXXXX")
	trap remove_root EXIT
	tar -x -C "$root" -f "$1" --exclude='./dev/*'
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --make-rslave "$root/sys"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	for node in null zero full random urandom tty; do
		: >"$root/dev/$node"
		mount --bind "/dev/$node" "$root/dev/$node"
	done
	ln -s /proc/self/fd "$root/dev/fd"
	mkdir -m 1777 "$root/dev/shm"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
}

remove_root() {
	local folder
	for folder in dev sys proc; do
		! mountpoint -q "$root/$folder" || umount -R -l "$root/$folder"
	done
	rm -rf --one-file-system "$root"
}

# in_root COMMAND...: with nothing of this environment but the arguments NAME=VALUE before it.
in_root() {
	chroot "$root" /usr/bin/env -i HOME=/root \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
