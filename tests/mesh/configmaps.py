"""Writes the files of the ConfigMaps that Envoy Gateway made for its proxies into a folder."""
import json, os, sys

for config_map in json.load(sys.stdin)["items"]:
    for name, text in config_map.get("data", {}).items():
        if name.startswith("xds-"):
            open(os.path.join(sys.argv[1], name), "w").write(text)
