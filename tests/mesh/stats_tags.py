"""Prints how Istio's proxies name statistics, out of the bootstrap of Istio's source: regular expressions and tags."""
import json, re, sys

pair = r'"(tag_name|regex)": ("(?:[^"\\]|\\.)*")'
tags = []
for block in re.findall(r"\{[^{}]*\}", open(sys.argv[1]).read()):
    fields = {name: json.loads(value) for name, value in re.findall(pair, block)}
    if len(fields) == 2:
        tags.append(fields)
print("stats_config:", json.dumps({"use_all_default_tags": False, "stats_tags": tags}))
