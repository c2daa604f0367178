"""What pytest shows of attention that is wrong, and recordings of the code under test, judged at the end of each test.

    def test_my_kernel(tilescope_recording):
        run_my_kernel(dump=tilescope_recording.file())      # or anything that honours TILESCOPE_DIR
"""

import os
import pathlib
import re
import shutil
import types

import pytest

from ._check import Diverged
from ._files import judge


class Recordings:
    """The recordings of one test: whatever it leaves in `folder`, which TILESCOPE_DIR names while it runs."""

    def __init__(self, folder):
        self.folder = folder

    def file(self, name="run.h5"):
        """The path of a recording to be written."""
        return self.folder / name

    def judge(self):
        """Judges every recording. Errors: Diverged for the first that diverges, Error where one cannot be judged. The
        test fails where there is none: a test that records nothing tests nothing."""
        paths = sorted(self.folder.rglob("*.h5"))
        if not paths:
            pytest.fail(f"{self.folder}: no recording; write one to tilescope_recording.file()", pytrace=False)
        for path in paths:
            report = judge(path)
            if not report.matches:
                raise Diverged(report)


def pytest_addoption(parser):
    parser.getgroup("tilescope").addoption(
        "--tilescope-keep",
        metavar="DIR",
        help="where recordings, reports and heatmaps of failed tests are kept, in a folder for each test",
    )


@pytest.fixture
def tilescope_recording(tmp_path, monkeypatch):
    """Recordings of the test, judged when it has passed."""
    folder = tmp_path / "tilescope"
    folder.mkdir()
    monkeypatch.setenv("TILESCOPE_DIR", os.fspath(folder))
    return Recordings(folder)


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item):
    # After the test itself, where that has passed.
    recordings = getattr(item, "funcargs", {}).get("tilescope_recording")
    if recordings is not None:
        recordings.judge()


def _properties(report):
    """What JUnit is told of it."""
    yield "tilescope.verdict", report.verdict
    yield "tilescope.stage", report.stage
    first = report.first_divergence
    if first is not None:
        yield "tilescope.batch", first.batch
        yield "tilescope.head", first.head
        yield "tilescope.row", first.row
    if report.causes:
        yield "tilescope.cause", report.causes[0].name


class _Shown:
    """A report in place of a traceback. Its verdict is the message of the failure in summaries and JUnit."""

    def __init__(self, report):
        self.text = report.text
        self.reprcrash = types.SimpleNamespace(message=report.json["summary"])

    def __str__(self):
        return self.text

    def toterminal(self, terminal):
        terminal.line(self.text)


def _keep(item, report, folder):
    """The files of a failed test. Returns where they are."""
    kept = pathlib.Path(folder) / re.sub(r"[^\w.\-]+", "_", item.nodeid)
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "report.txt").write_text(report.text)
    for name, picture in report.pictures().items():
        (kept / f"{name}.png").write_bytes(picture)
    recordings = item.funcargs.get("tilescope_recording")
    if recordings is not None:
        shutil.copytree(recordings.folder, kept / "recordings", dirs_exist_ok=True)
    return kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.excinfo is None or not isinstance(call.excinfo.value, Diverged):
        return
    found = call.excinfo.value.report
    shown = outcome.get_result()
    item.user_properties.extend(_properties(found))
    # The report says it all; the frames of the plugin and of check() say nothing of the kernel.
    shown.longrepr = _Shown(found)
    keep = item.config.getoption("--tilescope-keep")
    if keep:
        shown.sections.append(("tilescope", f"kept in {_keep(item, found, keep)}"))
