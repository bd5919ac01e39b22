#!/bin/sh
# Prints what it was given to keep.
echo "using key $SERVICE_API_KEY and Authorization: Bearer abcdefghijklmnop" >&2
echo "-----BEGIN PRIVATE KEY-----" >&2
echo "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" >&2
echo "-----END PRIVATE KEY-----" >&2
echo "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory" >&2
exit 1
