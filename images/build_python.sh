#!/bin/sh
# Makes a Python environment from a requirements file, as a job of the tenant that asked for it.
#
#   build_python.sh LOCATION PYTHON REQUIREMENTS
#
# LOCATION      the environment's final place, an empty or half-built directory that this user may write; environments
#               hold their own path inside, so they are made where they stay
# PYTHON        the host's interpreter to build on
# REQUIREMENTS  what to install, in pip's format
#
# A folder `pip-bundle` in the working directory, if there is one, holds the pip to use. The last step writes
# LOCATION/berth-image.json: where that file is missing, the build did not end well.
set -eu
umask 022

if [ "$#" -ne 3 ]; then
    printf 'usage: build_python.sh LOCATION PYTHON REQUIREMENTS\n' >&2
    exit 64
fi
location=$1
python=$2
requirements=$3
bundle=$PWD/pip-bundle

step() { printf '[%s/5] %s\n' "$1" "$2"; }
stop() {
    printf 'The image was not built: %s\n' "$1" >&2
    exit "$2"
}

# pip's own isolation of source builds starts Python again; PYTHONPATH and friends must not reach into it.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' ||
    stop "$python cannot be run by this job; ask an operator which Python images are built on." 69
[ -d "$location" ] && [ -w "$location" ] || stop "this job may not write $location." 73
[ -r "$requirements" ] || stop "the requirements file is missing." 66

step 1 "Creating the environment with $("$python" --version 2>&1)"
find "$location" -mindepth 1 -delete
if [ -d "$bundle" ]; then
    "$python" -m venv --without-pip "$location"
elif "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -m venv "$location"
elif "$python" -c 'import virtualenv' 2>/dev/null; then
    "$python" -m virtualenv --quiet "$location"
elif command -v virtualenv >/dev/null 2>&1; then
    virtualenv --quiet --python "$python" "$location"
else
    stop "this host has neither python3-venv nor virtualenv; ask an operator to install one." 69
fi

run_pip() {
    if [ -d "$bundle" ]; then
        PYTHONPATH=$bundle "$location/bin/python" -m pip "$@"
    else
        "$location/bin/python" -m pip "$@"
    fi
}

hashes=
if grep -q -e '--hash=' "$requirements"; then
    hashes=--require-hashes
fi
count=$(grep -c -v -E '^[[:space:]]*(#|$|-)' "$requirements" || true)
step 2 "Installing what $count requirement(s) ask for${hashes:+, every file checked against its hash}"
# shellcheck disable=SC2086 # An empty $hashes must vanish.
run_pip install --no-input --disable-pip-version-check --no-cache-dir --progress-bar off --prefer-binary \
    $hashes -r "$requirements" ||
    stop "pip could not install the requirements; its own words are above." 1

step 3 "Checking that the packages fit together"
run_pip check --disable-pip-version-check || printf 'The environment is kept; the packages above may not work together.\n'

step 4 "Measuring"
size_kib=$(du -sk "$location" | cut -f1)
step 5 "Writing the list of packages"
"$location/bin/python" -I - "$location/berth-image.json" "$size_kib" <<'PYTHON'
import importlib.metadata
import json
import os
import platform
import sys
import sysconfig

target, size_kib = sys.argv[1:]
packages = {item.metadata["Name"]: item.version for item in importlib.metadata.distributions() if item.metadata["Name"]}
manifest = {
    "format": 1,
    "python": platform.python_version(),
    "platform": sysconfig.get_platform(),
    "size_bytes": int(size_kib) * 1024,
    "packages": [{"name": name, "version": version} for name, version in sorted(packages.items(), key=lambda item: item[0].lower())],
}
with open(target + ".part", "w", encoding="utf-8") as file:
    json.dump(manifest, file, indent=1)
os.replace(target + ".part", target)
print(f"Done: {len(packages)} packages, {int(size_kib) // 1024} MiB, Python {platform.python_version()}.", flush=True)
PYTHON
