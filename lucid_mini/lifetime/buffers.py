"""Buffer: what a trace knows of one piece of memory, from birth to death, in names and numbers."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Buffer:
    """One owning array. Steps count events; `None` stands for "did not happen".

    Views, broadcasts and slices of it are not buffers of their own: they own no bytes.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     x.exp().sum().backward()
        >>> b = t.buffers[1]
        >>> b.name, b.saved_by, b.released is not None, b.freed_by
        ('exp#1', ('exp#1 output',), True, 'engine after exp#1')
    """

    #: What made it: `relu#2`, `grad of relu#2`, or the variable it was first seen under.
    name: str
    #: Bytes of the owning array (1 for an empty one: that is what NumPy allocates).
    nbytes: int
    #: Its birth; 0 for what was there before the trace.
    allocated: int
    #: Whether it was there before the trace began (parameters, inputs): not counted in the curve.
    existed: bool = False
    #: Whether NumPy did not allocate it (a buffer, a mapped file): listed, not counted.
    foreign: bool = False
    #: Whether a ctx keeps it outside tensors, in its bag or by name: listed, not counted.
    untracked: bool = False
    #: `file:line` of the call that made it.
    where: str = ""
    #: Which nodes saved it, and in which slot: `matmul#1 a`.
    saved_by: tuple[str, ...] = ()
    #: The first save.
    saved: int | None = None
    #: The last time a value in it was read: by an op, a rule, or as a gradient.
    last_use: int | None = None
    #: The last read in forward.
    last_forward_use: int | None = None
    #: When the last node that had saved it let go of it.
    released: int | None = None
    #: Its death; None: alive at the end of the trace.
    freed: int | None = None
    #: Who was at work when it died: `engine after matmul#1`.
    freed_by: str = ""
    #: Bytes x ops between its last use and its death.
    drag: int = 0
    #: Whether a leaf's `.grad` holds it.
    is_grad: bool = False
    #: "" while unknown, then `refcount`, `cycle`, `outside`, or `expected` for what a plain name
    #: holds.
    verdict: str = ""
    #: Who holds it, in one line.
    holder: str = ""
    #: The holder chains behind that line, made when asked for.
    holders: tuple[object, ...] = field(default=(), repr=False)

    @property
    def alive(self) -> bool:
        """Whether it was alive at the end of the trace."""
        return self.freed is None
