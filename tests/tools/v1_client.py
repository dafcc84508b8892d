#!/usr/bin/env python3
"""A client of protocol v1 that knows nothing of haptic: Python's standard library and host/conformance/docs/protocol-v1.md.

usage: v1_client.py SOCKET <REQUESTS >ANSWERS

Each line of standard input is the files of one request, a JSON array. All requests are sent over one connection without
waiting; each answer is checked and written as one line. Exit code 1 = an answer breaks the protocol.
"""

import json
import socket
import struct
import sys
import threading

LARGEST = 8 * 1024 * 1024


def receive(connection, count):
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            sys.exit(f"the server closed the connection after {len(data)} of {count} bytes")
        data += piece
    return bytes(data)


def check(answer):
    if set(answer) != {"protocol_version", "result", "warnings", "errors"}:
        sys.exit(f"an answer has the fields {sorted(answer)}")
    if answer["protocol_version"] != 1:
        sys.exit(f"an answer of version {answer['protocol_version']}")
    due = "error" if answer["errors"] else "warning" if answer["warnings"] else "valid"
    if answer["result"] != due:
        sys.exit(f"the result {answer['result']} should be {due}")
    for found in answer["errors"] + answer["warnings"]:
        if set(found) != {"path", "line", "column", "message"}:
            sys.exit(f"a diagnostic has the fields {sorted(found)}")
        if not (type(found["line"]) is int and type(found["column"]) is int and found["line"] >= 0 and found["column"] >= 0):
            sys.exit(f"a diagnostic stands at {found['line']}:{found['column']}")
        if not found["message"]:
            sys.exit("a diagnostic says nothing")


def main():
    requests = []
    for line in sys.stdin.buffer:
        body = json.dumps({"protocol_version": 1, "files": json.loads(line)}, ensure_ascii=False).encode()
        if len(body) > LARGEST:
            sys.exit(f"a request of {len(body)} bytes")
        requests.append(struct.pack(">I", len(body)) + body)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        connection.connect(sys.argv[1])
        sender = threading.Thread(target=lambda: connection.sendall(b"".join(requests)), daemon=True)
        sender.start()
        for _ in requests:
            (length,) = struct.unpack(">I", receive(connection, 4))
            if length > LARGEST:
                sys.exit(f"an answer of {length} bytes")
            answer = json.loads(receive(connection, length).decode("utf-8", "strict"))
            check(answer)
            print(json.dumps(answer, ensure_ascii=False, separators=(",", ":")), flush=True)
        sender.join()
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1):
            sys.exit("the server says more than it was asked")


main()
