# SPDX-License-Identifier: BSD-2-Clause
# Two hosts on one machine: network namespaces, joined by veth or by a bad link (impair). Sourced.
# shellcheck shell=bash
#
#   net_begin                       root or a loud skip; everything below is removed at exit
#   net_hosts MTU                   hosts A and B, joined by a veth pair
#   net_routed                      hosts A and B, with a router R between them
#   net_hosts_impaired MTU OPTION…  the same, joined by `impair OPTION…`; output: $net_impair_log
#   net_in A COMMAND…               runs a command on host A
#   net_lend PROGRAM…               copies them, named from $net_build, and the libraries to where
#                                   every user may read; $net_build is that place from then on
#   net_address A, net_address6 A   10.99.0.1, fd00:99::1 (B: 2); eth0 is the interface
#   net_link A down|up
#   net_end_hosts                   removes the hosts, for the next ones; prints impair's counts
#
# The caller sets $net_build, the build folder.

net_namespaces=() net_impair_pid='' net_impair_log='' net_tmp='' net_generation=0
declare -gA net_name=() # also where a function sources this file

# A plan without tests that says why. Not 77: to meson a TAP program that fails is an error.
net_skip() {
	echo "1..0 # SKIP $*"
	exit 0
}

net_begin() {
	[ "$(id -u)" -eq 0 ] || net_skip "only root can make network namespaces"
	local tool
	for tool in ip ethtool ss setpriv; do
		command -v "$tool" >/dev/null || net_skip "$tool is not installed"
	done
	[ -c /dev/net/tun ] || net_skip "there is no /dev/net/tun"
	ip netns add "vb$$-try" 2>/dev/null ||
		net_skip "this kernel or container lets nobody make namespaces"
	local refusal
	refusal=$(ip netns exec "vb$$-try" true 2>&1) ||
		refusal="no program can enter a namespace (a plain chroot?): ${refusal%%$'\n'*}"
	ip netns del "vb$$-try"
	[ -z "$refusal" ] || net_skip "$refusal"
	net_tmp=$(mktemp -d "${TMPDIR:-/tmp}/verbena-net.XXXXXX")
	chmod 755 "$net_tmp"
	trap net_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# The build folder may lie in a home that others may not enter.
net_lend() {
	local place=$net_tmp/lent program
	mkdir -p "$place"
	for program in "$@" lib/libibverbs.so.1 lib/librdmacm.so.1; do
		mkdir -p "$place/${program%/*}"
		cp -L "$net_build/$program" "$place/$program"
	done
	chmod -R a+rX "$place"
	net_build=$place
}

net_end() {
	net_end_hosts >/dev/null
	[ -z "$net_tmp" ] || rm -rf "$net_tmp"
}

net_end_hosts() {
	local namespace
	net_stop_impair
	for namespace in "${net_namespaces[@]}"; do
		net_end_processes "$namespace"
		ip netns del "$namespace" 2>/dev/null
	done
	net_namespaces=()
}

# Nothing that a test started outlives its host.
net_end_processes() {
	local pids
	pids=$(ip netns pids "$1" 2>/dev/null)
	# shellcheck disable=SC2086 # one word per process
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
}

net_stop_impair() {
	[ -n "$net_impair_pid" ] || return 0
	kill -TERM "$net_impair_pid" 2>/dev/null
	wait "$net_impair_pid" 2>/dev/null
	net_impair_pid=''
	sed -n 's/^impair/# impair/p' "$net_impair_log"
}

net_make_namespace() { # A, B or R
	local namespace=vb$$-$1$net_generation
	ip netns add "$namespace"
	net_namespaces+=("$namespace")
	net_name[$1]=$namespace
	ip -n "$namespace" link set lo up
	# Addresses are there at once: no duplicate address detection.
	ip netns exec "$namespace" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
		net.ipv6.conf.default.accept_dad=0 2>/dev/null
}

net_in() { # A or B, command
	local namespace=${net_name[$1]}
	shift
	ip netns exec "$namespace" "$@"
}

net_address() { [ "$1" = A ] && echo 10.99.0.1 || echo 10.99.0.2; }
net_address6() { [ "$1" = A ] && echo fd00:99::1 || echo fd00:99::2; }
net_link() { ip -n "${net_name[$1]}" link set eth0 "$2"; }

# A lost or doubled GSO buffer would be many packets at once.
net_offloads_off() {
	net_in "$1" ethtool -K eth0 tso off gso off gro off >/dev/null 2>&1
}

net_configure() { # A or B, MTU
	local namespace=${net_name[$1]}
	ip -n "$namespace" link set eth0 mtu "$2" up
	ip -n "$namespace" addr add "$(net_address "$1")/24" dev eth0
	ip -n "$namespace" addr add "$(net_address6 "$1")/64" dev eth0 nodad
}

net_hosts() { # MTU
	((++net_generation))
	net_make_namespace A
	net_make_namespace B
	ip link add eth0 netns "${net_name[A]}" mtu "$1" type veth \
		peer name eth0 netns "${net_name[B]}" mtu "$1"
	net_configure A "$1"
	net_configure B "$1"
}

net_route() { # A or B, the router's interface, subnet
	local host=${net_name[$1]} router=${net_name[R]}
	ip link add eth0 netns "$host" mtu 4500 type veth peer name "$2" netns "$router" mtu 4500
	ip -n "$host" link set eth0 up
	ip -n "$router" link set "$2" up
	ip -n "$host" addr add "10.$3.0.1/24" dev eth0
	ip -n "$host" addr add "fd00:$3::1/64" dev eth0 nodad
	ip -n "$router" addr add "10.$3.0.254/24" dev "$2"
	ip -n "$router" addr add "fd00:$3::fe/64" dev "$2" nodad
	ip -n "$host" route add default via "10.$3.0.254"
	ip -n "$host" route add default via "fd00:$3::fe"
}

# A 10.91.0.1 fd00:91::1  eth0 ------ r0  R  r1 ------ eth0  10.92.0.1 fd00:92::1 B
net_routed() {
	local host
	((++net_generation))
	for host in A B R; do
		net_make_namespace $host
	done
	net_in R sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	net_route A r0 91
	net_route B r1 92
}

net_hosts_impaired() { # MTU, options of impair
	local mtu=$1
	shift
	((++net_generation))
	net_make_namespace A
	net_make_namespace B
	net_impair_log=$net_tmp/impair.$net_generation
	: >"$net_impair_log"
	"$net_build/tests/net/impair" --mtu "$mtu" "$@" "${net_name[A]}" "${net_name[B]}" \
		>"$net_impair_log" 2>&1 &
	net_impair_pid=$!
	if ! net_await 10 grep -qx ready "$net_impair_log"; then
		echo "Bail out! impair did not start: $(cat "$net_impair_log")"
		exit 1
	fi
	net_offloads_off A
	net_offloads_off B
	net_configure A "$mtu"
	net_configure B "$mtu"
}

# net_await SECONDS COMMAND…: looks until the command succeeds; 1 if it did not in time.
net_await() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02 # between two looks
	done
}

net_listens() { # A or B, TCP port
	[ -n "$(net_in "$1" ss -ltnH "sport = :$2")" ]
}

# --- TAP ------------------------------------------------------------------------------------------

# shellcheck source=tests/tap.bash
. "$(dirname "${BASH_SOURCE[0]}")/../tap.bash"

# tap STATUS TEXT [LOG…]: one line; the logs are shown if the status is not 0.
tap() {
	local status=$1 text=$2
	shift 2
	if [ "$status" -eq 0 ]; then
		tap_ok "$text"
	else
		tap_not_ok "$text" "ended with $status (124 is a timeout)" "$@"
	fi
}

# --- pairs of programs ----------------------------------------------------------------------------

net_port=20000 net_limit_s=180

# net_pair ADDRESS COMMAND…: both sides get "-p PORT", the client the server's address as well.
#
# The server runs on B, the client on A. Sets $net_pair_status; logs are server and client below
# $net_tmp. A server whose client failed gets two seconds to notice.
net_pair() {
	local address=$1 server status
	shift
	((++net_port))
	: >"$net_tmp/client"
	net_in B timeout -k 5 "$net_limit_s" "$@" -p "$net_port" \
		>"$net_tmp/server" 2>&1 </dev/null &
	server=$!
	if ! net_await 20 net_listens_or_gone B "$net_port" "$server" ||
		! kill -0 "$server" 2>/dev/null; then
		kill "$server" 2>/dev/null
		wait "$server"
		net_pair_status=$?
		echo "the server ended or does not listen" >>"$net_tmp/server"
		[ "$net_pair_status" -ne 0 ] || net_pair_status=1
		return
	fi
	net_in A timeout -k 5 "$net_limit_s" "$@" -p "$net_port" "$address" \
		>"$net_tmp/client" 2>&1 </dev/null
	net_pair_status=$?
	if [ "$net_pair_status" -ne 0 ]; then
		timeout 2 tail --pid="$server" -f /dev/null
		kill "$server" 2>/dev/null
	fi
	wait "$server"
	status=$?
	[ "$net_pair_status" -ne 0 ] || net_pair_status=$status
}

net_listens_or_gone() { net_listens "$1" "$2" || ! kill -0 "$3" 2>/dev/null; }

net_pair_tap() { # text, then as net_pair
	local text=$1
	shift
	net_pair "$@"
	tap "$net_pair_status" "$text" "$net_tmp/server" "$net_tmp/client"
}

# net_row PROGRAM OPTIONS FAMILY TEXT: one pair; %g in the options is the GID index of the family.
# Those programs whose servers listen on IPv4 only exchange addresses over IPv4 in either case.
# The caller sets $verbena and $transfer.
net_row() {
	local gid=1 address command
	address=$(net_address B)
	if [ "$3" = IPv6 ]; then
		gid=2
		[ "$1" != transfer ] || address=$(net_address6 B)
	fi
	command=("$verbena" run "$1")
	[ "$1" != transfer ] || command=("$transfer")
	# shellcheck disable=SC2206 # words of the options
	command+=(${2//%g/$gid})
	net_pair_tap "$1 ${2/-[gx] %g /}, $3$4" "$address" "${command[@]}"
}

# Rows of a table, columns trimmed and separated by one "|".
net_rows() { sed -E '/^ *$/d; s/ *\| */|/g; s/ +$//' <<<"$1"; }
