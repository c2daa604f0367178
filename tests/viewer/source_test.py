#!/usr/bin/env python3
"""The lines of the kernel that recorded a stage: named by the recording, and shown where their file is found.

usage: source_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import shutil

import h5py
from tile_view_case import SAMPLES, TileViewCase, main

TAB_TO_SOURCE = ["key Tab"] * 5 + ["wait"]


class Source(TileViewCase):
    def recording(self, folder, hooks=("csrc/attention.cu:4", "csrc/attention.cu:31")):
        folder.mkdir(exist_ok=True)
        path = folder / "run.h5"
        shutil.copyfile(SAMPLES / "acc_not_rescaled.h5", path)
        with h5py.File(path, "r+") as file:
            file["tiles/acc"].attrs["hooks"] = list(hooks)
            del file["tiles/s"].attrs["hooks"]
        return path

    def project(self, folder, lines=40):
        (folder / "csrc").mkdir(parents=True)
        (folder / "csrc/attention.cu").write_text("".join(f"\tint line_{i + 1};\n" for i in range(lines)))
        return folder

    def test_line_is_marked_in_the_file_beside_the_recording(self):
        self.searches_causes = True
        self.project(self.folder / "project")
        path = self.recording(self.folder / "project/runs")
        self.play([path], "wait", *TAB_TO_SOURCE, "expect look at: acc *= exp(m_old - m_new)",
                  "expect csrc/attention.cu:4\ncsrc/attention.cu:31\n", "expect \n> 4      int line_4;\n", "click hook_2:0.5 0.5",
                  "frames 2", "expect \n>31      int line_31;\n", "expect_not int line_4;")
        # Without a file the tab of another stage says what is missing.
        self.play([path], "wait", *TAB_TO_SOURCE, "expect the recording does not say which line recorded s",
                  options=["--goto", "s:0,0,0,0"])

    def test_folder_of_the_project_is_named(self):
        project = self.project(self.folder / "elsewhere")
        path = self.recording(self.folder / "runs")
        self.play([path], "wait", *TAB_TO_SOURCE, "expect csrc/attention.cu is not below a folder that holds the recording",
                  "expect --source DIR")
        self.play([path], "wait", *TAB_TO_SOURCE, "expect \n> 4      int line_4;\n", options=["--source", project])
        self.play([path], "wait", *TAB_TO_SOURCE, f"expect csrc/attention.cu is not below {self.folder / 'runs'}",
                  options=["--source", self.folder / "runs"])
        self.assert_fails(self.start(path, "--source", self.folder / "none", "--screenshot", self.folder / "out.png"), "--source")

    def test_file_that_is_not_the_one_that_was_compiled(self):
        project = self.project(self.folder / "project", lines=12)
        path = self.recording(project, hooks=["csrc/attention.cu:31"])
        self.play([path], "wait", *TAB_TO_SOURCE, f"expect {project / 'csrc/attention.cu'} has 12 lines: it is not the file that was compiled")


if __name__ == "__main__":
    main()
