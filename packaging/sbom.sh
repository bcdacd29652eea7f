#!/usr/bin/env bash
# Writes the list of all crates in the released files for both machines, with versions and licences, as CycloneDX: `sbom.sh FILE`.
#
# Needs cargo-cyclonedx: cargo install --locked cargo-cyclonedx
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tool writes beside each manifest, so it gets a copy of the sources.
git archive HEAD | tar -x -C "$work"
files=()
for machine in x86_64 aarch64; do
  for crate in collector/cli collector/sql collector/cluster interpose viewer; do
    (cd "$work/$crate" && cargo cyclonedx --quiet --format json --target "$machine-unknown-linux-gnu" \
      --override-filename "released-$machine")
    files+=("$work/$crate/released-$machine.json")
  done
done
# Nor does the list name the folder of the copy.
sed -i "s#file://$work#file:///rankscope#g" "${files[@]}"
python3 - "$out" "${files[@]}" <<'MERGE'
import json
import sys

out, *files = sys.argv[1:]
parts = [json.load(open(file)) for file in files]
# One document: the released files, and each crate once. Both machines have the same files.
main = parts[0]
roots = list({part["metadata"]["component"]["bom-ref"]: part["metadata"]["component"] for part in parts}.values())
main["metadata"]["component"] = {
    "type": "application", "bom-ref": "rankscope", "name": "rankscope", "version": roots[0]["version"], "components": roots,
}
crates = {crate["bom-ref"]: crate for part in parts for crate in part["components"]}
main["components"] = [crates[name] for name in sorted(crates)]
needs = {}
for part in parts:
    for entry in part["dependencies"]:
        needs.setdefault(entry["ref"], set()).update(entry.get("dependsOn", []))
main["dependencies"] = [{"ref": name, "dependsOn": sorted(needs[name])} for name in sorted(needs)]
json.dump(main, open(out, "w"), indent=1)
MERGE
