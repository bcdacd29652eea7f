#!/bin/sh
# Starts a Ray cluster that knows nothing of rankscope, and runs a script on it. Its workers get the variables of rankscope by
# the job's runtime environment, as the book advises.
#     on_ray_cluster.sh FOLDER_OF_RAY PORT SCRIPT
set -eu
# The cluster is of this machine alone.
export RAY_AUTH_MODE=disabled
bin=$1 port=$2
folder=$(mktemp -d)
ray() {
    env -u LD_PRELOAD -u RANKSCOPE_DIR -u NVTX_INJECTION64_PATH -u NCCL_PROFILER_PLUGIN "$bin/ray" "$@" >"$folder/log" 2>&1 ||
        { cat "$folder/log" >&2; exit 1; }
}
trap 'ray stop --force; rm -rf "$folder"' EXIT
ray start --head --port "$port" --num-cpus 3 --include-dashboard false --temp-dir "$folder"
if [ -n "${RANKSCOPE_DIR:-}" ]; then
    RAY_JOB_CONFIG_JSON_ENV_VAR='{"runtime_env": {"env_vars": {"LD_PRELOAD": "'$LD_PRELOAD'", "RANKSCOPE_DIR": "'$RANKSCOPE_DIR'"}}}'
    export RAY_JOB_CONFIG_JSON_ENV_VAR
fi
# The driver itself is not preloaded.
env -u LD_PRELOAD -u RANKSCOPE_DIR RAY_ADDRESS="127.0.0.1:$port" "$bin/python" "$3"
