"""The command `lucid-mini`: one subcommand a door."""

import argparse
import sys
from pathlib import Path

from . import __version__


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the result is the exit code: 0, or 2 for something the user can mend."""
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
        "--out", type=Path, default=Path("tour"), metavar="FOLDER", help="where the pictures go (default: tour)"
    )
    options = parser.parse_args(argv)
    try:
        return _tour(options.out)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _tour(folder: Path) -> int:
    from .tour import run

    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".write"
        probe.touch()
        probe.unlink()
    except OSError as error:
        print(f"lucid-mini tour: cannot write to {folder}: {error.strerror}", file=sys.stderr)
        return 2
    run(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
