"""Filters for texts."""

from typing import Any

from haptic_plugin import Refused, bind, options


class Filters:
    """The filters, made from the plugin's `config`. They must be pure: haptic remembers answers."""

    # How templates call them, and what they do.
    FILTERS = {"shorten": "The text, cut to `length` characters (default 20)."}

    def __init__(self, config: dict) -> None:
        # What stands where a text was cut.
        self.mark = options(config, mark="...").mark

    def shorten(self, value: Any, positional: list[Any], named: dict[str, Any]) -> Any:
        """The filter `shorten`."""
        length = bind(["length"], positional, named).get("length", 20)
        if not isinstance(value, str) or type(length) is not int or length < 1:
            raise Refused("the value must be a string and `length` a whole number from 1")
        return value if len(value) <= length else value[:length] + self.mark
