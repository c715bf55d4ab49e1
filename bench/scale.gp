# Rates over the number of threads; the data blocks above come from scale.csv.
set terminal pngcairo size 1200,520 font "Sans,10"
set output "scale.png"
set grid
set key top left
set logscale xy 2
set xlabel "threads in each process"
set yrange [*:*]
set multiplot layout 1,2 title "Several threads, each with a QP and a CQ of its own"
set title "64 KB, GB/s (more is better)"
plot $tcp with linespoints title "TCP", $bare with linespoints title "bare packets with CRC", \
	$wire_write_poll with linespoints title "wire, write", \
	$wire_read_poll with linespoints title "wire, read", \
	$local_write_poll with linespoints title "one host, write"
set title "64 B, million a second (more is better)"
plot $wire_send with linespoints title "wire, send", \
	$local_send with linespoints title "one host, send", \
	$local_small_write with linespoints title "one host, write"
unset multiplot
