#!/bin/sh
# The half of a build that speaks to registries: fetches the images that a build starts from, and pushes what it made.
#
#   transfer_container.sh LOCATION REFERENCE BASES REGISTRIES [AUTHORITY]
#
# LOCATION    a directory that both halves of the build see and may write
# REFERENCE   where the image is pushed
# BASES       a file: one image a line, its number, its reference, its name in the build, with tabs between
# REGISTRIES  a file: which registries are spoken to without TLS, as containers-registries.conf(5) has it
# AUTHORITY   a file of certificates to trust besides those of the system
#
# It runs nothing of the tenant's, and what the build left at LOCATION is only read as an image, from a copy without links: a step of
# the build may have written whatever it likes there, and a link would lead to files of this task. The account comes in the variable
# BERTH_BUILD_ACCOUNT, is kept in a file of this task's own directory while it runs, and leaves the environment at once: the steps
# of the build run in another sandbox, which sees neither. The last step writes LOCATION/berth-image.json.
set -eu
umask 077

auth=$TMPDIR/auth.json
if [ "${BERTH_BUILD_ACCOUNT+set}" = set ]; then
    printf '%s' "$BERTH_BUILD_ACCOUNT" >"$auth"
    exec env -u BERTH_BUILD_ACCOUNT /bin/sh "$0" "$@"
fi
trap 'rm -f "$auth"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

location=$1
reference=$2
bases=$3
registries=$4
authority=${5:-}
shared=$location/attempt-$BERTH_ATTEMPT
said=$TMPDIR/said
# The other half of the build can write into HOME: nothing of it is believed here.
HOME=$TMPDIR
export HOME
cd "$TMPDIR"
mkdir -p "$shared" .config/containers
cp "$registries" .config/containers/registries.conf # Where every version of the tools looks.

stop() {
    printf '%s\n' "$1" >&2
    printf '%s\n' "$1" >"$location/error.txt.part"
    mv -f "$location/error.txt.part" "$location/error.txt"
    exit "$2"
}

# Say in one line what a registry refused, from the words of skopeo.
refuse() {
    cat "$said" >&2
    case $(cat "$said") in
    *"manifest unknown"* | *"name unknown"* | *"StatusCode: 404"* | *"reading manifest"*"not found"*)
        stop "image_absent: there is no $1 $2. Check the spelling of repository and tag." 1 ;;
    *unauthorized* | *denied* | *"authentication required"* | *"invalid username/password"* | *"StatusCode: 401"* | *"StatusCode: 403"*)
        stop "image_denied: the registry refuses the $1 $2 to this tenant. Ask a manager of the tenant for an account that may $3: berth registries add ${2%%/*} -u NAME" 1 ;;
    *toomanyrequests* | *"StatusCode: 429"*)
        stop "registry_rate_limited: the registry limits the rate of requests for the $1 $2. Build again later." 1 ;;
    *x509* | *"server gave HTTP response to HTTPS client"*)
        stop "registry_tls: the certificate of the registry of the $1 $2 is not trusted. Ask an operator to set BERTH_REGISTRY_CA_FILE." 1 ;;
    *)
        stop "registry_unreachable: the $1 $2 could not be transferred: $(tail -n 1 "$said" | tail -c 300)" 1 ;;
    esac
}

command -v skopeo >/dev/null ||
    stop "This host cannot build container images: ask an operator to install the Debian packages buildah and skopeo." 69

copy() {
    [ -f "$auth" ] && set -- --authfile "$auth" "$@"
    if [ -n "$authority" ]; then
        set -- --src-cert-dir "${authority%/*}" --dest-cert-dir "${authority%/*}" "$@"
    fi
    skopeo --insecure-policy copy --quiet --retry-times 2 "$@" >"$said" 2>&1
}

tab=$(printf '\t')
while IFS="$tab" read -r number base name; do
    printf 'Fetching %s\n' "$base"
    copy "docker://$base" "dir:$shared/base-$number" || refuse "base image" "$base" pull
done <"$bases"
: >"$shared/fetched"

while [ ! -e "$shared/built" ]; do sleep 0.2; done
# skopeo pushes a manifest as it is, without a look at its digest: one that is a link to the account would be pushed, too.
cp -RP "$shared/result" "$TMPDIR/result" || stop "The image that the build left cannot be read; see the log." 1
[ -z "$(find "$TMPDIR/result" ! -type f ! -type d | head -n 1)" ] ||
    stop "The image that the build left holds something that is neither a file nor a folder." 1
size_kib=$(du -sk "$TMPDIR/result" | cut -f1)
printf 'Pushing %s, %s MiB\n' "$reference" "$((size_kib / 1024))"
copy --preserve-digests --digestfile "$TMPDIR/digest" "oci:$TMPDIR/result:image" "docker://$reference" ||
    refuse image "$reference" push
digest=$(cat "$TMPDIR/digest")
printf '{"format": 1, "digest": "%s", "size_bytes": %s, "packages": []}\n' "$digest" "$((size_kib * 1024))" \
    >"$location/berth-image.json.part"
mv -f "$location/berth-image.json.part" "$location/berth-image.json"
printf 'Done: %s@%s\n' "$reference" "$digest"
