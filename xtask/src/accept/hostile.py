"""A hostile guest: opens connections, has requests held on them, sends more than it should, and never reads.

usage: hostile.py HOST PORT CONNECTIONS SECONDS
"""

import socket
import struct
import sys
import time

HOST, PORT, CONNECTIONS, SECONDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
HELD = (
    "GET /metadata/scheduledevents?api-version=2020-07-01&wait=300 HTTP/1.1\r\n"
    "Host: x\r\nMetadata: true\r\nIf-None-Match: 1\r\n\r\n"
).encode()
RESET = struct.pack("ii", 1, 0)

end = time.monotonic() + SECONDS
opened, kept = 0, []
while opened < CONNECTIONS and time.monotonic() < end:
    opened += 1
    try:
        connection = socket.create_connection((HOST, PORT), timeout=5)
        # A server that holds this request would not notice that the client disconnects.
        connection.send(HELD + b"GET")
    except OSError:
        continue
    if opened % 2:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.close()
    else:
        kept.append(connection)
time.sleep(max(0, min(5, end - time.monotonic())))
print(opened)
