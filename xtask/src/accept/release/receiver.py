"""A host with a name: answers DNS on 127.0.0.1:53 and HTTP on 127.0.0.1:9000, and prints each request.

usage: receiver.py NAME
"""

import http.server
import socket
import struct
import sys
import threading

NAME = sys.argv[1]
TYPE_A = 1


def answer(query):
    """A response with 127.0.0.1 to a question for the A record of NAME, and without records to others."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    known = ".".join(labels).lower() == NAME
    records = int(known and kind == TYPE_A)
    header = query[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, records, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", TYPE_A, 1, 60, 4) + socket.inet_aton("127.0.0.1")
    return header + query[12 : at + 5] + record * records


def serve_dns(server):
    while True:
        query, client = server.recvfrom(512)
        server.sendto(answer(query), client)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        print("POST", self.headers["Host"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("127.0.0.1", 53))
threading.Thread(target=serve_dns, args=(dns,), daemon=True).start()
web = http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Receiver)
print("ready", flush=True)
web.serve_forever()
