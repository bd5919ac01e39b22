#!/bin/sh
# Starts a grandchild in a session of its own, which no group kill reaches, and fails as soon as that one is there.
trap 'exit 1' USR1
setsid sh -c 'echo "escapee $$"; kill -USR1 "$1"; exec sleep 60 >/dev/null 2>&1' sh "$$" &
while :; do sleep 0.05; done
