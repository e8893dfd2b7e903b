"""Signs in with azure-identity, as a client and as a machine, and calls the management API with the tokens.

Usage: sign_in.py HTTPS_URL HTTP_URL METADATA_URL DATA_DIRECTORY
Prints `passed CALL: EFFECT` for each credential, and exits with an error at the first failure.
"""

import json
import os
import sys

HTTPS, HTTP, METADATA, DATA = sys.argv[1:5]
os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = f"{METADATA}/vm/web"

import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import ClientSecretCredential, ManagedIdentityCredential

AUTHORITY = f"{DATA}/ca.pem"
SCOPE = f"{HTTPS}/.default"

with open(f"{DATA}/clients.json") as file:
    known = json.load(file)
secrets = {client["clientId"]: client["secret"] for client in known["clients"]}


def client(name, secret):
    return ClientSecretCredential(
        known["tenant"],
        name,
        secret,
        authority=HTTPS,
        disable_instance_discovery=True,
        connection_verify=AUTHORITY,
    )


def ask(credential, method, path):
    headers = {"Authorization": f"Bearer {credential.get_token(SCOPE).token}"}
    return requests.request(method, f"{HTTPS}{path}", headers=headers, verify=AUTHORITY, timeout=30)


def expect(what, found, wanted):
    assert found == wanted, f"{what}: {found}, not {wanted}"


def native(method, path, body=None):
    with open(f"{DATA}/token") as file:
        headers = {"Authorization": f"Bearer {file.read().strip()}"}
    requests.request(method, f"{HTTP}/api/v1{path}", json=body, headers=headers, timeout=30).raise_for_status()


expect("client owner", ask(client("owner", secrets["owner"]), "GET", "/api/v1/machines").status_code, 200)
expect("client reader writes", ask(client("reader", secrets["reader"]), "PUT", "/api/v1/hosts/h").status_code, 403)
try:
    client("owner", "wrong").get_token(SCOPE)
    raise SystemExit("a wrong secret was accepted")
except ClientAuthenticationError as error:
    assert "invalid_client" in str(error) or "Unknown client" in str(error), error

print("passed ClientSecretCredential: An owner can write, a reader cannot, and a wrong secret is refused.")

native("POST", "/machines", {"name": "web"})
native("PUT", "/machines/web/identity")
machine = ManagedIdentityCredential()
expect("machine", ask(machine, "GET", "/api/v1/machines/web").status_code, 200)
expect("machine writes", ask(machine, "DELETE", "/api/v1/machines/web").status_code, 403)
print("passed ManagedIdentityCredential: A machine with an identity can read but not write.")
