#!/usr/bin/env bash
# Prints a Python with two independent Parquet readers: Arrow's, which comes with Holistic Trace Analysis, and DuckDB
# (about 50 MB more).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
python=$("$here/hta.sh") || exit 1

has_readers() {
    (cd / && "$python" -c 'import duckdb, pyarrow.parquet') >/dev/null 2>&1
}

exec 9>"$(dirname "$(dirname "$python")").tables.lock"
flock 9
if ! has_readers; then
    say "installing DuckDB beside $python"
    if ! "$python" -m pip install --quiet --disable-pip-version-check duckdb pyarrow >&2 || ! has_readers; then
        skip "DuckDB could not be installed"
        exit 1
    fi
fi
echo "$python"
