"""The report's page in a real browser: its words and pictures are there, and it asks nobody for anything.

usage: browser_test.py TILE_DIFF; skipped where no Chromium is installed
"""

import html
import http.server
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import unittest

import h5py
import numpy as np
from PIL import Image

import small_dump
from tile_diff_case import DIVERGED, TileDiffCase

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))), None)
HOST = "tilescope.test"
HOSTILE = f"""<img src="http://{HOST}/a.png"><link rel="stylesheet" href="http://{HOST}/b.css"><script>document.title="owned"</script>"""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Answers every request with nothing, and remembers where it was for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_error(404)

    do_CONNECT = do_POST = do_GET

    def log_message(self, *_):
        pass


class Browser(TileDiffCase):
    def setUp(self):
        super().setUp()
        self.proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.proxy.asked = []
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        self.addCleanup(self.proxy.server_close)
        self.addCleanup(self.proxy.shutdown)

    def open(self, page, *options):
        run = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                              "--disable-background-networking", "--disable-component-update", "--disable-sync",
                              f"--user-data-dir={self.folder}/profile", f"--proxy-server=http://127.0.0.1:{self.proxy.server_port}",
                              "--window-size=1280,3000", *options, page.as_uri()],
                             capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def requests_of_page(self):
        """Not those that a browser makes by itself."""
        return [path for path in self.proxy.asked if HOST in path]

    def record(self):
        values = small_dump.stages(small_dump.inputs())
        values["p"][0, 2, 17, 3] = 5
        small_dump.write(self.file, values)
        with h5py.File(self.file, "r+") as file:
            for name in ("kernel", "device", "command"):
                if name in file.attrs:
                    del file.attrs[name]
                file.attrs[name] = HOSTILE
        page = self.folder / "page.html"
        run = self.run_it(self.file, "--report", f"html={page}")
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        return page, run.stdout

    def test_words_pictures_and_no_request(self):
        page, printed = self.record()
        shown = self.open(page, "--dump-dom")
        text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", shown.partition("<body>")[2])).split())
        for line in printed.splitlines():
            self.assertIn(" ".join(line.split()), text)
        self.assertIn("<title>diverged: ", shown)
        self.assertEqual(self.requests_of_page(), [])

        for name, scheme, paper in (("light", 1, 255), ("dark", 0, 13)):
            self.open(page, f"--screenshot={self.folder}/{name}.png", f"--blink-settings=preferredColorScheme={scheme}")
            seen = np.asarray(Image.open(self.folder / f"{name}.png").convert("RGB")).astype(int)
            self.assertEqual(seen[3, 3, 0], paper)
            # Pictures are drawn: many colours, and not those of text.
            self.assertGreater(len(np.unique(seen.reshape(-1, 3), axis=0)), 500)
        self.assertEqual(self.requests_of_page(), [])

    def test_the_list_of_many_is_seen_whole(self):
        runs = self.folder / "runs" / "of_a_folder_with_a_long_name" / "and_one_below"
        runs.mkdir(parents=True)
        small_dump.write(runs / "right.launch0.process4711.h5")
        small_dump.write(runs / "wrong.launch0.process4711.h5", small_dump.stages(small_dump.inputs(), p_factor=1.001))
        known, page = self.folder / "known.txt", self.folder / "page.html"
        known.write_text("[wrong.launch0.h5]\nstage = p\nreason = issue 12: " + "a reason of many words " * 12 + "\n")
        self.run_it(runs, "--baseline", known, "--report", f"html={page}")
        script = "<script>const list = document.querySelector('.scroll'); document.title = list.scrollWidth - list.clientWidth</script>"
        page.write_text(re.sub("<meta http-equiv[^>]*>", "", page.read_text()).replace("</body>", script + "</body>"))
        self.assertIn("<title>0</title>", self.open(page, "--dump-dom"))

    def test_the_same_words_unescaped_would_be_seen_to_ask(self):
        page = self.folder / "control.html"
        page.write_text(f"<!DOCTYPE html><html><body>{HOSTILE}</body></html>")
        self.assertIn("<title>owned</title>", self.open(page, "--dump-dom"))
        self.assertEqual({path.rsplit("/", 1)[1] for path in self.requests_of_page()}, {"a.png", "b.css"})


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no Chromium; apt-get install chromium")
        sys.exit(77)
    unittest.main()
