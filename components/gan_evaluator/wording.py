"""A verdict's reasons in words, numbers included."""

from __future__ import annotations

import math

from components.gan_evaluator.comparison import Comparison
from components.gan_evaluator.measurements import SliceMetrics, Value
from trainer.quality.catalogue import Metric


def title(metric: Metric, class_name: str | None) -> str:
    """A metric, of all images or of a class."""
    return metric.title if class_name is None else f"{metric.title} of class {class_name!r}"


def counts(found: SliceMetrics) -> str:
    """The images that numbers are from."""
    sampled = "" if found.sampled == found.examples else f", {found.sampled} sampled"
    return f"{found.examples} examples{sampled}"


def number(value: float, error: float = math.nan, unlike: float | None = None) -> str:
    """A value to the digits that its error leaves it, and the error.

    Args:
      value: finite.
      error: its standard error; NaN: not known.
      unlike: a number whose text this one's must differ from, where they differ.
    """
    digits = _digits(value, error)
    while unlike is not None and digits < 17 and f"{value:.{digits}g}" == f"{unlike:.{digits}g}":
        if value == unlike:
            break
        digits += 1
    text = f"{value:.{digits}g}"
    return f"{text} ± {error:.2g}" if math.isfinite(error) else text


def _digits(value: float, error: float) -> int:
    """Significant digits down to the error's second; four where that is more or unknown."""
    if not math.isfinite(error) or error <= 0.0 or value == 0.0:
        return 4
    magnitude = math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
    return min(max(magnitude + 2, 2), 4)


def beyond_bound(metric: Metric, class_name: str | None, value: Value, bound: float) -> str:
    """A value on the wrong side of its bound."""
    side = "above" if metric.better == "lower" else "below"
    text = number(value.value, value.error, unlike=bound)
    return f"{title(metric, class_name)} {text} is {side} the bound {bound:g}"


def held(metric: Metric, value: Value, bound: float | None, compared: Comparison | None) -> str:
    """A value that keeps its bound, and the comparison that it stands."""
    if compared is not None:
        return comparison(compared, bound)
    if not value.measured:
        return f"{metric.title} not measured"
    return f"{metric.title} {number(value.value, value.error)}{_bound(bound)}"


def comparison(compared: Comparison, bound: float | None = None) -> str:
    """Both values and what to think of their difference."""
    new, old = compared.new, compared.old
    return (
        f"{title(compared.metric, compared.class_name)} "
        f"{number(new.value, new.error, unlike=old.value)}{_bound(bound)} against the served "
        f"model's {number(old.value, unlike=new.value)}: {difference(compared)}"
    )


def difference(compared: Comparison) -> str:
    """The difference, and why it is or is not called one."""
    if compared.worsening == 0.0:
        return "the same"
    word = "worse" if compared.worsening > 0.0 else "better"
    text = f"{word} by {number(abs(compared.worsening), compared.error)}"
    tolerance = f"the tolerance of {100.0 * compared.tolerance:.3g}%"
    chance = f"{compared.z:.3g} standard errors"
    if not math.isfinite(compared.error):
        text += " with an unknown error"
    if compared.is_worse:
        limits = [tolerance] if compared.tolerance else []
        limits += [chance] if math.isfinite(compared.error) else []
        return f"{text}, beyond {' and '.join(limits)}" if limits else text
    if compared.is_chance:
        return f"{text}, within {chance}, so not called {word}"
    return f"{text}, within {tolerance}" if word == "worse" else text


def _bound(bound: float | None) -> str:
    return "" if bound is None else f" (bound {bound:g})"
