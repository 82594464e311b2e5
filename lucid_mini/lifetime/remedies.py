"""The way out of each form of holding, in one place: `scan` and holder chains both say it."""

#: How a holder holds, by the start of the words that name it, and what to do about it.
_REMEDIES = (
    ("closure cell", "save it with ctx.save_for_backward, or pass it as an argument"),
    ("default of", "save it with ctx.save_for_backward, or pass it as an argument"),
    ("ctx attribute", "save it with ctx.save_for_backward, which backward releases"),
    ("saved view of the output", "save the output itself, and take the view in backward"),
    ("packed output", "let the pack hook return tensor.detach(), which has no history"),
    ("saved", "run backward, or let the output go"),
    ("hook", "capture weakref.ref(tensor) in the hook, and remove the hook when done"),
    ("pre hook", "capture weakref.ref(tensor) in the hook, and remove the hook when done"),
    ("post hook", "capture weakref.ref(tensor) in the hook, and remove the hook when done"),
    (
        "the notebook's",
        "what is displayed is kept: display a number, or end the line with `;` "
        "(`%reset -f out` gives most of it back)",
    ),
    ("sys.last_", "set sys.last_value, sys.last_traceback (and sys.last_exc) to None"),
    ("traceback", "let the exception go: keep str(error), not error"),
    ("local '", "let the function end, or del the variable in it"),
    ("global '", "pass it as an argument, or del it when done"),
    ("attribute", "set the attribute to None when done, or keep a number in it"),
    ("slot", "set the attribute to None when done, or keep a number in it"),
    ("class attribute", "keep it on the instance, and clear it when done"),
    ("inside a _lru_cache_wrapper", "call cache_clear(), or cache by a key that is no tensor"),
    ("argument", "pass weakref.ref(tensor) to the partial, or build it when it is called"),
    ("bound self", "keep weakref.WeakMethod(method) in place of the method"),
)


def remedy_for(how: str) -> str:
    """What to do about something that is held in the way `how` says; "" where nothing is known."""
    return next((remedy for start, remedy in _REMEDIES if how.startswith(start)), "")
