# SPDX-License-Identifier: BSD-2-Clause
# Completion of verbena(1) for fish.
set -l commands run devices info resources top capture trace why doctor
complete -c verbena -f
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -l help -d 'list the commands'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -l version -d 'print the version'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a run \
	-d 'run a program with Verbena\'s RDMA libraries'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a devices \
	-d 'list the RDMA devices of this host'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a info \
	-d 'print all attributes of the devices and this installation'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a resources \
	-d 'list the RDMA objects of the processes of this host'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a top \
	-d 'show the queue pairs of this host by their traffic'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a capture \
	-d 'write the RDMA traffic of this host to a file of packets'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a trace \
	-d 'write a time line of work requests, for Perfetto'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a why \
	-d 'say what programs wait for that do not go on'
complete -c verbena -n "not __fish_seen_subcommand_from $commands" -a doctor \
	-d 'find limits of Verbena on this host, and give advice'
complete -c verbena -n "__fish_seen_subcommand_from $commands" -l help -d 'explain the command'
complete -c verbena -n '__fish_seen_subcommand_from run' -l explain -d 'explain failures'
complete -c verbena -n '__fish_seen_subcommand_from run' -l quiet -d 'no line at the end'
complete -c verbena -n '__fish_seen_subcommand_from run' -l trace -r -d 'write a time line'
complete -c verbena -n '__fish_seen_subcommand_from run' -l trace-limit -x \
	-d 'write no more megabytes of it'
complete -c verbena -n '__fish_seen_subcommand_from run' -l check \
	-d 'report misuse of verbs that happens to work'
complete -c verbena -n '__fish_seen_subcommand_from run' -l as -x \
	-a 'bnxt efa hns irdma mlx5 rxe siw' -d 'limits of another device'
complete -c verbena -n '__fish_seen_subcommand_from run' -l adversary \
	-d 'use every freedom of the specification'
complete -c verbena -n '__fish_seen_subcommand_from run' -l sockets -d 'TCP connections use RDMA'
complete -c verbena -n '__fish_seen_subcommand_from run' -l system -d 'the machine\'s own RDMA devices, too'
complete -c verbena -n '__fish_seen_subcommand_from run' -l no-sysfs -d 'the machine\'s own files'
complete -c verbena -n '__fish_seen_subcommand_from run' -l anyway -d 'run any program'
complete -c verbena -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand)'
complete -c verbena -n '__fish_seen_subcommand_from resources' -s j -l json -d 'print JSON'
complete -c verbena -n '__fish_seen_subcommand_from resources' -s p -l pid -x \
	-a '(__fish_complete_pids)' -d 'only this process'
complete -c verbena -n '__fish_seen_subcommand_from resources' -a 'pd cq mr mw srq qp xrcd cm_id'
complete -c verbena -n '__fish_seen_subcommand_from why' -s w -l watch -x \
	-d 'tell when nothing has moved for so many seconds'
complete -c verbena -n '__fish_seen_subcommand_from why' -a '(__fish_complete_pids)'
complete -c verbena -n '__fish_seen_subcommand_from top' -s 1 -l once -d 'print one table'
complete -c verbena -n '__fish_seen_subcommand_from top' -s j -l json -d 'print JSON'
complete -c verbena -n '__fish_seen_subcommand_from top' -s n -l interval -x \
	-d 'seconds between samples'
complete -c verbena -n '__fish_seen_subcommand_from top' -s p -l pid -x \
	-a '(__fish_complete_pids)' -d 'only this process'
complete -c verbena -n '__fish_seen_subcommand_from top' -s s -l sort -x \
	-a 'bytes messages waiting pid' -d 'order'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s o -l output -r \
	-d 'the file to write'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s p -l pid -x \
	-a '(__fish_complete_pids)' -d 'only this process'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s q -l qp -x -d 'only this QP'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s d -l device -x -d 'only this device'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s b -l bytes -x \
	-d 'bytes of payload to keep'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s c -l count -x \
	-d 'end after so many packets'
complete -c verbena -n '__fish_seen_subcommand_from capture' -s s -l seconds -x \
	-d 'end after so many seconds'
complete -c verbena -n '__fish_seen_subcommand_from capture' -l quiet -d 'no summary'
complete -c verbena -n '__fish_seen_subcommand_from trace' -s o -l output -r -d 'the file to write'
complete -c verbena -n '__fish_seen_subcommand_from trace' -s p -l pid -x \
	-a '(__fish_complete_pids)' -d 'only this process'
complete -c verbena -n '__fish_seen_subcommand_from trace' -s s -l seconds -x \
	-d 'end after so many seconds'
complete -c verbena -n '__fish_seen_subcommand_from trace' -s l -l limit -x \
	-d 'write no more megabytes'
complete -c verbena -n '__fish_seen_subcommand_from trace' -l quiet -d 'no summary'
