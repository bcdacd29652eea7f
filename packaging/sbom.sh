#!/usr/bin/env bash
# Writes the list of all crates in the released files, with versions and licences, as CycloneDX: `sbom.sh FILE`.
#
# Needs cargo-cyclonedx: cargo install --locked cargo-cyclonedx
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tool writes beside each manifest, so it gets a copy of the sources.
git archive HEAD | tar -x -C "$work"
for crate in collector/cli interpose viewer; do
  (cd "$work/$crate" && cargo cyclonedx --quiet --format json --target "$(uname -m)-unknown-linux-gnu" \
    --override-filename released)
done
# Nor does the list name the folder of the copy.
sed -i "s#file://$work#file:///rankscope#g" "$work"/{collector/cli,interpose,viewer}/released.json
python3 - "$out" "$work"/{collector/cli,interpose,viewer}/released.json <<'MERGE'
import json
import sys

out, *files = sys.argv[1:]
parts = [json.load(open(file)) for file in files]
# One document: the released files, and each crate once.
main = parts[0]
roots = [part["metadata"]["component"] for part in parts]
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
