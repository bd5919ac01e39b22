#!/bin/sh
# Does not end when it is asked to.
trap '' TERM
echo up >&2
while :; do sleep 0.1; done
