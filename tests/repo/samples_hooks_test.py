#!/usr/bin/env python3
"""No recorded sample names a folder of the machine that recorded it: not where its hooks stand, and in no other text.

usage: samples_hooks_test.py FOLDER
"""

import pathlib
import re
import sys
import unittest

import h5py
import numpy as np

# A folder of a user or of the system; paths of HDF5 objects begin otherwise.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|srv|mnt|opt|usr|var)/")
HOOK = re.compile(r"(?!/)[^\\\x00-\x1f]+:[1-9]\d*")


def attributes_of(path):
    """(object, name, text) of every attribute of text."""
    found = []

    def visit(name, thing):
        for key, value in thing.attrs.items():
            for text in np.ravel(np.asarray(value, dtype=object)):
                if isinstance(text, (str, bytes)):
                    found.append((name, key, text.decode() if isinstance(text, bytes) else text))

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return found


class Samples(unittest.TestCase):
    def test_no_absolute_path(self):
        samples = sorted(pathlib.Path(folder).rglob("*.h5"))
        self.assertGreater(len(samples), 10)
        for sample in samples:
            texts = attributes_of(sample)
            self.assertGreater(len(texts), 3, sample.name)
            for place, name, text in texts:
                with self.subTest(sample=sample.name, place=place, attribute=name):
                    self.assertIsNone(MACHINE_PATH.search(text), text)
                    if name == "hooks":
                        self.assertRegex(text, HOOK)
                        self.assertNotIn("..", pathlib.PurePosixPath(text).parts)


if __name__ == "__main__":
    folder = sys.argv.pop(1)
    unittest.main()
