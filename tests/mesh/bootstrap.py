"""Writes the bootstrap configuration that Envoy Gateway gives its Deployment to a file."""
import json, sys

for deployment in json.load(sys.stdin)["items"]:
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        arguments = container.get("args", [])
        if "--config-yaml" in arguments:
            open(sys.argv[1], "w").write(arguments[arguments.index("--config-yaml") + 1])
