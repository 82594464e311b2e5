"""One class per mistake.

The docstring of a class says when it is raised; the message names the way out. The examples show
warnings as `python -W error::UserWarning` does: raised.
"""


class AutogradError(RuntimeError):
    """The root of every error of the stack, so that one `except` catches them all.

    Example:
        >>> try:
        ...     lm.ones(2, requires_grad=True).backward()
        ... except lm.errors.AutogradError as error:
        ...     print(type(error).__name__)
        NonScalarBackwardError
    """


class CtxUsageError(AutogradError):
    """A method of ctx was called at the wrong time or with an argument it cannot serve.

    Example:
        >>> y = lm.ones(1, requires_grad=True).exp()
        >>> y.grad_fn.ctx.save_for_backward(y)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.CtxUsageError: exp#1: save_for_backward works only inside forward
          (or setup_context). To hand a value to a later backward, save it in forward.
    """


class GraphFreedError(AutogradError):
    """Saved data were asked for after a backward pass had released them.

    Example:
        >>> y = lm.ones(1, requires_grad=True).exp()
        >>> y.backward()
        >>> y.backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.GraphFreedError: exp#1 was used by backward 1, which released what
          it had saved. Pass retain_graph=True to the first backward to keep it.
    """


class VersionMismatchError(AutogradError):
    """A saved tensor was changed in place between the save and the use in backward.

    Example:
        >>> y = lm.ones(1, requires_grad=True).exp()
        >>> y.add_(1).backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.VersionMismatchError: exp#1 saved tensor 0 at version 0, but it
          was changed in place by add_in_place at ... and is at version 1 now. Save a
          copy (`x.clone()`), or use an out-of-place op instead of the one that changed it.
    """


class GradientCountError(AutogradError):
    """A backward rule returned more, fewer or other gradients than its forward has arguments.

    Example:
        >>> twice = lm.autograd.autograd_function(
        ...     lambda ctx, x: 2 * x, lambda ctx, grad: (2 * grad, grad), "Twice"
        ... )
        >>> twice(lm.ones(1, requires_grad=True)).backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.GradientCountError: Twice.backward returned 2 gradients, but
          forward was called with 1 argument (x). Return one gradient for each argument, in
          that order, and None where there is none.
    """


class GradientShapeError(AutogradError):
    """A gradient does not have the shape of the tensor it belongs to.

    Example:
        >>> total = lm.autograd.autograd_function(
        ...     lambda ctx, x: x.sum(), lambda ctx, grad: grad, "Total"
        ... )
        >>> total(lm.ones(3, requires_grad=True)).backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.GradientShapeError: Total.backward returned a gradient of shape ()
          for 'x', which has shape (3,). Return one of that shape.
    """


class LeafInPlaceError(AutogradError):
    """A leaf that requires grad was written in place while operations are recorded.

    Example:
        >>> lm.ones(1, requires_grad=True).mul_(2)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.LeafInPlaceError: MulInPlace would write in place into a leaf that
          requires grad; the value that earlier ops saw would be lost. Write under `with
          lm.no_grad():`, or into a clone.
    """


class UnusedInputError(AutogradError):
    """`grad()` was asked for the gradient of an input that the outputs do not depend on.

    Example:
        >>> x, y = lm.ones(1, requires_grad=True), lm.ones(1, requires_grad=True)
        >>> lm.autograd.grad(x * 2, y)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.UnusedInputError: grad(): input 0 was not used by the outputs.
          Pass allow_unused=True for None in its place, or materialize_grads=True for zeros.
    """


class NonScalarBackwardError(AutogradError):
    """`backward()` without a gradient was called on a tensor of more or fewer than one element.

    Example:
        >>> lm.ones(2, requires_grad=True).backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.NonScalarBackwardError: backward() without a gradient starts at 1
          and needs one element; this tensor has shape (2,). Sum it first, or pass a
          gradient of that shape.
    """


class NoGradientError(AutogradError):
    """A root of backward, or the target of a hook, does not require grad and has no history.

    Example:
        >>> lm.ones(1).backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.NoGradientError: root 0 of backward does not require grad and has
          no history. Call requires_grad_() on a leaf it is computed from, and compute it
          outside no_grad.
    """


class NotALeafError(AutogradError):
    """Something that only leaves allow was asked of a tensor with history.

    Example:
        >>> lm.ones(1, requires_grad=True).exp().requires_grad_(False)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.NotALeafError: requires_grad of a tensor made by exp#1 cannot be
          switched off: it is not a leaf. Use .detach() for a tensor without that history.
    """


class InferenceTensorError(AutogradError):
    """A tensor made in `inference_mode` was saved for backward.

    Example:
        >>> with lm.inference_mode():
        ...     y = lm.ones(1)
        >>> lm.autograd.FunctionCtx().save_for_backward(y)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.InferenceTensorError: FunctionCtx cannot save a tensor made in
          inference_mode. Make it outside, or save `x.clone()` of it.
    """


class PackError(AutogradError):
    """A saved-tensor hook wrote in place, or gave back another shape or type than it was given.

    Example:
        >>> with lm.autograd.saved_tensors_hooks(lambda t: t, lambda t: t.reshape(1, 2)):
        ...     y = lm.ones(2, requires_grad=True).exp()
        >>> y.sum().backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.PackError: exp#1: unpack returned a tensor of shape (1, 2) and
          dtype float64, and what was saved had shape (2,) and dtype float64. It must give
          back what pack was given.
    """


class AnomalyError(AutogradError):
    """`detect_anomaly()` met the first NaN or Inf of a backward pass.

    Example:
        >>> with lm.autograd.detect_anomaly():
        ...     lm.zeros(1, requires_grad=True).sqrt().backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.AnomalyError: sqrt#1 gave a gradient for 'x' with 1 Inf ...
    """


class GradcheckError(AutogradError):
    """`gradcheck` found a rule that does not agree with finite differences.

    Example:
        >>> wrong = lm.autograd.autograd_function(lambda ctx, x: 2 * x, lambda ctx, g: g, "Twice")
        >>> lm.gradcheck(wrong, lm.ones(1, requires_grad=True))
        Traceback (most recent call last):
            ...
        lucid_mini.errors.GradcheckError: gradcheck of Twice: d output 0[0] / d input 0[0]:
          analytic 1, numeric 2. The analytic gradient is 0.5 times the numeric one,
          everywhere.
    """


class CheckpointError(AutogradError):
    """A checkpointed function did something else when it was run again.

    Example:
        >>> lengths = iter([1, 2])
        >>> y = lm.checkpoint(lambda x: x.expand(next(lengths)), lm.ones(1, requires_grad=True))
        >>> y.backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.CheckpointError: checkpoint: <lambda> gave output 0 of shape (2,)
          and float64 when run again, and of shape (1,) and float64 at first. It must do the
          same both times: draw random numbers from lm.rand or lm.randn only, and let
          nothing it reads change between forward and backward.
    """


class LeakWarning(UserWarning):
    """Something keeps bytes alive longer than needed. The root of the kinds below.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", lm.errors.LeakWarning)  # every kind becomes an error
    """


class CtxAttributeWarning(LeakWarning):
    """A tensor sits in a ctx attribute: it is neither version-checked nor released by backward.

    Example:
        >>> def forward(ctx, x):
        ...     ctx.x = x
        ...     return x * x
        >>> square = lm.autograd.autograd_function(forward, lambda ctx, g: 2 * ctx.x * g, "Square")
        >>> square(lm.ones(2, requires_grad=True))
        Traceback (most recent call last):
            ...
        lucid_mini.errors.CtxAttributeWarning: Square keeps a tensor of 16 bytes in ctx.x:
          it is not version-checked and not released by backward. Use ctx.save_for_backward.
    """


class ClosureCaptureWarning(LeakWarning):
    """A forward or backward captures a tensor in a closure cell or a default.

    Example:
        >>> def make():
        ...     def forward(ctx, x):
        ...         nonlocal y
        ...         y = x.exp()
        ...         return y
        ...     y = None
        ...     return lm.autograd.autograd_function(forward, lambda ctx, grad: grad * y, "Exp")
        >>> make()(lm.ones(2, requires_grad=True))
        Traceback (most recent call last):
            ...
        lucid_mini.errors.ClosureCaptureWarning: Exp.forward captures its own output of 16
          bytes in a closure cell 'y' (...): it lives as long as the function does,
          and backward does not release it. Save it with ctx.save_for_backward, or pass it
          as an argument.
    """


class HookCaptureWarning(LeakWarning):
    """A hook captures the tensor it is registered on, its node, or something downstream.

    Example:
        >>> x = lm.ones(2, requires_grad=True)
        >>> x.register_hook(lambda grad, x=x: grad * x)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.HookCaptureWarning: hook <lambda>.__defaults__[0] holds the tensor
          it is registered on. Node -> hook -> capture -> node is a cycle, and only the
          garbage collector frees it. Capture weakref.ref(t) in place of t, and call it in
          the hook.
    """


class SavedTwiceWarning(UserWarning):
    """`save_for_backward` or a `mark_…` was called again: the second call replaced the first.

    Example:
        >>> ctx = lm.autograd.FunctionCtx()
        >>> ctx.save_for_backward(lm.ones(1))
        >>> ctx.save_for_backward(lm.ones(1))
        Traceback (most recent call last):
            ...
        lucid_mini.errors.SavedTwiceWarning: FunctionCtx called save_for_backward twice; the
          second call replaced what the first had saved. Save everything in one call.
    """


class SecondDerivativeWarning(UserWarning):
    """A second derivative goes through a saved intermediate, which has no history.

    Example:
        >>> def forward(ctx, x):
        ...     y = x.exp()
        ...     ctx.save_for_backward(y)
        ...     return y * 1.0
        >>> exp = lm.autograd.autograd_function(
        ...     forward, lambda ctx, grad: grad * ctx.saved_tensors[0], "Exp"
        ... )
        >>> x = lm.ones(1, requires_grad=True)
        >>> (g,) = lm.autograd.grad(exp(x), x, create_graph=True)
        Traceback (most recent call last):
            ...
        lucid_mini.errors.SecondDerivativeWarning: exp#1 saved an intermediate (shape (1,))
          that is neither an argument nor an output of its forward, so a second derivative
          takes it for a constant. Save arguments and outputs, and compute the rest in
          backward.
    """
