#!/bin/sh
# Runs the main job for real: admits an order, runs a worker, shows the record.
set -eu
bin="$1"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -R workflows "$place/workflows"
cd "$place"
PATH="$bin:$PATH"
export PATH

say() { printf '\n$ %s\n' "$*"; "$@"; }

say ys trigger charge-order --id order-42 -p order=42 -p wait=2s
say ys show order-42
say ys worker --until-idle --linger 10s -v
say ys show order-42
printf '\n# The same trigger again is refused: order-42 is admitted once, for ever.\n'
say ys trigger charge-order --id order-42 -p order=42 -p wait=2s || printf '(exit %s)\n' "$?"
