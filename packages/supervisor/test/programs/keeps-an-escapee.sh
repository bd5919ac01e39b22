#!/bin/sh
# Lives on beside a grandchild in a session of its own, which tells when it is there.
setsid sh -c 'echo up; exec sleep 60 >/dev/null 2>&1' &
while :; do sleep 0.1; done
