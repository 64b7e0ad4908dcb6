#!/bin/sh
# Lays out the files of the native module's image: what an Envoy needs to run the rules by itself, below /module.
#   images/module.sh OUT LIBGLACIS.so [CRS-FOLDER]
# The Dockerfile and `cargo xtask image` both call it, so that what is tested is what is shipped.
set -eu
out=$1 library=$2 crs=${3:-}

mkdir -p "$out/module"
strip -o "$out/module/libglacis.so" "$library"
chmod 644 "$out/module/libglacis.so"
cp "$(dirname "$0")/../LICENSE" "$out/module/"

if [ -n "$crs" ]; then
    mkdir -p "$out/module/crs"
    cp -r "$crs/rules" "$crs/crs-setup.conf.example" "$crs/LICENSE" "$out/module/crs/"
fi

# The same bytes whenever it is made of the same files.
find "$out" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
