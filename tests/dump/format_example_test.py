"""The script in FORMAT.md writes a dump that the reader takes whole. The dump stays at OUTPUT if that is given.

usage: format_example_test.py FORMAT.md FILE_PROBE [OUTPUT]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile


def script_of(page):
    scripts = re.findall(r"```python\n(.*?)```", pathlib.Path(page).read_text(encoding="utf-8"), re.DOTALL)
    if len(scripts) != 1:
        sys.exit(f"{page} has {len(scripts)} Python scripts, not one")
    return scripts[0]


def main(page, probe, output):
    subprocess.run([sys.executable, "-c", script_of(page), output], check=True)
    done = subprocess.run([probe, "open", output], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the reader refuses the example: {done.stderr}")
    got = json.loads(done.stdout)
    # 1 batch, 2 heads, 24 and 40 rows in blocks of 16: 2 query blocks, 3 KV tiles.
    expected = dict(q=0, k=0, v=0, s=12, m=12, p=12, l=12, acc=12, o=4, lse=4)
    if got["tiles"] != expected or not got["inputs"] or got["kernel"] != "numpy":
        sys.exit(f"the reader sees {got}, expected tiles {expected}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(sys.argv[1], sys.argv[2], str(pathlib.Path(folder) / "run.h5"))
