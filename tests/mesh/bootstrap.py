"""Writes the bootstrap configuration that Envoy Gateway gives its Deployment to a file."""
import json, sys

for deployment in json.load(sys.stdin)["items"]:
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        arguments = container.get("args", [])
        if "--config-yaml" in arguments:
            text = arguments[arguments.index("--config-yaml") + 1]
            # A name that ends in a dot is asked of a name server only, and there is none.
            open(sys.argv[1], "w").write(text.replace("svc.cluster.local.", "svc.cluster.local"))
