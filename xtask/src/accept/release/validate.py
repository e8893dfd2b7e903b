"""Validates Kubernetes manifests against the published schemas, and prints the number of objects.

usage: validate.py FILE...
"""

import sys

import kubernetes_validate
import yaml

count = 0
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        count += 1
print(count)
