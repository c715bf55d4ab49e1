# Bars of the medians; the data blocks above come from wire.csv. Grey: TCP and UDP, green: Verbena.
set terminal pngcairo size 1500,620 font "Sans,10"
set output "wire.png"
set style fill solid 0.9 noborder
set boxwidth 0.7
set grid ytics
set xtics rotate by -40 nomirror noenhanced scale 0
set yrange [0:*]
unset key
set linetype 1 lc rgb "#8c8c8c"
set linetype 3 lc rgb "#3f9b57"
set multiplot layout 1,3 title "RoCEv2 over UDP (grey: the kernel's TCP and UDP, green: Verbena)"
set title "8 B, half a round trip, microseconds (less is better)"
plot $latency using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.1f", $3)) with labels offset 0,0.6 font ",8"
set title "bandwidth, GB/s (more is better)"
plot $bandwidth using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.2f", $3)) with labels offset 0,0.6 font ",8"
set title "bandwidth at 1 % loss, GB/s (more is better)"
plot $loss using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.2f", $3)) with labels offset 0,0.6 font ",8"
unset multiplot
