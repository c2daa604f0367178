"""An X display in memory. Starting one with xvfb-run can hang: its wait misses a server that is ready too early."""

import os
import select
import shutil
import subprocess

PROGRAM = "Xvfb"
SECONDS_TO_START = 60


def is_installed():
    return shutil.which(PROGRAM) is not None


class MemoryDisplay:
    """A server of its own; name is what DISPLAY takes. The server picks a number that is free."""

    def __init__(self, screen):
        reading, writing = os.pipe()
        try:
            # Without -noreset the server starts anew when its last client leaves, and the next one may come too early.
            self.server = subprocess.Popen([PROGRAM, "-displayfd", str(writing), "-screen", "0", f"{screen}x24", "-noreset",
                                            "-nolisten", "tcp"], pass_fds=[writing], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.close(writing)
            writing = None
            number = self._number(reading)
        finally:
            os.close(reading)
            if writing is not None:
                os.close(writing)
        self.name = f":{number}"

    def _number(self, reading):
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([reading], [], [], SECONDS_TO_START)
            part = os.read(reading, 64) if ready else b""
            if not part:
                self.close()
                raise RuntimeError(f"{PROGRAM} gave no display within {SECONDS_TO_START} s")
            text += part
        return int(text)

    def close(self):
        self.server.kill()
        self.server.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
