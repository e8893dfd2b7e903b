"""Opens connections from several source addresses and sends most of a request head, or of an approval, on each.

usage: fill.py head|approval ADDRESS PORT CONNECTIONS SOURCE...
Prints the number of connections, then keeps them open until it is killed.
"""

import socket
import sys
import time

CONTENT, SERVER, CONNECTIONS, SOURCES = sys.argv[1], (sys.argv[2], int(sys.argv[3])), int(sys.argv[4]), sys.argv[5:]
PATH = b"/metadata/scheduledevents?api-version=2020-07-01"
BYTES = {
    "head": b"GET " + PATH + b" HTTP/1.1\r\nHost: x\r\nFiller: " + b"x" * 15_000,
    "approval": b"POST " + PATH + b" HTTP/1.1\r\nHost: x\r\nMetadata: true\r\nContent-Length: 65000\r\n\r\n" + b" " * 60_000,
}[CONTENT]

connections = []
for source in SOURCES:
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(SERVER, timeout=10, source_address=(source, 0))
        connections.append(connection)
        try:
            connection.sendall(BYTES)
        except OSError:
            pass  # The server has refused the approval and closed the connection.
print(len(connections), flush=True)
time.sleep(120)
