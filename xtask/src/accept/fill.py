"""Opens connections from several source addresses and sends most of a request head on each.

usage: fill.py ADDRESS PORT CONNECTIONS SOURCE...
Prints the number of connections, then keeps them open until it is killed.
"""

import socket
import sys
import time

SERVER, CONNECTIONS, SOURCES = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), sys.argv[4:]
HEAD = b"GET /metadata/scheduledevents HTTP/1.1\r\nHost: x\r\nFiller: " + b"x" * 15_000

connections = []
for source in SOURCES:
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(SERVER, timeout=10, source_address=(source, 0))
        connection.sendall(HEAD)
        connections.append(connection)
print(len(connections), flush=True)
time.sleep(120)
