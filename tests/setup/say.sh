# Sourced by the scripts beside it. Messages go to standard error: standard output is for answers.
# Without something the tests that want it are skipped; CI accepts no skip.

say() {
    echo "setup: $*" >&2
}

skip() {
    say "skipped: $*"
    if [ "${CI:-}" = true ]; then
        say "CI=true: a skip is a failure"
        exit 1
    fi
}
