#!/bin/sh
# Builds what deploy/Dockerfile runs, without an image registry: a Debian root made with mmdebstrap, the project with
# `npm ci`, started there without root and with a read-only root. Run as root; it needs mmdebstrap and util-linux.
#   deploy/try-install.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$(mktemp -d)}
root=$work/root
began=$(date +%s)
step() { echo "== $(($(date +%s) - began)) s: $1"; }
PORT=${PORT:-3999}
PURSER_ADMIN_KEY=try-install-operator-key

if [ ! -f "$work/root.tar" ]; then
  step "making a Debian root"
  mmdebstrap --variant=minbase --include=ca-certificates,libatomic1 bookworm "$work/root.tar"
fi
mkdir -p "$root"
tar -xf "$work/root.tar" -C "$root" --exclude=./dev

step "copying the project and installing its packages"
mkdir -p "$root/opt/purser" "$root/data"
(cd "$here" && git ls-files -z | tar --null -T - -cf -) | tar -xf - -C "$root/opt/purser"
(cd "$root/opt/purser" && npm ci --omit=dev --no-audit --no-fund >/dev/null)
rm -rf "$root/opt/purser/test" "$root/opt/purser/training" "$root/opt/purser/bench" "$root/opt/purser/docs"
chown 10001:10001 "$root/data" && chmod 0700 "$root/data"
step "the root has $(du -sm "$root" | cut -f1) MB, the project $(du -sm "$root/opt/purser" | cut -f1) MB of it"

# In a mount namespace of its own: the root is read-only, /data and /tmp can be written.
cat > "$work/enter" <<'ENTER'
set -eu
root=$1; shift
mount --bind "$root" "$root"
mount --bind "$root/data" "$root/data"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc"
mkdir -p /dev && mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot --userspec=10001:10001 "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOST=127.0.0.1 DATA_DIR=/data \
  NODE_COMPILE_CACHE=/tmp/purser PORT="$PORT" PURSER_ADMIN_KEY="$PURSER_ADMIN_KEY" "$@"
ENTER
mkdir -p "$root/dev" "$root/tmp" "$root/proc"
export PORT PURSER_ADMIN_KEY
enter() { exec unshare --mount sh "$work/enter" "$root" "$@"; }

step "a write to the root must fail"
if (enter sh -c 'echo x > /opt/purser/x') 2>/dev/null; then echo "the root is not read-only"; exit 1; fi
step "purser check"
(enter /opt/purser/bin/purser check)
step "purser start, as user 10001"
(enter /opt/purser/bin/purser start) > "$work/stdout" 2> "$work/stderr" &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
tries=0
until curl -fs "http://127.0.0.1:$PORT/readyz" >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ $tries -gt 240 ] || ! kill -0 $pid 2>/dev/null; then cat "$work/stdout" "$work/stderr"; exit 1; fi
  sleep 0.5
done
step "ready"
key=$(curl -fs "http://127.0.0.1:$PORT/api/v1/admin/users" -H "Authorization: Bearer $PURSER_ADMIN_KEY" \
  -H "Content-Type: application/json" -d '{"email": "ada@example.com"}' | sed 's/.*"key":"\([^"]*\)".*/\1/')
curl -fs "http://127.0.0.1:$PORT/api/v1/chat/completions" -H "Authorization: Bearer $key" -H "Content-Type: application/json" \
  -d '{"model": "auto", "messages": [{"role": "user", "content": "Say hello"}]}' | grep -o '"cost_tokens":[0-9]*'
curl -fs "http://127.0.0.1:$PORT/" | grep -q "<html" && echo "the console is served"
step "stopping"
kill -TERM $pid
code=0
wait $pid || code=$?
trap - EXIT
step "ended with $code"
exit $code
