#!/usr/bin/env bash
# Every Triton program under NVIDIA's compute-sanitizer; what it found goes into a small table.
#
#     benchmarks/kernels/sanitised.sh OUT.md
#
# PYTHON is the interpreter (.venv's, or else python3), COMPUTE_SANITIZER the tool where it is not on the path, TOOLS which of
# its tools to run (memcheck, racecheck, synccheck; initcheck may be added). Exit status: 0 where every tool found nothing, 1
# where one found something or a program failed, 2 where nothing could be run.
set -uo pipefail

fail() {
    echo "sanitised.sh: $1" >&2
    exit 2
}

[ $# -eq 1 ] || fail "expected one argument, the file to write: benchmarks/kernels/sanitised.sh OUT.md"
out=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    [ -x "$root/.venv/bin/python" ] && PYTHON=$root/.venv/bin/python
fi
TOOLS=${TOOLS:-memcheck racecheck synccheck}
export PYTHONPATH="$root/src${PYTHONPATH:+:$PYTHONPATH}"

sanitizer=${COMPUTE_SANITIZER:-}
if [ -z "$sanitizer" ]; then
    for place in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" /usr/local/cuda*/bin/compute-sanitizer \
        /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
        if sanitizer=$(command -v "$place"); then break; fi
    done
fi
[ -n "$sanitizer" ] || fail "expected compute-sanitizer, which comes with the CUDA toolkit, on the path or in COMPUTE_SANITIZER; found none"
command -v "$sanitizer" >/dev/null || fail "COMPUTE_SANITIZER: expected the tool, found nothing to run at $sanitizer"
"$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || fail "expected a GPU that PyTorch can use, found none"

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# Families compile side by side, into Triton's cache, from which the runs under the tool take them.
families="additive decoder edges local location statistics"
running=()
for family in $families; do
    "$PYTHON" "$here/every_program.py" --only "$family" >"$logs/$family" 2>&1 &
    running+=($!)
done
for job in "${running[@]}"; do wait "$job" || true; done

programs() {
    "$@" "$PYTHON" "$here/every_program.py"
}

if ! programs env >"$logs/plain" 2>&1; then
    cat "$logs/plain" >&2
    echo "sanitised.sh: the programs fail by themselves; the tool was not run" >&2
    exit 1
fi

found=0
rows=()
for tool in $TOOLS; do
    options=(--tool "$tool" --error-exitcode 9 --print-limit 20)
    # Beyond each tensor lie 64 bytes that are nobody's.
    [ "$tool" = memcheck ] && options+=(--padding 64)
    began=$SECONDS
    # Without PyTorch's cache every tensor is an allocation of its own, whose end the tool knows.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 programs "$sanitizer" "${options[@]}" >"$logs/$tool" 2>&1
    status=$?
    summary=$(grep -E 'SUMMARY' "$logs/$tool" | tail -n 1 | sed 's/^=* *//')
    if ! grep -q 'all answers the reference' "$logs/$tool"; then
        summary="the programs did not finish under it (exit status $status)${summary:+; $summary}"
    fi
    if [ -z "$summary" ]; then summary="no summary (exit status $status)"; fi
    if [ $status -ne 0 ] || ! echo "$summary" | grep -qE '(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)'; then
        found=1
        echo "---- $tool" >&2
        grep -vE '^(additive|decoder|edges|local|location|statistics)\.' "$logs/$tool" | head -n 200 >&2
    fi
    where=$(grep -oE '=+ +at [A-Za-z_0-9]+' "$logs/$tool" | sed 's/.* at //' | sort -u | paste -sd ' ')
    rows+=("| $tool | $summary | ${where:-–} | $((SECONDS - began)) |")
done

{
    echo "# Every Triton program under compute-sanitizer"
    echo
    "$PYTHON" - <<'PYTHON_ENDS'
import datetime, platform, torch, triton, saccade

print(
    f"{datetime.date.today()}, {torch.cuda.get_device_name()}. Python {platform.python_version()}, torch {torch.__version__}, "
    f"triton {triton.__version__}, saccade {saccade.__version__},"
)
PYTHON_ENDS
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
    echo "driver ${driver:-unknown}, $("$sanitizer" --version | grep -iE 'version' | head -n 1). \`benchmarks/kernels/sanitised.sh OUT.md\`"
    echo
    echo "| tool | its summary | where | s |"
    echo "|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
    echo
    echo "What was launched, forward and backward, and its largest error against float64 over what is allowed:"
    echo
    echo '```'
    cat "$logs/plain"
    echo '```'
} >"$out"
cat "$out"
exit $found
