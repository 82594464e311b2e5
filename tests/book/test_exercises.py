"""What `check` says to right, wrong, half and crashing answers."""

import re

import numpy as np
import pytest

import lucid_mini as lm
from book import exercises


@pytest.fixture
def said(capsys):
    """What `check` prints for an answer: one line, without the number of the exercise."""

    def ask(number, *answer):
        exercises.check(number, *answer)
        out, err = capsys.readouterr()
        assert err == ""
        assert out.count("\n") == 1, out
        assert "Traceback" not in out
        head, _, text = out.strip().partition(": ")
        assert head == f"Exercise {number}"
        return text

    return ask


def function(forward, backward):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Answer", (lm.autograd.Function,), body)


# -- any exercise ---------------------------------------------------------------------------------


def test_every_chapter_has_three_exercises_or_more():
    chapters = [number.split(".")[0] for number in exercises.CHECKS]
    assert all(chapters.count(chapter) >= 3 for chapter in chapters)


@pytest.mark.parametrize("number", list(exercises.CHECKS))
def test_dots_are_an_exercise_that_is_not_solved_yet(said, number):
    assert said(number, ...).startswith("not solved yet.")


@pytest.mark.parametrize("number", list(exercises.CHECKS))
@pytest.mark.parametrize(
    "answer",
    [
        None,
        0,
        -1.5,
        "text",
        [],
        {},
        (),
        object(),
        lm,
        len,
        lambda *a: None,
        int,
        lm.ones(3),
        np.nan,
    ],
    ids=lambda a: type(a).__name__,
)
def test_an_answer_of_any_other_kind_gets_a_sentence(said, number, answer):
    for given in ((answer,), (answer, answer), (answer, answer, answer)):
        assert said(number, *given).startswith(("not right yet.", "not solved yet."))


@pytest.mark.parametrize("number", list(exercises.CHECKS))
def test_no_answer_at_all_gets_a_sentence(said, number):
    assert said(number).startswith("not right yet.")


def test_an_exercise_that_does_not_exist_is_answered_with_those_that_do(capsys):
    exercises.check("9.9", 1)
    assert "1.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error",
    [ValueError("no\nsecond line"), RecursionError("deep"), SystemExit(3), ZeroDivisionError()],
)
def test_a_crash_is_told_with_class_message_and_line_of_the_answer(said, error):
    def rule(x, grad):
        if len(x):
            raise error

    text = said("1.2", rule)
    assert text.startswith(f"not right yet. Your code raised {type(error).__name__}")
    assert text.endswith("(line 3 of `rule`)")
    assert "second line" not in text


def test_a_crash_inside_the_package_names_the_line_of_the_answer_that_led_there(said):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum(dim=7)

    text = said("2.2", function(forward, lambda ctx, grad: grad))
    assert "(line 3 of `forward`)" in text


def test_an_answer_that_calls_itself_for_ever_gets_a_sentence(said):
    def rule(x, grad):
        return rule(x, grad)

    assert "RecursionError" in said("1.2", rule)


def test_an_interrupt_ends_the_check_and_not_the_notebook(said):
    def rule(x, grad):
        raise KeyboardInterrupt

    assert said("1.2", rule) == "stopped."


def test_a_function_that_returns_nothing_is_told_so(said):
    assert "`return` is missing" in said("1.2", lambda x, grad: None)


def test_dots_in_an_index_are_no_unsolved_exercise(said):
    assert said("1.2", lambda x, grad: (grad * np.cos(x * x) * 2 * x)[...]) == "right."


def test_half_a_function_says_which_half_is_missing(said):
    def forward(ctx, x):
        return x.sum(1)

    def backward(ctx, grad):
        return ...

    text = said("2.2", function(forward, backward))
    assert text.startswith("not solved yet. One half is there; `backward`")


def test_a_function_without_backward_gets_a_sentence(said):
    class Half(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum(1)

    assert "no backward" in said("2.2", Half)


def test_a_shape_is_wrong_in_words(said):
    assert "shape (2,), and it must have shape (3,)" in said("1.2", lambda x, grad: grad[:2])


def test_checking_twice_says_the_same(said):
    def forward(ctx, x):
        ctx.kept = x
        return x.sum(1)

    answer = function(forward, lambda ctx, g: g.reshape(-1, 1) * lm.ones(3, 3))
    assert said("2.2", answer) == said("2.2", answer)


def test_a_check_leaves_no_gradient_and_no_mode_behind(said):
    def forward(ctx, x):
        raise ValueError

    said("2.2", function(forward, lambda ctx, g: g))
    assert lm.is_grad_enabled()


# -- chapter 1 ------------------------------------------------------------------------------------


def test_1_1_right(said):
    assert said("1.1", 8000).startswith("right.")
    assert said("1.1", np.int64(8000)).startswith("right.")


@pytest.mark.parametrize(
    ("bytes_", "hint"),
    [(1000, "number of values"), (16000, "twice"), (24000, "reads"), (0, "Both"), (7, "How many")],
)
def test_1_1_says_which_thought_went_wrong(said, bytes_, hint):
    assert hint in said("1.1", bytes_)


def test_1_2_a_rule_that_ignores_the_incoming_gradient(said):
    assert "ignores `grad`" in said("1.2", lambda x, grad: np.cos(x * x) * 2 * x)


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        (lambda x, grad: np.cos(x * x) * grad, "factor is missing"),
        (lambda x, grad: -np.cos(x * x) * 2 * x * grad, "wrong sign"),
        (lambda x, grad: np.cos(x * x) * x * grad, "0.5 times"),
        (lambda x, grad: np.sin(x) * grad, "finite difference"),
        (lambda x, grad: "3", "must"),
    ],
)
def test_1_2_says_what_is_wrong(said, rule, hint):
    assert hint in said("1.2", rule)


def forward_13(a, b):
    e = np.exp(a * b)
    return e + np.sin(a), (a, b, e)


def backward_13(kept, grad):
    a, b, e = kept
    return grad * (b * e + np.cos(a)), grad * a * e


def test_1_3_right(said):
    assert said("1.3", forward_13, backward_13) == "right."


def test_1_3_says_how_many_bytes_too_many_are_kept(said):
    def forward(a, b):
        y, kept = forward_13(a, b)
        return y, (*kept, y)

    text = said("1.3", forward, lambda kept, grad: backward_13(kept[:3], grad))
    assert "you keep 40 bytes more than needed" in text


def test_1_3_counts_a_buffer_that_is_kept_twice_once(said):
    def forward(a, b):
        y, (a, b, e) = forward_13(a, b)
        return y, (a, b, e, e[:], a.reshape(5, 1))

    text = said("1.3", forward, lambda kept, grad: backward_13(kept[:3], grad))
    assert text == "right."


def test_1_3_less_is_right_too_and_points_to_the_price(said):
    def forward(a, b):
        return forward_13(a, b)[0], (a, b)

    def backward(kept, grad):
        return backward_13((*kept, np.exp(kept[0] * kept[1])), grad)

    assert said("1.3", forward, backward).startswith("right. You keep less")


@pytest.mark.parametrize(
    ("backward", "hint"),
    [
        (lambda k, g: (g * k[1] * k[2], g * k[0] * k[2]), "used twice"),
        (lambda k, g: (k[1] * k[2] + np.cos(k[0]), k[0] * k[2]), "ignores `grad`"),
        (lambda k, g: backward_13(k, g)[::-1], "wrong"),
        (lambda k, g: backward_13(k, g)[0], "two gradients"),
        (lambda k, g: (1.0, 2.0), "shape ()"),
    ],
)
def test_1_3_says_what_is_wrong(said, backward, hint):
    assert hint in said("1.3", forward_13, backward)


@pytest.mark.parametrize(
    ("forward", "hint"),
    [
        (lambda a, b: a, "two things"),
        (lambda a, b: (a, a), "tuple of arrays"),
        (lambda a, b: (a, ()), "another y"),
        (lambda a, b: (..., ()), "not solved yet"),
    ],
)
def test_1_3_says_what_is_wrong_with_forward(said, forward, hint):
    assert hint in said("1.3", forward, backward_13)


# -- chapter 2 ------------------------------------------------------------------------------------


def test_2_1(said):
    assert said("2.1", lambda y, grad: grad / (2 * y)) == "right."
    assert "It is the output" in said("2.1", lambda y, grad: grad / (2 * np.sqrt(y)))
    assert "ignores `grad`" in said("2.1", lambda y, grad: 1 / (2 * y))


def row_sum(keep, spread):
    def forward(ctx, x):
        ctx.shape = x.shape
        keep(ctx, x)
        return x.sum(1)

    return function(forward, lambda ctx, grad: spread(grad) * lm.ones(*ctx.shape))


def nothing(ctx, x):
    pass


def test_2_2_right(said):
    assert said("2.2", row_sum(nothing, lambda g: g.reshape(-1, 1))) == "right."


@pytest.mark.parametrize(
    ("keep", "spread", "hint"),
    [
        (nothing, lambda g: g, "wrong axis"),
        (nothing, lambda g: 1.0, "ignores `grad`"),
        (lambda c, x: c.save_for_backward(x), lambda g: g.reshape(-1, 1), "72 bytes more"),
        (lambda c, x: setattr(c, "x", x), lambda g: g.reshape(-1, 1), "72 bytes"),
    ],
)
def test_2_2_says_what_is_wrong(said, keep, spread, hint):
    assert hint in said("2.2", row_sum(keep, spread))


def test_2_2_a_forward_along_the_wrong_axis_is_told_so(said):
    columns = function(lambda ctx, x: x.sum(0), lambda ctx, g: g)
    assert "`forward` sums along the wrong axis" in said("2.2", columns)


def test_2_2_the_wrong_shape_is_told_by_the_engine(said):
    text = said("2.2", function(lambda ctx, x: x.sum(1), lambda ctx, grad: grad))
    assert "GradientShapeError" in text
    assert "(3, 3)" in text


def scaled(save, grads):
    def forward(ctx, a, b, k):
        ctx.k = k
        save(ctx, a, b)
        return k * a * b

    return function(forward, grads)


def save_needed(ctx, a, b):
    need_a, need_b, _ = ctx.needs_input_grad
    ctx.save_for_backward(a if need_b else None, b if need_a else None)


def grads_needed(ctx, grad):
    a, b = ctx.saved_tensors
    return (
        None if b is None else grad * ctx.k * b,
        None if a is None else grad * ctx.k * a,
        None,
    )


def test_2_3_right(said):
    assert said("2.3", scaled(save_needed, grads_needed)) == "right."


def test_2_3_says_in_which_case_too_much_is_kept(said):
    def grads(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * ctx.k * b, grad * ctx.k * a, None

    answer = scaled(lambda ctx, a, b: ctx.save_for_backward(a, b), grads)
    assert "32 bytes more than the rule needs when only `a`" in said("2.3", answer)


def test_2_3_a_gradient_too_few_is_told_by_the_engine(said):
    answer = scaled(save_needed, lambda ctx, grad: grads_needed(ctx, grad)[:2])
    assert "GradientCountError" in said("2.3", answer)


# -- chapter 5 ------------------------------------------------------------------------------------


def careless_step(weight, data):
    x = lm.tensor(data)
    z = x @ weight
    h = z.tanh()
    squares = h * h
    loss = squares.sum()
    loss.backward()
    return loss.item()


def lean(weight, data):
    h = (lm.tensor(data) @ weight).tanh()
    loss = (h * h).sum()
    loss.backward()
    return loss.item()


@pytest.fixture
def trace():
    lm.reset_names()
    weight = lm.tensor(np.eye(4), requires_grad=True)
    with lm.lifetime.trace() as t:
        careless_step(weight, np.ones((8, 4)))
    return t


def test_5_1(said, trace):
    most = max(trace.buffers, key=lambda b: b.drag)
    assert said("5.1", most.name, trace).startswith("right.")
    assert "Another has" in said("5.1", "tanh#2", trace)
    assert re.search(r"no buffer 'z'\. It has: x, ", said("5.1", "z", trace))
    assert "Pass the trace" in said("5.1", most.name)
    assert "name of a buffer" in said("5.1", 3, trace)


def test_5_2_right(said):
    assert said("5.2", lean, careless_step).startswith("right. Peak")


def test_5_2_says_by_how_many_bytes_the_peak_is_too_high(said):
    text = said("5.2", careless_step, careless_step)
    assert re.search(r"your peak is [\d,]+ bytes: 32,768 bytes above", text)


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (lambda w, d: lean(w, 2 * d), "another loss"),
        (lambda w, d: lean(w.detach(), d), "raised NoGradientError"),
        (lambda w, d: 0.5, "fills no"),
        (lambda w, d: lean(w, d) and lean(w, d), "another gradient"),
    ],
)
def test_5_2_says_what_is_wrong(said, step, hint):
    assert hint in said("5.2", step, careless_step)


def swish(save):
    def forward(ctx, z):
        save(ctx, z)
        return z * z.sigmoid()

    def backward(ctx, grad):
        z = ctx.saved_tensors[0]
        s = z.sigmoid()
        return grad * (s + z * s * (1 - s))

    return function(forward, backward)


def test_5_3(said):
    assert said("5.3", swish(lambda c, z: c.save_for_backward(z))).startswith("right.")
    text = said("5.3", swish(lambda c, z: c.save_for_backward(z, z.sigmoid())))
    assert "48 bytes more" in text


# -- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "hint"),
    [(..., "made no"), ({"a"}, "As you predicted"), ({"b", "a"}, "predicted a, b")],
)
def test_a_prediction_is_told_beside_what_was_measured(capsys, guess, hint):
    exercises.reveal(guess, {"a"})
    said = capsys.readouterr().out
    assert said.startswith("Measured: a.")
    assert hint in said
