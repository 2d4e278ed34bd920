"""A toy child for the proxy: does one thing to its streams, named by its first argument."""

from __future__ import annotations

import os
import signal
import sys
import time


def main() -> None:
    match sys.argv[1]:
        case "echo":
            while chunk := os.read(0, 65536):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(1, view) :]
        case "say":
            os.write(1, sys.argv[2].encode())
            while os.read(0, 65536):
                pass
        case "exit":
            sys.exit(int(sys.argv[2]))
        case "die":
            os.kill(os.getpid(), int(sys.argv[2]))
            time.sleep(60)
        case "stderr":
            os.write(2, b"to the user\n")
        case "close-out":
            os.write(1, b"bye\n")
            os.close(1)
            while os.read(0, 65536):
                pass
        case "close-in":
            os.close(0)
            os.write(1, b"deaf\n")
            time.sleep(60)
        case "catch":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2])))
            os.write(1, b"ready\n")
            time.sleep(60)
        case "flood":
            try:
                while True:
                    os.write(1, b"x" * 4096 + b"\n")
            except BrokenPipeError:
                os._exit(7)
        case "grandchild":
            if os.fork() == 0:
                time.sleep(60)
            else:
                os.write(1, b"mine\n")


if __name__ == "__main__":
    main()
