#!/bin/sh
# Starts a grandchild in a session of its own, which no group kill reaches, and fails.
setsid sh -c 'echo "escapee $$"; exec sleep 60 >/dev/null 2>&1' &
sleep 0.3
exit 1
