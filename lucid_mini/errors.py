"""One class per mistake.

The docstring of a class says when it is raised; the message names the way out.
"""


class AutogradError(RuntimeError):
    """The root of every error of the stack, so that one `except` catches them all."""


class CtxUsageError(AutogradError):
    """A method of ctx was called at the wrong time or with an argument it cannot serve."""


class GraphFreedError(AutogradError):
    """Saved data were asked for after a backward pass had released them."""


class VersionMismatchError(AutogradError):
    """A saved tensor was changed in place between the save and the use in backward."""


class GradientCountError(AutogradError):
    """A backward rule returned more, fewer or other gradients than its forward has arguments."""


class GradientShapeError(AutogradError):
    """A gradient does not have the shape of the tensor it belongs to."""


class LeafInPlaceError(AutogradError):
    """A leaf that requires grad was written in place while operations are recorded."""


class UnusedInputError(AutogradError):
    """`grad()` was asked for the gradient of an input that the outputs do not depend on."""


class NonScalarBackwardError(AutogradError):
    """`backward()` without a gradient was called on a tensor of more or fewer than one element."""


class NoGradientError(AutogradError):
    """A root of backward, or the target of a hook, does not require grad and has no history."""


class NotALeafError(AutogradError):
    """Something that only leaves allow was asked of a tensor with history."""


class InferenceTensorError(AutogradError):
    """A tensor made in `inference_mode` was saved for backward."""


class PackError(AutogradError):
    """A saved-tensor hook wrote in place, or gave back another shape or type than it was given."""


class AnomalyError(AutogradError):
    """`detect_anomaly()` met the first NaN or Inf of a backward pass."""


class GradcheckError(AutogradError):
    """`gradcheck` found a rule that does not agree with finite differences."""


class CheckpointError(AutogradError):
    """A checkpointed function did something else when it was run again."""


class LeakWarning(UserWarning):
    """Something keeps bytes alive longer than needed. The root of the kinds below."""


class CtxAttributeWarning(LeakWarning):
    """A tensor sits in a ctx attribute: it is neither version-checked nor released by backward."""


class ClosureCaptureWarning(LeakWarning):
    """A forward or backward captures a tensor in a closure cell or a default."""


class HookCaptureWarning(LeakWarning):
    """A hook captures the tensor it is registered on, its node, or something downstream."""


class SavedTwiceWarning(UserWarning):
    """`save_for_backward` or a `mark_…` was called again: the second call replaced the first."""


class SecondDerivativeWarning(UserWarning):
    """A second derivative goes through a saved intermediate, which has no history."""
