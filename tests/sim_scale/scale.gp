# Incast by the number of senders: our rules, DCQCN's and halving. The data come from scale.csv.
set terminal pngcairo size 1500,520 font "Sans,10"
set output "scale.png"
set logscale x 2
set xlabel "senders"
set grid
set key bottom left
set linetype 1 lc rgb "#3f9b57" lw 2
set linetype 2 lc rgb "#4a78b5" lw 2
set linetype 3 lc rgb "#8c8c8c" lw 2
set multiplot layout 1,3 title "N hosts write to one, 40 Gb/s"
set title "goodput of the link (more is better)"
set yrange [0:1.05]
plot "verbena.dat" using 1:2 with linespoints title "Verbena", \
	"dcqcn.dat" using 1:2 with linespoints title "DCQCN", \
	"halving.dat" using 1:2 with linespoints title "halving"
set title "Jain's fairness (more is better)"
plot "verbena.dat" using 1:3 with linespoints title "Verbena", \
	"dcqcn.dat" using 1:3 with linespoints title "DCQCN", \
	"halving.dat" using 1:3 with linespoints title "halving"
set title "queue, KB: mean and 99 % (less is better)"
set yrange [0:*]
plot "verbena.dat" using 1:4:4:5 with yerrorlines title "Verbena", \
	"dcqcn.dat" using 1:4:4:5 with yerrorlines title "DCQCN", \
	"halving.dat" using 1:4:4:5 with yerrorlines title "halving"
unset multiplot
