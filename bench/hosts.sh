# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Pairs of hosts for bench/wire: network namespaces joined by veth. They have no names and belong to
# processes that die with this shell, so a run that is killed leaves nothing behind.

host_pids=()
host_new=

# Makes a host; $host_new is its process id.
host_make() {
	setpriv --pdeathsig KILL unshare --net sleep infinity &
	host_new=$!
	host_pids+=("$host_new")
	until [ "$(readlink "/proc/$host_new/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
		is_running "$host_new" || die "no network namespace: this needs root"
		sleep 0.01 # between two looks
	done
	on_host "$host_new" ip link set lo up
}

hosts_end() {
	local pid
	for pid in "${host_pids[@]}"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	host_pids=()
}

# on_host PID COMMAND…
on_host() {
	nsenter --net="/proc/$1/ns/net" -- "${@:2}"
}

# Makes two hosts: hosts_join NAME MTU. ${host_server[NAME]} and ${host_client[NAME]} are their
# processes.
declare -A host_server=() host_client=()
host_subnet=100
hosts_join() {
	local here there
	host_make
	here=$host_new
	host_make
	there=$host_new
	ip link add veth0 mtu "$2" netns "$here" type veth peer name veth0 mtu "$2" netns "$there"
	host_subnet=$((host_subnet + 1))
	host_address "$here" 1
	host_address "$there" 2
	host_server[$1]=$here
	host_client[$1]=$there
	host_await_carrier "$here"
	host_await_carrier "$there"
}

# The addresses of RFC 2544, for benchmarks.
host_address() {
	on_host "$1" ip addr add "198.18.$host_subnet.$2/24" dev veth0
	on_host "$1" ip link set veth0 up
}

host_await_carrier() {
	local deadline=$((SECONDS + 10))
	until grep -q 'state UP' < <(on_host "$1" ip -o link show veth0); do
		((SECONDS < deadline)) || die "veth does not come up"
		sleep 0.01 # between two looks
	done
}

# Turns offloads off, for TCP and UDP alike: hosts_without_offloads NAME
hosts_without_offloads() {
	local pid
	for pid in "${host_server[$1]}" "${host_client[$1]}"; do
		on_host "$pid" ethtool -K veth0 gso off tso off gro off tx-udp-segmentation off \
			rx-udp-gro-forwarding off rx-gro-list off >/dev/null
	done
}

# Loses one packet in a hundred, each way, of any protocol: hosts_lossy NAME
hosts_lossy() {
	local pid
	for pid in "${host_server[$1]}" "${host_client[$1]}"; do
		on_host "$pid" nft -f - <<-'END'
			table ip loss {
				chain input {
					type filter hook input priority 0; policy accept;
					iifname "veth0" numgen random mod 100 < 1 counter drop
				}
			}
		END
	done
}

# Later commands run on these hosts: hosts_use NAME; without a name on this host.
hosts_use() {
	server_host=()
	client_host=()
	server_address=127.0.0.1
	# The kernel takes longer to another address of this host: so all use the same one.
	export VERBENA_DEVICES=lo
	[ $# -gt 0 ] || return 0
	server_host=(nsenter --net="/proc/${host_server[$1]}/ns/net" --)
	client_host=(nsenter --net="/proc/${host_client[$1]}/ns/net" --)
	server_address=$(on_host "${host_server[$1]}" ip -4 -o addr show veth0 |
		awk '{ sub("/.*", "", $4); print $4 }')
	export VERBENA_DEVICES=veth0
}
