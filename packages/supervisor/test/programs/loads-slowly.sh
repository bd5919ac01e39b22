#!/bin/sh
# Takes its time, and shows that it gets on.
for part in 1 2 3 4 5 6 7 8 9; do echo "loading $part of 9" >&2; sleep 0.02; done
echo ready >&2
while :; do sleep 0.1; done
