"""The scripts in FORMAT.md write dumps that the reader takes whole. They stay at OUTPUT.0 and OUTPUT.1 if that is given.

usage: format_example_test.py FORMAT.md FILE_PROBE [OUTPUT]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# In the order of the page. Both have 1 batch, 24 and 40 rows in blocks of 16: 2 query blocks, 3 KV tiles.
EXPECTED = [
    # 2 heads
    dict(kernel="numpy", direction="forward", tiles=dict(s=12, m=12, p=12, l=12, acc=12, rescale=12, o=4, lse=4)),
    # 4 heads, 2 of dk and dv
    dict(kernel="numpy backward", direction="backward",
         tiles=dict(s=24, p=24, delta=8, dp=24, ds=24, dq=8, dk=6, dv=6)),
]


def scripts_of(page):
    scripts = re.findall(r"```python\n(.*?)```", pathlib.Path(page).read_text(encoding="utf-8"), re.DOTALL)
    if len(scripts) != len(EXPECTED):
        sys.exit(f"{page} has {len(scripts)} Python scripts, not {len(EXPECTED)}")
    return scripts


def check(script, expected, probe, output):
    subprocess.run([sys.executable, "-c", script, output], check=True)
    done = subprocess.run([probe, "open", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the reader refuses the example: {done.stderr}")
    got = json.loads(done.stdout)
    got["tiles"] = {stage: count for stage, count in got["tiles"].items() if count > 0}
    if not got["inputs"] or any(got[key] != value for key, value in expected.items()):
        sys.exit(f"the reader sees {got}, expected {expected}")


def main(page, probe, output):
    for number, (script, expected) in enumerate(zip(scripts_of(page), EXPECTED)):
        check(script, expected, probe, f"{output}.{number}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(sys.argv[1], sys.argv[2], str(pathlib.Path(folder) / "run.h5"))
