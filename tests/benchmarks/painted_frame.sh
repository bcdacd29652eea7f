#!/usr/bin/env bash
# Measures the cost of a frame in a real window with software OpenGL (Mesa under Xvfb), painting included. Held keys
# zoom and move the window.
#   tests/benchmarks/painted_frame.sh SESSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
viewer=$PWD/${CARGO_TARGET_DIR:-target}/release/rankscope-viewer
session=$1
work=$(mktemp -d)
exec 3< <(exec Xvfb -displayfd 1 -screen 0 1920x1080x24 -nolisten tcp 2>/dev/null)
server=$!
read -r number <&3
export DISPLAY=:$number HOME=$work LIBGL_ALWAYS_SOFTWARE=1 RANKSCOPE_LOG=rankscope_viewer::app=trace NO_COLOR=1
unset WAYLAND_DISPLAY
"$viewer" "$session" --size 1920x1080 2>"$work/frames" &
program=$!
trap 'kill $program $server 2>/dev/null || true; rm -rf "$work"' EXIT
until xdotool search --onlyvisible --name '^rankscope$' >"$work/window"; do sleep 0.2; done
xdotool windowfocus --sync "$(head -n 1 "$work/window")"
sleep 4
: >"$work/frames"
for key in w d w d a s w w d s a; do
  xdotool keydown $key && sleep 1 && xdotool keyup $key && sleep 0.3
done
grep -ao 'painted_ms=[0-9.]*' "$work/frames" | cut -d= -f2 | sort -n >"$work/sorted"
frames=$(wc -l <"$work/sorted")
at() { sed -n "$((frames * $1 / 100 + 1))p" "$work/sorted"; }
printf '%d frames of 1920 x 1080 painted by software: p50 %.1f ms, p99 %.1f ms\n' "$frames" "$(at 50)" "$(at 99)"
