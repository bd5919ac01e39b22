#!/bin/sh
# Has a grandchild that never ends.
sleep 60 &
echo up
wait
