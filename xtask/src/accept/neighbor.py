"""A guest that polls its document and measures how long each response takes.

usage: neighbor.py URL SECONDS
Prints the number of polls, the number of failures, and the 99th percentile and the maximum in milliseconds.
"""

import sys
import time
import urllib.request

URL, SECONDS = sys.argv[1], float(sys.argv[2])

times, failures = [], 0
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    begin = time.monotonic()
    try:
        request = urllib.request.Request(URL, headers={"Metadata": "true"})
        with urllib.request.urlopen(request, timeout=5) as response:
            response.read()
    except OSError:
        failures += 1
    times.append(1000 * (time.monotonic() - begin))
    time.sleep(0.02)
times.sort()
print(len(times), failures, round(times[int(len(times) * 0.99)], 1), round(times[-1], 1))
