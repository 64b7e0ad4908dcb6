#!/bin/sh
# Lays out the files of an image from programs that are built already: nothing but what they need to run.
#   images/rootfs.sh OUT PROGRAM [CRS-FOLDER [MODULE.wasm]]
# The Dockerfile and `cargo xtask image` both call it, so that what is tested is what is shipped.
set -eu
out=$1 program=$2 crs=${3:-} module=${4:-}
name=$(basename "$program")

mkdir -p "$out/usr/bin" "$out/etc/ssl/certs" "$out/etc/glacis" "$out/usr/share/glacis" "$out/usr/share/licenses/glacis" "$out/tmp"
chmod 1777 "$out/tmp"
strip -o "$out/usr/bin/$name" "$program"
chmod 755 "$out/usr/bin/$name"

# The C library, its loader and what else the program links, by the paths under which it looks for them.
ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | while read -r library; do
    mkdir -p "$out$(dirname "$library")"
    cp -L "$library" "$out$library"
done

# Authorities for TLS to Redis and collectors, and a user without rights.
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
echo 'glacis:x:65532:65532::/:/nologin' >"$out/etc/passwd"
echo 'glacis:x:65532:' >"$out/etc/group"
echo 'hosts: files dns' >"$out/etc/nsswitch.conf"
cp "$(dirname "$0")/../LICENSE" "$out/usr/share/licenses/glacis/"

if [ -n "$crs" ]; then
    mkdir -p "$out/usr/share/glacis/crs"
    cp -r "$crs/rules" "$crs/crs-setup.conf.example" "$crs/LICENSE" "$out/usr/share/glacis/crs/"
fi
[ -z "$module" ] || cp "$module" "$out/usr/share/glacis/glacis_wasm_filter.wasm"

# The same bytes whenever it is made of the same files.
find "$out" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
