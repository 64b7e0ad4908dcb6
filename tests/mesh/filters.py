"""The HTTP filters in a config dump of Envoy, in their order, each once."""
import json, sys

def managers(node):
    if isinstance(node, dict):
        if "http_filters" in node:
            yield node
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        yield from managers(child)

seen = dict.fromkeys(f["name"] for m in managers(json.load(sys.stdin)) for f in m["http_filters"])
print("\n".join(seen))
