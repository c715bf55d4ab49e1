# shellcheck shell=bash
# Shell functions of scripts/demo and the benchmarks: run an unmodified client and server program on
# two cores of this host, and read the figures that they print.
#
# Nothing here has a fixed name or port: any number of runs, of any number of users, do not meet,
# and a run that was killed leaves nothing that stands in the way of the next one.

project_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=${BUILD:-build}
[[ $build_dir = /* ]] || build_dir=$project_root/$build_dir

pair_limit_s=180 # no single pair of programs may take longer, on a loaded machine either
server_out= # what the server printed
client_out= # what the client, or a program alone, printed
server_pid=
client_pid=
server_cpu=
client_cpu=
cycles_mhz=
# Where the two run, if not side by side: commands that put them there, and what the client calls
# the server's host.
server_host=()
client_host=()
server_address=127.0.0.1

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# --- setting up and cleaning up ----------------------------------------------------------------

setup() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || die "$program is missing; try: make deps"
	done
	for program in verbena bench/cycles; do
		[ -x "$build_dir/$program" ] || die "$build_dir/$program is missing; try: make"
	done
	trap stop_pair EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	open_scratch server_out
	open_scratch client_out
	pick_cpus
	cycles_mhz=$("$build_dir/bench/cycles")
}

# Sets variable $1 to the name of an empty file that has no name in any folder: it is gone when this
# shell is, however that ends.
open_scratch() {
	local file descriptor
	file=$(mktemp)
	exec {descriptor}<>"$file"
	rm "$file"
	printf -v "$1" '/proc/%d/fd/%d' "$$" "$descriptor"
}

# Client first: "timeout" passes the signal on to the program that it runs.
stop_pair() {
	local pid
	for pid in $client_pid $server_pid; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	client_pid='' server_pid=''
}

# Two CPUs of different physical cores that we may run on; with only one, nothing is pinned.
pick_cpus() {
	local picked
	picked=$(lscpu --parse=CPU,CORE,SOCKET | awk -F, -v allowed="$(allowed_cpus)" '
		function is_allowed(cpu, n, i, ranges, ends) {
			n = split(allowed, ranges, ",")
			for (i = 1; i <= n; i++) {
				if (split(ranges[i], ends, "-") == 1)
					ends[2] = ends[1]
				if (cpu + 0 >= ends[1] + 0 && cpu + 0 <= ends[2] + 0)
					return 1
			}
			return 0
		}
		!/^#/ && is_allowed($1) && !seen[$2, $3]++ { print $1 }' |
		head -n 2 | paste -s -d ' ')
	read -r server_cpu client_cpu <<<"$picked" || true
	if [ -n "$client_cpu" ]; then
		export BENCH_CPUS=$client_cpu,$server_cpu
	else
		server_cpu=''
	fi
}

allowed_cpus() {
	awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status
}

# --- a pair of programs --------------------------------------------------------------------------

# The TCP sockets of the host that process $1 (default: this one) is on.
tcp_table() {
	cat "/proc/${1:-self}/net/tcp" "/proc/${1:-self}/net/tcp6" 2>/dev/null || true
}

# Prints a TCP port that nobody uses, below the range from which the kernel hands out its own.
pick_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		tcp_table | awk -v port="$(printf ':%04X' "$port")" \
			'substr($2, length($2) - 4) == port { used = 1 } END { exit used }' && break
	done
	echo "$port"
}

# Does process $1 listen on port $2? Asked of the kernel: a trial connection would be taken for the
# client, and a look at the port alone could see somebody else's server.
listens_on() {
	local sockets
	sockets=$(tcp_table "$1" | awk -v port="$(printf ':%04X' "$2")" \
		'$4 == "0A" && substr($2, length($2) - 4) == port { print "socket:[" $10 "]" }')
	[ -n "$sockets" ] || return 1
	grep -qxF "$sockets" < <(readlink "/proc/$1/fd/"* 2>/dev/null)
}

# Both run pinned and die with this shell, even if that is killed with SIGKILL. The server's pid is
# that of the program itself, because each of these commands replaces itself by the next.
start_server() {
	local pin=()
	[ -z "$server_cpu" ] || pin=(taskset -c "$server_cpu")
	setpriv --pdeathsig KILL "${pin[@]}" "${server_host[@]}" "$@" \
		>"$server_out" 2>&1 </dev/null &
	server_pid=$!
}

start_client() {
	local pin=()
	[ -z "$client_cpu" ] || pin=(taskset -c "$client_cpu")
	setpriv --pdeathsig TERM timeout -k 2 "$pair_limit_s" "${pin[@]}" "${client_host[@]}" "$@" \
		>"$client_out" 2>&1 </dev/null &
	client_pid=$!
}

is_running() {
	[ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

# Waits up to $1 seconds until the server listens on port $2.
await_listening() {
	local deadline=$((SECONDS + $1))
	until listens_on "$server_pid" "$2"; do
		is_running "$server_pid" || return 1
		((SECONDS < deadline)) || return 1
		sleep 0.01
	done
}

# Waits up to $1 seconds until the server has ended, and gives back its exit status.
await_server() {
	local deadline=$((SECONDS + $1)) status=0
	while is_running "$server_pid"; do
		if ((SECONDS >= deadline)); then
			echo "The server did not end after its client." >>"$server_out"
			stop_pair
			return 1
		fi
		sleep 0.01
	done
	wait "$server_pid" || status=$?
	server_pid=''
	return "$status"
}

# Runs "$@" as server, and with the server's address as client, each with "-p PORT" added.
run_pair() {
	run_two "$@" -p %p -- "$@" -p %p %a
}

# run_two SERVER… -- CLIENT…: %p stands for a port that both agree on, %a for the server's address.
run_two() {
	local port attempts=5 status=0
	local -a server=() client=()
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	client=("${@:2}")
	: >"$client_out"
	while ((attempts-- > 0)); do
		port=$(pick_port)
		start_server "${server[@]//%p/$port}"
		await_listening 20 "$port" && break
		stop_pair
		# Another run may have taken the port between the look and the bind.
		grep -qi 'address already in use\|bind\|listen\|accept' "$server_out" || return 1
	done
	[ -n "$server_pid" ] || return 1
	client=("${client[@]//%p/$port}")
	start_client "${client[@]//%a/$server_address}"
	wait "$client_pid" || status=$?
	client_pid=''
	if ((status != 0)); then
		((status != 124)) || echo "No end after $pair_limit_s s." >>"$client_out"
		stop_pair
		return 1
	fi
	await_server 10
}

show_failure() {
	echo
	echo "FAILED: $*"
	if [ -s "$server_out" ]; then
		echo '--- the server printed:'
		sed 's/^/    /' "$server_out"
	fi
	echo '--- the client printed:'
	sed 's/^/    /' "$client_out"
	echo '---'
}

# Runs one program that brings its own second process.
run_alone() {
	local status=0
	: >"$server_out"
	setpriv --pdeathsig TERM timeout -k 2 "$pair_limit_s" "$@" \
		>"$client_out" 2>&1 </dev/null &
	client_pid=$!
	wait "$client_pid" || status=$?
	client_pid=''
	((status != 124)) || echo "No end after $pair_limit_s s." >>"$client_out"
	return "$status"
}

# --- perftest ------------------------------------------------------------------------------------
#
# Each of these leaves its figure in $value. (A command substitution would run the pair in a
# subshell, where the traps of this shell cannot reach it.)

value=

# Runs a perftest program on Verbena: perftest PROGRAM OPTION…
perftest() {
	run_pair "$build_dir/verbena" run "$@" -F
}

# Column $1 of the last result row of the client.
perftest_column() {
	awk -v column="$1" '
		$1 == "#bytes" { table = 1; next }
		table && $1 ~ /^[0-9]+$/ && $column ~ /^[0-9.]+$/ { value = $column }
		END { if (value == "") exit 1; print value }' "$client_out"
}

# Median latency in microseconds: half the round trip for send and write, all of it for read and
# atomic. Asked for in cycles, because perftest's two decimals of a microsecond are too coarse.
perftest_latency() {
	local typical in_cycles=()
	[ "$cycles_mhz" = 0 ] || in_cycles=(-C)
	perftest "$@" "${in_cycles[@]}" && typical=$(perftest_column 5) || return 1
	value=$(awk -v typical="$typical" -v mhz="$cycles_mhz" \
		'BEGIN { printf "%.4f", (mhz > 0 ? typical / mhz : typical) }')
}

# Average bandwidth in GB/s (10^9; perftest's own unit is 2^20 bytes a second).
perftest_bandwidth() {
	local mib
	perftest "$@" -N && mib=$(perftest_column 4) || return 1
	value=$(awk -v mib="$mib" 'BEGIN { printf "%.3f", mib * 1048576 / 1e9 }')
}

# Million messages a second.
perftest_rate() {
	# shellcheck disable=SC2034 # read by the scripts that include this file
	perftest "$@" -N && value=$(perftest_column 5)
}
