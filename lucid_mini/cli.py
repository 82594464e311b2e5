"""The command `lucid-mini`: one subcommand a door."""

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from . import __version__


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the result is the exit code: 0, or 2 for what the user can mend.

    `doctor` adds 1 for a leak, and the code of the script that it ran.
    """
    parser = argparse.ArgumentParser(
        prog="lucid-mini",
        description="Automatic differentiation that shows what a backward pass remembers.",
    )
    parser.add_argument("--version", action="version", version=f"lucid-mini {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    tour = commands.add_parser(
        "tour", help="train on handwritten digits, trace one step, draw what it remembers"
    )
    tour.add_argument(
        "--out",
        type=Path,
        default=Path("tour"),
        metavar="FOLDER",
        help="where the pictures go (default: tour)",
    )
    commands.add_parser(
        "book",
        help="open the book in JupyterLab",
        epilog="Further arguments go to JupyterLab: lucid-mini book --no-browser",
    )
    site = commands.add_parser("site", help="build the documentation as a folder of web pages")
    site.add_argument(
        "--out",
        type=Path,
        default=Path("site"),
        metavar="FOLDER",
        help="where the pages go (default: site); what an earlier call left there is replaced",
    )
    commands.add_parser(
        "doctor",
        help="run a script that uses PyTorch or lucid_mini, and name what it leaks",
        add_help=False,
    )
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["doctor"]:
        return _doctor(argv[1:])
    options, rest = parser.parse_known_args(argv)
    if options.command == "book":
        return _book(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    run = {"tour": _tour, "site": _site}[options.command]
    try:
        return run(options.out)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _doctor(arguments: list[str]) -> int:
    from . import doctor

    return doctor.main(arguments)  # takes them apart by itself: the rest is a script's


def _tour(folder: Path) -> int:
    from .tour import run

    if not _can_write("tour", folder):
        return 2
    run(folder)
    return 0


def _can_write(command: str, folder: Path) -> bool:
    """Whether files can be put into `folder`, which is made; if not, says why."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".write"
        probe.touch()
        probe.unlink()
    except OSError as error:
        print(f"lucid-mini {command}: cannot write to {folder}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _site(folder: Path) -> int:
    """The pages of the clone that the package lies in."""
    root = Path(__file__).resolve().parents[1]
    if not (root / "docs" / "conf.py").is_file():
        print(
            "lucid-mini site: the pages are not installed with the package. Clone the repository, "
            "and install it there with pip install -e '.[site]'.",
            file=sys.stderr,
        )
        return 2
    missing = [name for name in ("sphinx", "myst_nb", "sphinx_book_theme") if not find_spec(name)]
    if missing:
        names = " and ".join(missing)
        print(
            f"lucid-mini site: {names} not installed: pip install 'lucid-mini[site]'",
            file=sys.stderr,
        )
        return 2
    from .site import build, is_site

    if not _can_write("site", folder):
        return 2
    if any(folder.iterdir()) and not is_site(folder):
        print(
            f"lucid-mini site: {folder} has something else in it. Choose another with --out.",
            file=sys.stderr,
        )
        return 2
    if not build(root, folder):
        print("lucid-mini site: not built; what is wrong stands above", file=sys.stderr)
        return 2
    print(f"→ {folder / 'index.html'}")
    return 0


def _book(arguments: list[str]) -> int:
    """JupyterLab on the chapters, which lie beside the package in a clone."""
    folder = Path(__file__).resolve().parents[1] / "book"
    if not any(folder.glob("[0-9]*.ipynb")):
        print(
            "lucid-mini book: the book is not installed with the package. Clone the repository, "
            "and install it there with pip install -e '.[book]'.",
            file=sys.stderr,
        )
        return 2
    missing = [name for name in ("jupyterlab", "matplotlib") if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        print(
            f"lucid-mini book: {names} not installed: pip install 'lucid-mini[book]'",
            file=sys.stderr,
        )
        return 2
    with subprocess.Popen([sys.executable, "-m", "jupyterlab", str(folder), *arguments]) as lab:
        while True:
            try:
                return lab.wait()
            except KeyboardInterrupt:
                continue  # it goes to JupyterLab too, which asks whether to stop


if __name__ == "__main__":
    sys.exit(main())
