# Shared functions of the scripts in this directory. Messages go to standard error: standard output is for answers. If
# something is missing, the tests that need it are skipped. CI accepts no skip.

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
