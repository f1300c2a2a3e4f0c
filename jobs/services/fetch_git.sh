# Fetches one commit of a Git repository into snapshot.tar.gz, as a job of the tenant that asked for it.
#
# GIT_URL         address of the repository
# GIT_REF         branch, tag or commit; HEAD for the default branch
# GIT_CREDENTIAL  optional: a token or user:token for https; for ssh a private key, and below it lines of known_hosts
#
# Writes `snapshot.tar.gz`, `commit`, and by what Berth checks that one is the tree of the other: `commit.object`, `commit.files`.
# All are complete where the script ends with 0. What the other codes say stands in `jobs/lifecycle/fetches.py`.
set -eu
umask 077
export LC_ALL=C # What Git and ssh say is read below.
stop() {
    printf 'The code was not fetched: %s\n' "$1" >&2
    exit "$2"
}
install='Ask an operator to install it: on the node, or in the image that the cluster has as default_image.'
command -v git >/dev/null || stop "Git is not installed where this ran. $install" 69
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:ssh GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
private=$(mktemp -d)
trap 'rm -rf "$private"' EXIT
case $GIT_URL in
*://*) host=${GIT_URL#*://} host=${host%%[/?#]*} host=${host##*@} ;;
*) host=${GIT_URL#*@} host=${host%%:*} ;;
esac
plain() { printf '%s' "$1" | tr A-Z a-z | sed 's/:443$//'; }
helper=
: >"$private/refused"
: >"$private/trace"
use_token() {
    case $GIT_CREDENTIAL in
    *:*) GIT_USER=${GIT_CREDENTIAL%%:*} GIT_TOKEN=${GIT_CREDENTIAL#*:} ;;
    *) GIT_USER=git GIT_TOKEN=$GIT_CREDENTIAL ;;
    esac
    export GIT_USER GIT_TOKEN GIT_HOST="$(plain "$host")" GIT_REFUSED="$private/refused"
    export GIT_TRACE_CURL="$private/trace" GIT_TRACE_CURL_NO_DATA=1 # Where redirects lead; without what a client says of itself.
    helper=$private/answer
    cat >"$helper" <<'END'
#!/bin/sh
# Git asks for each host that it was led to: only the one that the job names is answered.
[ "$1" = get ] || exit 0
protocol= asked=
while IFS='=' read -r name value && [ -n "$name" ]; do
    case $name in protocol) protocol=$value ;; host) asked=$value ;; esac
done
asked=$(printf '%s' "$asked" | tr A-Z a-z) asked=${asked%:443}
if [ "$protocol" = https ] && [ "$asked" = "$GIT_HOST" ]; then
    printf 'username=%s\npassword=%s\n' "$GIT_USER" "$GIT_TOKEN"
else
    printf '%s://%s\n' "$protocol" "$asked" >"$GIT_REFUSED"
    printf 'quit=1\n'
fi
END
    chmod 700 "$helper"
}
checks=accept-new
use_key() {
    printf '%s\n' "$GIT_CREDENTIAL" | tr -d '\r' >"$private/credential"
    sed -n '/^-----BEGIN/,/^-----END/p' "$private/credential" >"$private/key"
    [ -s "$private/key" ] || stop "The secret of code.secret holds no private key, which $host needs for ssh." 24
    sed '/^-----BEGIN/,/^-----END/d; /^[[:space:]]*$/d' "$private/credential" >"$private/known_hosts"
    [ ! -s "$private/known_hosts" ] || checks=yes
    set -- -o IdentitiesOnly=yes -i "$private/key"
    GIT_SSH_COMMAND="$GIT_SSH_COMMAND $*"
}
: >"$private/known_hosts"
export GIT_SSH_COMMAND="ssh -o BatchMode=yes -o HashKnownHosts=no -o UserKnownHostsFile=$private/known_hosts"
case $GIT_URL,${GIT_CREDENTIAL:+given} in
https://*,given) use_token ;;
https://*) ;;
*)
    command -v ssh >/dev/null || stop "ssh is not installed where this ran. $install" 69
    [ -z "${GIT_CREDENTIAL-}" ] || use_key
    GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o StrictHostKeyChecking=$checks"
    ;;
esac
repository=$private/repository
git init -q --bare "$repository"
get() { git -C "$repository" -c credential.helper="$helper" fetch -q --no-tags "$@" 2>"$private/errors"; }
said() { grep -qiE "$1" "$private/errors"; }
# Where a redirect led the fetch, if that is not the host that the job names: the token was not given there.
elsewhere() {
    [ -n "$helper" ] || return 0
    {
        cat "$private/refused"
        tr -d '\r' <"$private/trace" | sed -n 's|.*<= Recv header: [Ll]ocation: \([a-z]*://[^/?#]*\).*|\1|p'
    } | while read -r led; do
        [ "$(plain "$led")" = "https://$GIT_HOST" ] || printf '%s\n' "$led"
    done | head -n 1
}
explain() {
    led=$(elsewhere)
    [ -z "$led" ] ||
        stop "$GIT_URL leads to $led. The token of code.secret is for $host alone: write that address, if it is the right one." 21
    if said 'no user exists for uid'; then
        stop 'ssh finds no user with the number of this job on this machine. Use an address with https, or ask an operator.' 25
    elif said 'host key verification failed'; then
        stop "$host has another host key than the one expected, in code.secret or on this machine. Ask who runs $host." 22
    elif said 'load key|invalid format|error in libcrypto|bad permissions'; then
        stop 'ssh cannot read a private key without a passphrase in the secret of code.secret.' 24
    elif said 'permission denied \(|authentication failed|could not read username|could not read password|error: 40[13]'; then
        [ -n "${GIT_CREDENTIAL-}" ] || stop "$host asks who reads $GIT_URL: name a secret with a token or a key in code.secret." 23
        stop "$host does not let code.secret read $GIT_URL. For a key, its public half has to be a deploy key there." 23
    fi
}
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
    explain
    [ "$tries" -lt 3 ] || stop "$GIT_REF of $GIT_URL could not be read three times." 75
    said 'resolve host|timed out|connection|early eof|rpc failed' ||
        stop "$GIT_REF of $GIT_URL cannot be read. Check address and ref." 1
    sleep $((tries * 2))
    tries=$((tries + 1))
done
[ -z "$(elsewhere)" ] || explain
if [ "$checks" = accept-new ] && [ -s "$private/known_hosts" ]; then
    printf 'The host key of %s was taken unchecked. With this below the key in the secret it is checked:\n' "$host"
    cat "$private/known_hosts"
fi
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
