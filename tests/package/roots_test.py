"""What ./dev package makes on a release of Debian: made in a root of it, and used in others that hold nothing else.

usage: roots_test.py ROOT SCRATCH SUITE   needs root, debootstrap, the mirror that apt uses and the index that pip uses
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import yaml

ROOT, SCRATCH = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SUITE = sys.argv[3]
# What follows the version in those of packages.
MARK = {"bookworm": "deb12", "trixie": "deb13"}[SUITE]
PROGRAMS = ["tilescope-tools", "tilescope-view"]
del sys.argv[1:]
UBUNTU = pathlib.Path(__file__).with_name("ubuntu-24.04.txt")
APT = "DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends -o Dpkg::Use-Pty=0"
CERTIFICATE = "/certificate.crt"
WRONG = "samples/acc_not_rescaled.h5"
SAYS = "diverged: acc is the first wrong stage"


def output_of(*command, **options):
    run = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    assert run.returncode == 0, f"{command} ended with {run.returncode}:\n{run.stdout[-8000:]}"
    return run.stdout


def mirror():
    """Of a whole release of Debian, which security and updates are not."""
    listed = output_of("apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)",
                       "Created-By: Packages")
    found = re.search(r"^Debian main [a-z]+ (\S+)$", listed, re.MULTILINE)
    return found and found.group(1)


def why_not():
    if os.geteuid() != 0:
        return "only root can make roots"
    if not shutil.which("debootstrap"):
        return "debootstrap is not installed"
    return None if mirror() else "apt knows no mirror of Debian"


def settings_of_pip():
    """Of this machine, but what it asks for by a path; a certificate of its own is CERTIFICATE there."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and not value.startswith("/")}
    return {**settings, "PIP_CERT": CERTIFICATE} if "PIP_CERT" in os.environ else settings


def compiler_cache():
    found = shutil.which("ccache")
    return output_of(found, "--get-config", "cache_dir").strip() if found else None


class Folder:
    """A system in a folder."""

    def __init__(self, path):
        self.path = path

    def run(self, script):
        """In a process tree and with mounts of its own, which end with it."""
        mounts = f"mount -t proc proc {self.path}/proc"
        if (self.path / "ccache").is_dir():
            mounts += f" && mount --bind {compiler_cache()} {self.path}/ccache"
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                       "CCACHE_DIR": "/ccache", "CCACHE_BASEDIR": "/source", "CCACHE_NOHASHDIR": "1", **settings_of_pip(),
                       "SOURCE_DATE_EPOCH": output_of("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()}
        return output_of("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                         f'{mounts} && exec chroot {self.path} sh -ec "$0"', script, env=environment)

    def copy(self, name):
        path = self.path.with_name(name)
        shutil.rmtree(path, ignore_errors=True)
        output_of("cp", "-a", self.path, path)
        return Folder(path)

    def add(self, folder, *paths):
        """Files of the repository."""
        into = self.path / folder
        into.mkdir()
        listed = output_of("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *paths)
        output_of("cp", "--parents", "-t", into, *listed.rstrip("\0").split("\0"), cwd=ROOT)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = SCRATCH / SUITE
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        cls.base = Folder(folder / "base")
        output_of("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, cls.base.path, mirror())
        # It need not outlive a crash of this machine.
        (cls.base.path / "etc/dpkg/dpkg.cfg.d/unsafe").write_text("force-unsafe-io\n")
        cls.addClassCleanup(shutil.rmtree, folder)
        maker = cls.base.copy("maker")
        maker.add("source")
        if "PIP_CERT" in os.environ:
            shutil.copy(os.environ["PIP_CERT"], maker.path / CERTIFICATE[1:])
        if compiler_cache():
            (maker.path / "ccache").mkdir()
            maker.run(f"apt-get update -qq && {APT} ccache")
        print(maker.run("cd /source && ./dev package")[-2000:], flush=True)
        cls.made = folder / "made"
        shutil.copytree(maker.path / "source/dist", cls.made)
        shutil.rmtree(maker.path)

    def setUp(self):
        self.clean = self.base.copy("clean")
        self.addCleanup(shutil.rmtree, self.clean.path)
        self.clean.add("source", "samples", "tests/repo")
        shutil.copytree(self.made, self.clean.path / "made")

    def test_packages_of_one_version(self):
        version = re.search(r"project\(tilescope VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        soversion = version.rpartition(".")[0]
        names = {*PROGRAMS, "libtilescope-dev", f"libtilescope{soversion}"}
        self.assertEqual({path.name for path in self.made.glob("*.deb")}, {f"{name}_{version}~{MARK}_amd64.deb" for name in names})
        self.assertEqual([path.name for path in self.made.glob("*.tar.gz")], [f"tilescope-{version}-x86_64.tar.gz"])
        wheel, = self.made.glob("*.whl")
        self.assertRegex(wheel.name, rf"^tilescope-{re.escape(version)}-cp3\d+-\w+-manylinux_2_\d+_x86_64\.whl$")
        self.assertEqual(len(list(self.made.iterdir())), len(names) + 2)

    def test_archive_runs_from_any_folder(self):
        self.clean.run("mkdir '/opt/a b' && tar xzf /made/tilescope-*.tar.gz -C '/opt/a b' --strip-components 1")
        for move, prefix in (("true", "/opt/a b"), ("mv '/opt/a b' /srv/c", "/srv/c")):
            said = self.clean.run(f"{move}; '{prefix}/bin/tile-diff' /source/{WRONG} || test $? = 1")
            self.assertIn(SAYS, said)
            said = self.clean.run(f"'{prefix}/bin/tile-run' record --kernel scalar --engine cpu --shape 1,2,64,256,64 -o /run.h5"
                                  f" && '{prefix}/bin/tile-diff' /run.h5 && '{prefix}/bin/tile-gate' --version")
            self.assertIn("\nmatch: ", said)

    def install(self, *packages):
        self.clean.run(f"apt-get update -qq && {APT} {' '.join(packages)}")

    def test_programs_judge_every_sample(self):
        self.install(*(f"/made/{name}_*.deb" for name in PROGRAMS), "python3")
        self.clean.run("python3 /source/samples/judge.py --tile-diff /usr/bin/tile-diff")
        for name in PROGRAMS:
            program = {"tilescope-tools": "tile-diff", "tilescope-view": "tile-view"}[name]
            self.assertTrue(self.clean.run(f"{program} --version").startswith(program))
        self.clean.run("apt-get purge -qq 'tilescope-*'")
        self.assertEqual(self.clean.run("find /usr /etc -name '*tilescope*' -o -name 'tile-*'"), "")

    def test_wheel_judges_without_a_compiler(self):
        """pip unpacks it, and asks nobody for anything."""
        self.install("python3-pip", "python3-numpy")
        self.clean.run("python3 -m pip install --quiet --no-index --no-deps --target /packages /made/*.whl")
        said = self.clean.run("cd / && PYTHONPATH=/packages python3 -c 'import tilescope; print(tilescope.__version__); "
                              f"print(tilescope.judge(\"/source/{WRONG}\"))'")
        version, _, report = said.partition("\n")
        self.assertIn(f"tilescope-{version}-", next(self.made.glob("*.whl")).name)
        self.assertIn(SAYS, report)

    def test_the_viewer_draws(self):
        self.install("/made/tilescope-view_*.deb", "xvfb xauth libgl1-mesa-dri fonts-dejavu-core")
        said = self.clean.run(f"xvfb-run -a tile-view /source/{WRONG} --size 1600x1000 --screenshot /shown.png 2>&1")
        self.assertEqual(said, "")
        picture = (self.clean.path / "shown.png").read_bytes()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        # An empty window takes a few thousand bytes.
        self.assertGreater(len(picture), 50000)

    def test_a_project_is_built_with_it(self):
        self.install("/made/*.deb", "cmake make g++ pkg-config libgmock-dev")
        self.clean.run("cmake -S /source/tests/repo/consumer -B /consumer && cmake --build /consumer && cd /tmp && /consumer/consumer"
                       " && /consumer/consumer_static && ! ldd /consumer/consumer_static | grep -E 'tilescope|hdf5|curl|krb5|ldap'")
        self.clean.run("cmake -S /source/tests/repo/judged -B /judged -DSAMPLES=/source/samples && cmake --build /judged")
        # The other tests there are to fail.
        self.clean.run("ctest --test-dir /judged --no-tests=error -R '^(healthy|reported|selected|expectations)$'")
        self.clean.run("echo '#include \"dump/reader.h\"\nint main() { return tilescope::is_unwritten(0); }' > /a.cpp"
                       " && for package in tilescope tilescope-static; do"
                       " g++ -std=c++17 /a.cpp -o /a $(pkg-config --cflags --libs $package) && /a || exit 1; done")

    @unittest.skipUnless(SUITE == "bookworm", "its container is of another release")
    def test_the_pipeline_of_the_sample(self):
        """From its step that installs the packages to its reports; what they hold is in tests/repo/pipeline_test.py."""
        steps = yaml.safe_load((ROOT / "samples/pipeline/pipeline.yml").read_text())["jobs"]["kernels"]["steps"]
        self.clean.run("cp -r /source/samples/pipeline /pipeline && mv /made /pipeline/packages")
        for step in steps:
            if "run" in step:
                self.clean.run(f"export GITHUB_STEP_SUMMARY=/summary.md && cd /pipeline\n{step['run']}")
        reports = self.clean.path / "pipeline/reports"
        self.assertEqual({path.name for path in reports.iterdir()},
                         {"ctest.xml", "pytest", "pytest.xml", *(f"tile-diff.{form}" for form in ("html", "md", "sarif", "xml"))})
        self.assertIn("5 recordings: 4 match, 1 known", (self.clean.path / "summary.md").read_text())

    @unittest.skipUnless(SUITE == "bookworm", "another release has other libraries")
    def test_ubuntu_has_what_packages_ask_for(self):
        """By its list: it was not installed there."""
        rows = [line.split() for line in UBUNTU.read_text().splitlines() if line and line[0] != "#"]
        has = {asked: version for asked, _, version, _ in rows}
        asked = {}
        for package in self.made.glob("*.deb"):
            for clause in output_of("dpkg-deb", "--field", package, "Depends").strip().split(", "):
                name, _, limit = clause.partition(" ")
                asked.setdefault(name, set()).add(limit.strip("()"))
        own = {name for name in asked if "tilescope" in name}
        self.assertEqual(set(asked) - own, set(has))
        for name, limits in asked.items():
            for limit in limits - {""} if name not in own else ():
                relation, version = limit.split()
                output_of("dpkg", "--compare-versions", has[name], {">=": "ge", "=": "eq"}[relation], version)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
