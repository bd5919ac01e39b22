#!/bin/sh
# Starts and says nothing ever after.
while :; do sleep 0.1; done
