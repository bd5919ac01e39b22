#!/bin/sh
# Lives on beside a grandchild in a session of its own.
setsid sh -c 'exec sleep 60 >/dev/null 2>&1' &
echo up
while :; do sleep 0.1; done
