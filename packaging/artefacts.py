"""What every package contains: the built files without debugging information, shell completions, man pages and licences."""

import pathlib
import platform
import re
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
# Machines by their number in an ELF header: the name of Python and the kernel, and Debian's name.
MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
# The lowest tag that pip knows for the glibc that the releases are built for.
OLDEST_GLIBC = (2, 28)
COMPLETIONS = {
    "bash": "share/bash-completion/completions/rankscope",
    "zsh": "share/zsh/site-functions/_rankscope",
    "fish": "share/fish/vendor_completions.d/rankscope.fish",
}


def add_arguments(parser):
    """Adds the built files, and the folder of the package, to a command line."""
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--viewer", type=pathlib.Path)
    parser.add_argument("--writer", type=pathlib.Path, help="the same program for this machine, if --program is for another: "
                        "it writes completions and man pages")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")


def built(arguments):
    """The built files that were named."""
    return [file for file in (arguments.program, arguments.library, arguments.viewer) if file]


def version():
    """The version of the workspace: the only one."""
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', text, re.MULTILINE).group(1)


def machine(files):
    """The machine that all files are for: its name for Python, and its name for Debian."""
    numbers = set()
    for file in files:
        head = file.read_bytes()[:20]
        if head[:4] != b"\x7fELF":
            raise SystemExit(f"{file} is no ELF file")
        numbers.add(struct.unpack_from("<H", head, 18)[0])
    if len(numbers) > 1:
        raise SystemExit("the files are for several machines")
    number = numbers.pop()
    if number not in MACHINES:
        raise SystemExit(f"the files are for a machine of number {number}, which rankscope does not support")
    return MACHINES[number]


def tool(name, files):
    """The program of binutils with this name for the machine of the files."""
    other, here = machine(files)[0], platform.machine()
    return name if other == here else f"{other}-linux-gnu-{name}"


def glibc(files):
    """The lowest version of glibc that all files run on, which their symbols determine."""
    found = [OLDEST_GLIBC]
    for file in files:
        symbols = subprocess.run([tool("objdump", [file]), "-T", file], check=True, capture_output=True, text=True).stdout
        found += [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    return max(found)


def stripped(file):
    """The bytes of a file without debugging information. Names of functions stay, for messages of panics."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "stripped"
        subprocess.run([tool("strip", [file]), "--strip-debug", "-o", out, file], check=True)
        return out.read_bytes()


def installed(arguments):
    """What a package installs below a prefix such as /usr: paths with their bytes and modes."""
    out = {
        "bin/rankscope": (stripped(arguments.program), 0o755),
        # The program looks for it there (launch/library.rs).
        "lib/rankscope/librankscope.so": (stripped(arguments.library), 0o644),
        "include/rankscope.h": ((ROOT / "layer/include/rankscope.h").read_bytes(), 0o644),
    }
    if arguments.viewer:
        out["bin/rankscope-viewer"] = (stripped(arguments.viewer), 0o755)
    for path, content in documents(arguments.writer or arguments.program).items():
        out[path] = (content, 0o644)
    return out


def documents(program):
    """Shell completions and man pages, by their paths below a prefix such as /usr. The program itself writes them."""
    out = {}
    for shell, path in COMPLETIONS.items():
        out[path] = subprocess.run([program, "completions", shell], check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "reference", "--man", folder], check=True)
        for page in sorted(pathlib.Path(folder).iterdir()):
            out[f"share/man/man1/{page.name}"] = page.read_bytes()
    return out
