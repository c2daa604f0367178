"""The report as one page: what it says, that it needs nothing else, and that what a recording holds stays text.

usage: html_test.py TILE_DIFF
"""

import base64
import html.parser
import io
import pathlib
import re

import h5py
import numpy as np
from PIL import Image

import small_dump
from tile_diff_case import DIVERGED, MATCH, UNJUDGED, TileDiffCase, main

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples"
VOID = {"meta", "img", "br", "link", "input", "hr"}
STAGES = ["q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"]


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and the text as a person reads it."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.style, self.problems = [], [], [], "", []
        self.feed(source)
        self.close()
        if self.open:
            self.problems.append(f"not closed: {self.open}")
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names):
            self.problems.append(f"{tag}: an attribute is given twice")
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another one")

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
        elif "head" not in self.open:
            self.words.append(data)

    def all(self, tag, kind=None):
        return [a for name, a in self.tags if name == tag and (kind is None or kind in a.get("class", "").split())]


class Html(TileDiffCase):
    def page_of(self, *arguments, code=DIVERGED):
        """The page, which must be well formed and need nothing but itself."""
        target = self.folder / "page.html"
        run = self.run_it(*arguments, "--report", f"html={target}")
        self.assertEqual(run.returncode, code, run.stderr)
        self.source = target.read_text()
        self.printed = run.stdout
        page = Page(self.source)
        self.assertEqual(page.problems, [])
        self.assertEqual([tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object", "form", "a")], [])
        for tag, attributes in page.tags:
            for name, value in attributes.items():
                self.assertFalse(name.startswith("on"), (tag, name))
                if name in ("src", "href", "srcset", "action", "data", "poster"):
                    self.assertTrue(value.startswith("data:image/png;base64,"), value[:80])
        self.assertNotRegex(page.style, r"url\(|@import|expression")
        policy = [a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(policy, ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"])
        return page

    def assert_says_what_is_printed(self, page):
        for line in self.printed.splitlines():
            self.assertIn(" ".join(line.split()), page.text)

    def pictures(self, page):
        images = [Image.open(io.BytesIO(base64.b64decode(a["src"].partition(",")[2], validate=True))) for a in page.all("img")]
        for image, attributes in zip(images, page.all("img")):
            self.assertEqual(image.size, (int(attributes["width"]), int(attributes["height"])))
            self.assertGreater(len(np.unique(np.asarray(image).reshape(-1, 4), axis=0)), 10)
            self.assertTrue(attributes["alt"])
        return images

    def test_wrong_stage(self):
        page = self.page_of(SAMPLES / "acc_not_rescaled.h5")
        self.assert_says_what_is_printed(page)
        self.assertEqual(len(page.all("header", "wrong")), 1)
        headline = "acc is wrong in every row, first in KV tile 1: the O accumulator is not rescaled when the running maximum rises"
        self.assertTrue(page.text.startswith(headline), page.text[:200])
        self.assertIn("look at: acc *= exp(m_old - m_new)", page.text[:400])
        chain = [a for a in page.all("li") if "title" in a]
        self.assertEqual([a["title"].split(":")[0] for a in chain], STAGES)
        self.assertEqual([a["class"] for a in chain], ["right"] * 7 + ["guilty", "inherited", "right"])
        self.assertIn("acc guilty o from acc lse right", page.text)
        self.assertEqual(len(self.pictures(page)), 4)
        sections = re.findall(r"<h2>(.*?)</h2>", self.source)
        self.assertEqual(sections, ["Stages", "Where", "Why", "Pictures", "Verdict", "Commands"])

    def test_commands_work(self):
        page = self.page_of(SAMPLES / "acc_not_rescaled.h5")
        explain = re.search(r"tile-diff (\S+) --explain-tolerance (\S+)", page.text)
        run = self.run_it(explain[1], "--explain-tolerance", explain[2])
        self.assertEqual(run.returncode, MATCH, run.stderr)
        self.assertIn("got 4.51821661", " ".join(run.stdout.split()))
        self.assertIn(f"tile-diff {SAMPLES}/acc_not_rescaled.h5 --report html={self.folder}/page.html", page.text)
        self.assertRegex(page.text, r"tile-view \S+ --goto acc:0,0,0,0,1")

    def test_right_recording(self):
        page = self.page_of(SAMPLES / "torch_backward.h5", code=MATCH)
        self.assert_says_what_is_printed(page)
        self.assertEqual(len(page.all("header", "right")), 1)
        self.assertRegex(page.text, r"^match: 82048 elements of 12 stages agree with the float64 oracle closest to its budget: dv, 0\.\d+ of it ")
        self.assertEqual({a["class"] for a in page.all("li")}, {"right"})
        self.assertEqual(len(self.pictures(page)), 2)
        self.assertRegex(page.text, r"The ring is around the closest to its budget: key \d+, column \d+: got ")

    def test_two_recordings_of_which_neither_is_blamed(self):
        page = self.page_of(SAMPLES / "torch_backward.h5", "--against", SAMPLES / "torch_backward_group_overwritten.h5")
        self.assert_says_what_is_printed(page)
        self.assertTrue(page.text.startswith("dk differs between the two recordings"), page.text[:100])
        titles = [a["title"] for a in page.all("li") if "title" in a]
        self.assertIn("dk: the first that differs", titles)
        said = page.text.replace("which of them is wrong, if any", "")
        for blame in ("wrong", "guilty", "WRONG"):
            self.assertNotIn(blame, said + " ".join(titles))
        self.assertEqual(len(self.pictures(page)), 4)

    def test_same_run(self):
        small_dump.write(self.file)
        values = small_dump.stages(small_dump.inputs())
        values["s"][0, 1, 2, 3] += 1
        other = self.folder / "other.h5"
        small_dump.write(other, values)
        page = self.page_of("--against", other, self.file, "--same-run")
        self.assert_says_what_is_printed(page)

    def test_what_cannot_be_judged(self):
        self.file.write_bytes(b"no recording")
        page = self.page_of(self.file, code=UNJUDGED)
        self.assertEqual(len(page.all("header", "unjudged")), 1)
        self.assertTrue(page.text.startswith(f"unjudged: {self.file}"), page.text)

    def test_lone_nan_is_counted_and_ringed(self):
        values = small_dump.stages(small_dump.inputs())
        values["acc"][0, 1, 2, 3, 4] = np.nan
        small_dump.write(self.file, values)
        page = self.page_of(self.file)
        self.assert_says_what_is_printed(page)
        self.assertIn("The ring is around the worst: row 3, column 4: got nan, expected", page.text)
        values = small_dump.stages(small_dump.inputs())
        values["s"][0, 1, 5, 20] = np.nan
        small_dump.write(self.file, values)
        self.assertIn("The ring is around the worst: row 5, key 20: got nan, expected", self.page_of(self.file).text)

    def test_what_was_not_recorded(self):
        page = self.page_of(SAMPLES / "lse_base2.h5")
        self.assert_says_what_is_printed(page)
        absent = [a["title"] for a in page.all("li", "absent")]
        for line in self.printed.splitlines():
            if line.startswith("not captured: "):
                self.assertEqual([f"{stage}: not recorded" for stage in line.split()[2:]], absent)

    def test_text_of_strangers_stays_text(self):
        small_dump.write(self.file, small_dump.stages(small_dump.inputs(), p_factor=1.1))
        evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> a\u202eb &amp; caf\u00e9"
        with h5py.File(self.file, "r+") as file:
            for name in ("kernel", "device", "command"):
                if name in file.attrs:
                    del file.attrs[name]
                file.attrs[name] = evil
        hostile = self.folder / "<b onclick=x>&\"'.h5"
        self.file.rename(hostile)
        page = self.page_of(hostile)
        self.assertEqual(len(page.all("b")), len(STAGES))
        self.assertGreaterEqual(page.text.count(evil.replace("\u202e", "?")), 2)
        self.assertNotIn("\u202e", self.source)
        self.assertIn(str(hostile), page.text)

    def test_the_same_every_time(self):
        pages = []
        for threads in ("1", "4"):
            run = self.run_it(SAMPLES / "stale_k_tile.h5", "--threads", threads, "--report", "html=-")
            self.assertEqual(run.returncode, DIVERGED)
            pages.append(re.sub(r"--threads \d", "", run.stdout))
        self.assertEqual(*pages)


if __name__ == "__main__":
    main()
