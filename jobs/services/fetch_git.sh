# Fetches one commit of a Git repository into snapshot.tar.gz, as a job of the tenant that asked for it.
#
# GIT_URL         address of the repository
# GIT_REF         branch, tag or commit; HEAD for the default branch
# GIT_CREDENTIAL  optional: a token or user:token for https, a private key for ssh
#
# Writes `snapshot.tar.gz`, `commit`, and by what Berth checks that one is the tree of the other: `commit.object`, `commit.files`.
# All are complete where the script ends with 0.
set -eu
umask 077
stop() {
    printf 'The code was not fetched: %s\n' "$1" >&2
    exit "$2"
}
command -v git >/dev/null || stop 'Git is not installed on this machine. Ask an operator to install it.' 69
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:ssh GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/dev/null'
if [ -n "${GIT_CREDENTIAL-}" ]; then
    case $GIT_URL in
    https://*)
        case $GIT_CREDENTIAL in
        *:*) GIT_USER=${GIT_CREDENTIAL%%:*} GIT_TOKEN=${GIT_CREDENTIAL#*:} ;;
        *) GIT_USER=git GIT_TOKEN=$GIT_CREDENTIAL ;;
        esac
        export GIT_USER GIT_TOKEN GIT_ASKPASS="$private/answer"
        printf '%s\n' '#!/bin/sh' 'case $1 in Username*) printf "%s\n" "$GIT_USER" ;; *) printf "%s\n" "$GIT_TOKEN" ;; esac' >"$GIT_ASKPASS"
        chmod 700 "$GIT_ASKPASS"
        ;;
    *)
        printf '%s\n' "$GIT_CREDENTIAL" >"$private/key"
        GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o IdentitiesOnly=yes -i $private/key"
        ;;
    esac
fi
repository=$private/repository
git init -q --bare "$repository"
get() { git -C "$repository" fetch -q --no-tags "$@" 2>"$private/errors"; }
tries=1
until get --depth=1 -- "$GIT_URL" "$GIT_REF"; do
    case $GIT_REF in
    *[!0-9a-f]*) ;;
    ???????*)
        # Servers give a commit by its name only if they allow it, and never by the beginning of its name.
        if get -- "$GIT_URL" '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*' &&
            git -C "$repository" rev-parse -q --verify "$GIT_REF^{commit}" >"$repository/FETCH_HEAD"; then
            break
        fi
        ;;
    esac
    cat "$private/errors" >&2
    [ "$tries" -lt 3 ] || stop "$GIT_REF of $GIT_URL could not be read three times." 75
    grep -qiE 'resolve host|timed out|connection|early eof|rpc failed' "$private/errors" ||
        stop "$GIT_REF of $GIT_URL cannot be read. Check address, ref and, for a private repository, code.secret." 1
    sleep $((tries * 2))
    tries=$((tries + 1))
done
commit=$(git -C "$repository" rev-parse --verify 'FETCH_HEAD^{commit}')
# Files as they are committed: what attributes would leave out or rewrite is not the tree of the commit.
mkdir -p "$repository/info"
printf '%s\n' '* -text -ident -filter -working-tree-encoding -export-ignore -export-subst' >"$repository/info/attributes"
git -C "$repository" -c tar.umask=0022 archive --format=tar -o "$private/snapshot.tar" "$commit"
gzip -n <"$private/snapshot.tar" >snapshot.tar.gz
git -C "$repository" cat-file commit "$commit" >commit.object
git -C "$repository" ls-tree -r -z --full-tree "$commit" >commit.files
printf '%s\n' "$commit" >commit
printf 'Fetched commit %s of %s.\n' "$commit" "$GIT_URL"
