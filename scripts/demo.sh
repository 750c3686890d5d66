#!/bin/sh
# Runs the main jobs for real: an order is admitted, charged and shown; a refund waits for a yes.
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
printf '\n# An execution may wait for people: a refund is paid once somebody says yes.\n'
say ys trigger refund --id refund-7 -p order=7 -p cents=1250
say ys worker --until-idle -v
say ys explain refund-7
say ys approve refund-7 --note goodwill
say ys worker --until-idle -v
say ys show refund-7
