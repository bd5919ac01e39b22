#!/bin/sh
# Takes its time, and shows that it gets on: a line of its own for each one that it is given.
for part in 1 2 3 4 5 6 7 8 9; do echo "loading $part of 9" >&2; read -r _; done
echo ready >&2
exec cat > /dev/null
