#!/bin/sh
# The half of a build that runs a Containerfile, as a job of the tenant that asked for it.
#
#   build_container.sh LOCATION CONTAINERFILE BASES PIP APT [REQUIREMENTS]
#
# LOCATION       a directory that both halves of the build see and may write
# CONTAINERFILE  what to build, from the images that the other half fetches; the working directory is the context
# BASES          a file: one image a line, its number, its reference, its name in the build, with tabs between
# PIP            pip's settings, a secret of the build with the id `pip`
# APT            a file of settings for Debian's package manager, or `-`
# REQUIREMENTS   a file that is put into the context as requirements.txt
#
# It runs as user 0 of a user namespace that has this tenant's rights and no others, and under a filter that lets it mount and
# change its root there. It knows no account and asks no registry.
set -eu
umask 022

location=$1
containerfile=$2
bases=$3
pip=$4
apt=$5
requirements=${6:-}
shared=$location/attempt-$BERTH_ATTEMPT
storage=$HOME/storage
copy=$TMPDIR/steps
pipe=$TMPDIR/pipe

stop() {
    printf '%s\n' "$1" >&2
    printf '%s\n' "$1" >"$location/error.txt.part"
    mv -f "$location/error.txt.part" "$location/error.txt"
    exit "$2"
}
run_buildah() { buildah --storage-driver vfs --root "$storage/root" --runroot "$storage/run" "$@"; }

command -v buildah >/dev/null ||
    stop "This host cannot build container images: ask an operator to install the Debian packages buildah and skopeo." 69

# No other user namespace is needed, and none can be made here.
_CONTAINERS_USERNS_CONFIGURED=1
BUILDAH_ISOLATION=chroot
CONTAINERS_CONF=/dev/null # A step can write into HOME: no later command takes its settings from there.
export _CONTAINERS_USERNS_CONFIGURED BUILDAH_ISOLATION CONTAINERS_CONF
mkdir -p "$shared" "$storage"
[ -z "$requirements" ] || cp "$requirements" requirements.txt

while [ ! -e "$shared/fetched" ]; do sleep 0.2; done
tab=$(printf '\t')
while IFS="$tab" read -r number base name; do
    id=$(run_buildah pull --quiet "dir:$shared/base-$number") || stop "The base image $base cannot be unpacked; see the log." 1
    run_buildah tag "$id" "$name"
done <"$bases"

set -- --secret "id=pip,src=$pip"
[ "$apt" = - ] || set -- "$@" --volume "$apt:/etc/apt/apt.conf.d/99berth-build:ro"
mkfifo "$pipe"
tee "$copy" <"$pipe" &
writer=$!
code=0
run_buildah build --pull-never --layers=false --format oci --file "$containerfile" --tag berth-result "$@" . >"$pipe" 2>&1 </dev/null ||
    code=$?
sleep 0.3
kill "$writer" 2>/dev/null || true # What a step has left running may hold the pipe open for ever.
if [ "$code" -ne 0 ]; then
    stop "The Containerfile could not be built. Its last lines were:
$(tail -n 15 "$copy" | tail -c 2000)" 1
fi
run_buildah push --quiet berth-result "oci:$shared/result:image" || stop "The image could not be packed; see the log." 1
: >"$shared/built"
printf 'The image is built.\n'
