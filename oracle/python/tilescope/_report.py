"""What the oracle says about a call or a recording."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import pathlib
import tempfile
import threading

import numpy as np

from . import _core

_SPECIAL = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_PICTURES = ("dumped", "expected", "difference", "over_budget")


@dataclasses.dataclass(frozen=True)
class Element:
    """One element of a stage, and what it should hold."""

    stage: str
    finding: str
    batch: int
    head: int
    q_block: int
    kv_tile: int
    row: int
    col: int
    got: float
    expected: float
    tolerance: float

    @classmethod
    def of(cls, found):
        """From the JSON of a report; None for null."""
        if found is None:
            return None
        numbers = {name: _SPECIAL.get(found[name], found[name]) for name in ("got", "expected", "tolerance")}
        return cls(**{field.name: found[field.name] for field in dataclasses.fields(cls)} | numbers)


@dataclasses.dataclass(frozen=True)
class Cause:
    """A mistake whose replay gives what the kernel computed."""

    name: str
    stage: str
    says: str
    look_at: str
    where: str
    parameters: dict
    explained: float  #: share of the elements looked at
    rank: int  #: causes that explain as much share one
    legal: bool  #: no mistake: a variation that was not declared

    @classmethod
    def of(cls, found):
        """From the JSON of a report."""
        return cls(
            found["name"], found["stage"], found["says"], found["look_at"], found["where"], found["parameters"],
            found["explained_after"], found["rank"], found["legal"],
        )  # fmt: skip


class Report:
    """The verdict on one recording. str() of it is the text that tile-diff prints.

    Arrays and pictures are computed when they are asked for, from the recording, which the report keeps.
    """

    def __init__(self, judged, recording, notes=()):
        self._judged = judged
        self._recording = recording
        self._found = json.loads(judged.json)
        self.notes = tuple(notes)  #: what is to be known beside: how much was judged, what else would match

    @property
    def json(self) -> dict:
        """The report of `tile-diff --report json=FILE`, as a dict."""
        return self._found

    @property
    def verdict(self) -> str:
        """"match", "diverged" or "unjudged"."""
        return self._found["verdict"]

    @property
    def matches(self) -> bool:
        """Whether everything that was judged is within what rounding may do."""
        return self.verdict == "match"

    @property
    def stage(self) -> str | None:
        """The first stage that is wrong; None where none is."""
        first = self.first_divergence
        return None if first is None else first.stage

    @property
    def first_divergence(self) -> Element | None:
        """The first wrong Element of that stage; None where none is."""
        return Element.of(self._found["first_divergence"])

    @property
    def causes(self) -> list[Cause]:
        """Every Cause that was found, best first."""
        return [Cause.of(cause) for cause in self._found.get("causes") or []]

    @property
    def search_cut_off(self) -> bool:
        """Whether the search for causes did all that it may do before its end: causes="all" goes on."""
        return self._found.get("search", {}).get("cut_off", False)

    @property
    def search_failed(self) -> list[str]:
        """Parts of the search for causes that failed, with why. They cost no verdict."""
        return self._found.get("search", {}).get("failed", [])

    @property
    def compared(self) -> dict[str, int]:
        """Elements that were compared, by stage."""
        return {stage["name"]: stage["compared"] for stage in self._found["stages"] if stage["captured"]}

    @property
    def text(self) -> str:
        """What tile-diff prints, and the notes."""
        return self._judged.text.rstrip("\n") + "".join(f"\nnote: {note}" for note in self.notes) + "\n"

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<tilescope.Report: {self.verdict}{f' in {self.stage}' if self.stage else ''}>"

    def arrays(self) -> dict[str, np.ndarray]:
        """got (float32), expected and difference (float64) of the head with the first divergence; {} for a match."""
        if self.stage is None:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            self._judged.write_arrays(folder, self._recording)
            return {path.stem: np.load(path) for path in sorted(pathlib.Path(folder).glob("*.npy"))}

    def pictures(self) -> dict[str, bytes]:
        """Heatmaps of the tile plane with the first divergence as PNG files, by name; {} for a match."""
        if self.stage is None:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            self._judged.write_heatmaps(folder, self._recording)
            # Names begin with a number, so that they sort.
            return {path.stem[2:]: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.png"))}

    def _repr_html_(self):
        pictures = self.pictures()
        figures = "".join(
            f'<figure style="display:inline-block;margin:4px"><figcaption>{name}</figcaption>'
            f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(pictures[name]).decode()}"></figure>'
            for name in _PICTURES
            if name in pictures
        )
        return f"<pre>{html.escape(self.text)}</pre>{figures}"


def judge_recording(recording, *, causes=True, threads=0, notes=()):
    """Judges in another thread, so that the interpreter goes on and Ctrl-C ends it. causes="all": without a bound of the
    search. Errors: tilescope.Error.
    """
    cancel = _core.Cancel()
    outcome = {}
    done = threading.Event()  # join() counts a thread as ended once Ctrl-C has come.

    def run():
        try:
            outcome["judged"] = _core.judge(recording, bool(causes), causes == "all", threads, cancel)
        except BaseException as error:  # Handed on to the caller, whatever it is.
            outcome["error"] = error
        finally:
            done.set()

    threading.Thread(target=run, name="tilescope", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        cancel.ask()
        done.wait()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return Report(outcome["judged"], recording, notes)
