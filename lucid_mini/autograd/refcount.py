"""What `sys.getrefcount` reports for an object that one local name holds, and nobody else.

Some places of the stack ask whether they hold an object alone: then they may hand it out, or
write into it, without a copy. The number is measured and not written down, because it is the
interpreter's own affair: 2 up to CPython 3.13 (the name, and the argument of getrefcount).
"""

import sys


def _measure() -> int:
    alone = object()
    return sys.getrefcount(alone)


ALONE = _measure()
