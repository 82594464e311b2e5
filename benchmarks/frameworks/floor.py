"""The floor: NumPy, and a backward written by hand."""

from .base import Framework, Program, Run


class Floor(Framework):
    """What every ratio is a ratio to."""

    name = "floor"
    distribution = "numpy"
    importing = "import numpy"

    def start(self, program: Program) -> Run:
        """The program as it was written by hand."""
        return Run(lambda: program.forward(*program.parameters), program.backward)
