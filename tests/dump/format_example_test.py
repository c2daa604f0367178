"""The scripts in FORMAT.md write dumps that the reader takes whole and tile-diff judges as the page says. Those of attention
stay at OUTPUT.0, OUTPUT.1 and OUTPUT.2 if that is given.

usage: format_example_test.py FORMAT.md FILE_PROBE TILE_DIFF [OUTPUT]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Of attention, in the order of the page. Each has 1 batch.
EXPECTED = [
    # 2 heads, 64 rows in blocks of 64
    dict(kernel="recipe", direction="forward", tiles=dict(s=2, o=2)),
    # The others have 24 and 40 rows in blocks of 16: 2 query blocks, 3 KV tiles.
    # 2 heads
    dict(kernel="numpy", direction="forward", tiles=dict(s=12, m=12, p=12, l=12, acc=12, rescale=12, o=4, lse=4)),
    # 4 heads, 2 of dk and dv
    dict(kernel="numpy backward", direction="backward",
         tiles=dict(s=24, p=24, delta=8, dp=24, ds=24, dq=8, dk=6, dv=6)),
]


def all_scripts_of(page):
    """Those of attention, and those of declared kernels."""
    scripts = re.findall(r"```python\n(.*?)```", pathlib.Path(page).read_text(encoding="utf-8"), re.DOTALL)
    programs = [script for script in scripts if "program/" in script]
    if len(scripts) - len(programs) != len(EXPECTED) or len(programs) != 1:
        sys.exit(f"{page} has {len(scripts)} Python scripts, not {len(EXPECTED)} and one of a declared kernel")
    return [script for script in scripts if script not in programs], programs


def scripts_of(page):
    return all_scripts_of(page)[0]


def judge(tile_diff, recording):
    """The exit code, and the last line."""
    done = subprocess.run([tile_diff, recording], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()[-1]


def check_recipe(page, tile_diff, recording):
    """The recipe's recordings, right and with a wrong factor, end as the page says."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    script = scripts_of(page)[0]
    for written, code in ((script, 0), (script.replace("np.float32(0.125)", "np.float32(0.12)"), 1)):
        subprocess.run([sys.executable, "-c", written, recording], check=True)
        got, verdict = judge(tile_diff, recording)
        if got != code or not any(verdict.startswith(said) for said in re.findall(r"`(\w+: [^`]+)`", text)):
            sys.exit(f"the recipe ends with {got}, {verdict}; the page says something else")


def check_key_by_key(page, tile_diff, recording):
    """The forward example as a kernel writes it whose softmax takes one key after the other."""
    script = scripts_of(page)[1]
    written = script.replace("block_m, block_n = 1, 2, 24, 40, 16, 16, 16", "block_m, block_n = 1, 2, 24, 40, 16, 16, 1")
    if written == script:
        sys.exit("the forward example has other tile sizes")
    subprocess.run([sys.executable, "-c", written, recording], check=True)
    code, verdict = judge(tile_diff, recording)
    # s and p of 2 heads, 24 rows and 40 keys; m, l and acc of 16 columns after each key; o and lse.
    if code != 0 or f"match: {2 * 24 * (2 * 40 + 40 * (2 + 16) + 16 + 1)} elements" not in verdict:
        sys.exit(f"key by key: tile-diff ends with {code}, {verdict}")


def check_program(page, tile_diff, recording):
    """The declared kernel matches; a number that is added to what it stores is found."""
    script = all_scripts_of(page)[1][0]
    wrong = script.replace("(acc[-1] * c)", "(acc[-1] * c + 0.25)")
    if wrong == script:
        sys.exit("the declared kernel stores another y")
    for written, code, said in ((script, 0, "match"), (wrong, 1, "diverged: y is the first wrong stage")):
        subprocess.run([sys.executable, "-c", written, recording], check=True)
        got, verdict = judge(tile_diff, recording)
        if got != code or not verdict.startswith(said):
            sys.exit(f"the declared kernel ends with {got}, {verdict}")


def check(script, expected, probe, tile_diff, output):
    subprocess.run([sys.executable, "-c", script, output], check=True)
    done = subprocess.run([probe, "open", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the reader refuses the example: {done.stderr}")
    got = json.loads(done.stdout)
    got["tiles"] = {stage: count for stage, count in got["tiles"].items() if count > 0}
    if not got["inputs"] or any(got[key] != value for key, value in expected.items()):
        sys.exit(f"the reader sees {got}, expected {expected}")
    code, verdict = judge(tile_diff, output)
    if code != 0:
        sys.exit(f"tile-diff: {verdict}")


def main(page, probe, tile_diff, output=None):
    with tempfile.TemporaryDirectory() as folder:
        recording = str(pathlib.Path(folder) / "run.h5")
        for number, (script, expected) in enumerate(zip(scripts_of(page), EXPECTED)):
            check(script, expected, probe, tile_diff, f"{output or recording}.{number}")
        check_recipe(page, tile_diff, recording)
        check_key_by_key(page, tile_diff, recording)
        check_program(page, tile_diff, recording)


if __name__ == "__main__":
    main(*sys.argv[1:])
