#!/bin/sh
# Takes one line and no more.
read -r _
echo up
while :; do sleep 0.1; done
