# SPDX-License-Identifier: BSD-2-Clause
# The lab: guests with Soft-RoCE, and the two sides of a case. Sourced by `run`.
# shellcheck shell=bash
#
# A side is a set of functions: SIDE_start, SIDE_await, SIDE_run, SIDE_finish, SIDE_address. Servers
# write to $work/server, clients to $work/client.

export LAB=${LAB:-/tmp/rxelab-verbena} NETNS=${NETNS:-rxelab}
lab=${VERBENA_RXE_LAB:-$root/../shared/rxe-lab}
work='' lab_is_up='' deaths=0 server_pid='' server_job='' server_guest=''
our_number=1 guest_count=1
[ "$peer" = verbena ] || { our_number=12; guest_count=2; }

group=239.1.1.1 # of mckey

address() { # number, family
	if [ "$2" = IPv4 ]; then echo "198.51.100.$1"; else echo "fd00:51:100::$1"; fi
}

skip() {
	echo "1..0 # SKIP $*"
	exit 77
}

lab_begin() {
	[ -x "$lab/boot" ] || skip "there is no rxe lab at $lab (VERBENA_RXE_LAB names another)"
	[ "$(id -u)" -eq 0 ] || skip "the rxe lab needs root"
	grep -qw "^$NETNS" < <(ip netns list) &&
		skip "namespace $NETNS exists: somebody else's lab runs (or: LAB=$LAB $lab/down)"
	if [ ! -x "$verbena" ]; then
		echo "Bail out! $verbena is not there: run make first"
		exit 1
	fi
	work=$(mktemp -d "${TMPDIR:-/tmp}/verbena-interop.XXXXXX")
	trap lab_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	verbena=$(realpath "$verbena")
	transfer=${verbena%/*}/tests/clients/transfer
	[ -x "$transfer" ] || { echo "Bail out! $transfer is not there: run make first"; exit 1; }
	[ "$peer" = verbena ] || return 0
	if ! gcc -O2 -o "$work/goldgen" "$lab/goldgen.c" "${verbena%/*}/lib/libibverbs.so.1" \
		2>"$work/lab"; then
		echo "Bail out! goldgen does not compile: $(head -n 3 "$work/lab" | paste -sd' ')"
		exit 1
	fi
}

lab_end() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null
	lab_down
	[ -z "$work" ] || rm -rf "$work"
}

lab_up() { # kernel, MTU
	local guest
	export KSERIES=$1 MTU=$2
	lab_is_up=yes
	if [ ! -e "$LAB/initrd-$KSERIES.gz" ]; then
		echo "# building the guest with kernel $KSERIES in $LAB"
		"$lab/build" >"$work/lab" 2>&1 || return 1
	fi
	"$lab/boot" "$guest_count" >"$work/lab" 2>&1 || return 1
	# Peers with a timeout of half a second do not wait for a machine that stands still.
	for guest in "$LAB"/run/g*/pid; do
		renice -n -10 -p "$(cat "$guest")" >/dev/null 2>&1
	done
	# It finds the system's libibverbs there.
	for guest in "$LAB"/run/g*/share; do
		cp "$transfer" "$guest"
	done
	sed 's/^/# /' "$work/lab"
}

lab_down() {
	[ -n "$lab_is_up" ] || return 0
	"$lab/down" >/dev/null 2>&1
	lab_is_up=''
}

# --- guests that die ------------------------------------------------------------------------------

# The machine ends when its kernel panics. Nobody may have waited for it yet.
guest_lives() { # guest
	local pid state=''
	pid=$(cat "$LAB/run/g$1/pid" 2>/dev/null) || return 1
	read -r _ _ state _ 2>/dev/null <"/proc/$pid/stat"
	[ -n "$state" ] && [ "$state" != Z ]
}

complaint='Kernel panic|Oops:|kernel BUG at|BUG: (unable|kernel)'

# Whose kernel has lost a thread to an oops, or who does not answer, is as good as dead.
guest_is_well() { # guest
	guest_lives "$1" &&
		! grep -qE "$complaint" "$LAB/run/g$1/console.log" &&
		in_guest "$1" 20 true
}

lab_is_well() {
	local guest
	for ((guest = 1; guest <= guest_count; guest++)); do
		guest_is_well $guest || return 1
	done
}

last_words() { # console: from the first complaint on, or its end
	if grep -qE "$complaint" "$1"; then
		grep -E -m 1 -A 39 "$complaint" "$1"
	else
		tail -n 25 "$1"
	fi
}

# lab_again WHAT: says what happened while WHAT ran, and boots the guests anew.
lab_again() {
	local guest
	((++deaths))
	echo "# THE GUEST IS GONE (kernel $KSERIES, MTU $MTU): it died during $1"
	for ((guest = 1; guest <= guest_count; guest++)); do
		echo "# --- console of guest $guest"
		last_words "$LAB/run/g$guest/console.log" | tr -d '\r' | sed 's/^/#   /'
	done
	lab_down
	lab_up "$KSERIES" "$MTU" && return
	sed 's/^/#   /' "$work/lab"
	lab_down
	return 1
}

# --- a guest as a side ----------------------------------------------------------------------------

job_start() { # guest, limit, command: prints the name of the job
	guest_lives "$1" || return 125
	timeout 30 "$lab/guest" "$1" -b -t "$2" "$3"
}

# Its status; 124: it does not end in time, 125: the guest is gone.
job_await() { # guest, job, seconds, log
	local until=$((SECONDS + $3)) job="$LAB/run/g$1/share/q/$2" status=''
	until [ -e "$job.rc" ]; do
		[ "$SECONDS" -lt "$until" ] || status=124
		guest_lives "$1" || status=125
		[ -z "$status" ] || break
		sleep 0.05
	done
	cp "$job.out" "$4" 2>/dev/null
	return "${status:-$(cat "$job.rc")}"
}

in_guest() { # guest, limit, command
	local job
	job=$(job_start "$@") || return
	job_await "$1" "$job" $(($2 + 15)) /dev/null
}

in_guest_start() { # guest, limit, command
	server_guest=$1
	server_job=$(job_start "$1" "$2" "$(guest_command "$3")")
}

# mckey destroys its QP as soon as it has posted. rxe of 6.12 drops what is posted but not sent by
# then: often nothing at all leaves the guest. So each post waits a little there.
patient='strace -f -o /dev/null -e trace=write -e inject=write:delay_exit=50000'

guest_command() {
	local program=${1%% *}
	local command="$program -d rxe0 ${1#* }"
	! by_address "$program" || command=$1
	[[ $1 != 'mckey -s '* ]] || command="$patient $1"
	[ "$program" != transfer ] || command=/lab/$command
	[[ $program != ib_* ]] || command+=' -F'
	echo "$command"
}

in_guest_await() { # guest, program, port: one question to the guest, which looks until it is so
	local question="netstat -ltn | grep ':$3 ' >/dev/null"
	! by_address "$2" || question="rdma resource show cm_id | grep 'LISTEN.*:$3 ' >/dev/null"
	[ "$2" != mckey ] || question="ip maddr show | grep 'inet *$group' >/dev/null"
	in_guest "$1" 20 "i=0; until $question; do
		i=\$((i + 1)); [ \$i -lt 300 ] || exit 1; usleep 30000; done"
}

in_guest_run() { # guest, limit, command
	local job
	job=$(job_start "$1" "$2" "$(guest_command "$3")") || return
	job_await "$1" "$job" $(($2 + 15)) "$work/client"
}

# The guest's own limit ends a server that hangs; here we wait a little and no more.
in_guest_finish() { # seconds
	[ -n "$server_job" ] || return 125
	job_await "$server_guest" "$server_job" "$1" "$work/server"
}

guest_start() { in_guest_start 1 "$@"; }
guest_await() { in_guest_await 1 "$@"; }
guest_run() { in_guest_run 1 "$@"; }
guest_finish() { in_guest_finish "$@"; }
guest_address() { address 11 "$1"; }

# --- our side: in the lab's namespace, or a second guest ------------------------------------------

our_command() { # limit, command: sets $command
	local words
	read -ra words <<<"$2"
	[[ ${words[0]} != ib_* ]] || words+=(-F)
	[ "${words[0]}" != goldgen ] || words[0]=$work/goldgen
	[ "${words[0]}" != transfer ] || words[0]=$transfer
	command=(ip netns exec "$NETNS" env VERBENA_DEVICES=br0 timeout -k 2 "$1" "$verbena" run
		"${words[@]}")
}

ours_start() { # limit, command
	local command
	[ "$peer" = verbena ] || { in_guest_start 2 "$@"; return; }
	our_command "$@"
	"${command[@]}" >"$work/server" 2>&1 </dev/null &
	server_pid=$!
}

# Who listens claims the port first and opens the socket for other hosts last.
our_server_is_ready() { # program, port
	if [ "$1" = mckey ]; then
		grep -q "inet *$group" < <(ip -n "$NETNS" maddr show)
	elif by_address "$1"; then
		ip netns exec "$NETNS" cat /proc/net/unix |
			grep -qa "@verbena\.cm\.[0-9a-f]*\.$2\.[46]" &&
			[ -n "$(ip netns exec "$NETNS" ss -lunH 'sport = :4791')" ]
	else
		[ -n "$(ip netns exec "$NETNS" ss -ltnH "sport = :$2")" ]
	fi
}

ours_await() { # program, port
	local until=$((SECONDS + 20))
	[ "$peer" = verbena ] || { in_guest_await 2 "$@"; return; }
	until our_server_is_ready "$@"; do
		kill -0 "$server_pid" 2>/dev/null && [ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02
	done
}

ours_run() { # limit, command
	local command
	[ "$peer" = verbena ] || { in_guest_run 2 "$@"; return; }
	our_command "$@"
	"${command[@]}" >"$work/client" 2>&1 </dev/null
}

ours_finish() { # seconds
	local status
	[ "$peer" = verbena ] || { in_guest_finish "$@"; return; }
	timeout "$1" tail --pid="$server_pid" -f /dev/null
	kill "$server_pid" 2>/dev/null
	wait "$server_pid"
	status=$?
	server_pid=''
	return $status
}

ours_address() { address "$our_number" "$1"; }

# --- loss -----------------------------------------------------------------------------------------

# Ten per cent of what a guest sends; five of what we send, behind our sockets' back.
lossy_begin() {
	local guest
	for ((guest = 1; guest <= guest_count; guest++)); do
		in_guest $guest 30 'modprobe sch_netem; tc qdisc add dev eth0 root netem loss 10%'
	done
	[ "$peer" = verbena ] || return 0
	ip netns exec "$NETNS" nft -f - <<-RULES
		table netdev loss {
			chain out {
				type filter hook egress device "br0" priority 0;
				udp dport 4791 numgen random mod 100 < 5 drop
			}
		}
	RULES
}

lossy_end() {
	local guest
	for ((guest = 1; guest <= guest_count; guest++)); do
		in_guest $guest 30 'tc qdisc del dev eth0 root'
	done
	[ "$peer" = verbena ] || return 0
	ip netns exec "$NETNS" nft delete table netdev loss
}
