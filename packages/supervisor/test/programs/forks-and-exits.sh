#!/bin/sh
# Leaves a grandchild behind that holds its pipes.
sleep 60 &
echo "grandchild $!"
exit 3
