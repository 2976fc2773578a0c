"""Settings declared once, and the classes they make up.

    class LogConfig(Settings):
        segment_bytes: int = setting("segment.bytes", GIB, at_least=14, doc="Start a new segment at this size.")

A class of settings is frozen and slotted; editors and mypy see its fields as those of a dataclass. It is built by a
metaclass rather than by `dataclasses`, because generating code for some three hundred fields would take longer than
the rest of the start-up. Parsing, validation, DescribeConfigs and the reference page all read the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, Self, dataclass_transform

from tidelog.config.errors import invalid_value
from tidelog.config.kinds import LIST, PASSWORD, Kind, kind_of

DynamicScope = Literal["read-only", "per-broker", "cluster-wide", "topic", "group", "subscription"]
Importance = Literal["high", "medium", "low"]


class Check:
    """A validator beyond bounds and choices: `text` describes what is allowed, `problem` says what is wrong."""

    __slots__ = ("problem", "text")

    def __init__(self, text: str, problem: Callable[[Any], str | None]) -> None:
        self.text = text
        self.problem = problem


class Synonym:
    """A broker setting that gives a topic setting its default; its value times `factor` is the topic's value."""

    __slots__ = ("factor", "name")

    def __init__(self, name: str, factor: int = 1) -> None:
        self.name = name
        self.factor = factor


class Setting:
    """One declared setting. `field` and `area` are filled in by the class that declares it."""

    # fmt: off
    __slots__ = (
        "area", "at_least", "at_most", "check", "default", "default_alone", "doc", "dynamic", "field", "ignored",
        "importance", "is_sensitive", "kind", "name", "one_of", "refused", "synonyms",
    )
    # fmt: on

    name: str
    field: str
    area: str
    kind: Kind
    default: Any
    default_alone: Any
    """The default of a broker that shares its metadata with no other."""
    doc: str
    importance: Importance
    dynamic: DynamicScope
    synonyms: tuple[Synonym, ...]
    is_sensitive: bool
    at_least: float | None
    at_most: float | None
    one_of: tuple[str, ...]
    check: Check | None
    ignored: str | None
    """Why nothing reads the value. It is accepted, named in a warning and documented so."""
    refused: str | None
    """Why only the default is accepted: the feature is not supported, and ignoring the setting would be unsafe."""

    def parse(self, text: str | None) -> Any:
        """The typed value of `text`; raises ConfigError when it is malformed or out of bounds."""
        if text is None:
            if self.default is not None:
                raise invalid_value(self.name, None, "Value must be non-null")
            return None
        try:
            value = self.kind.parse(text)
        except ValueError as error:
            raise invalid_value(self.name, self._shown(text), str(error)) from None
        self.validate(value)
        return value

    def validate(self, value: Any) -> None:
        """Raise ConfigError unless the typed `value` is allowed."""
        # Written so that NaN, which compares as neither, is refused.
        if self.at_least is not None and not value >= self.at_least:
            raise invalid_value(self.name, self._shown(value), f"Value must be at least {self.at_least}")
        if self.at_most is not None and not value <= self.at_most:
            raise invalid_value(self.name, self._shown(value), f"Value must be no more than {self.at_most}")
        if self.one_of:
            for item in value if self.kind is LIST else (value,):
                if item not in self.one_of:
                    raise invalid_value(self.name, item, f"String must be one of: {', '.join(self.one_of)}")
        problem = self.check.problem(value) if self.check is not None else None
        if problem is None and value != self.default:
            problem = self.refused
        if problem is not None:
            raise invalid_value(self.name, self._shown(self.format(value)), problem)

    def format(self, value: Any) -> str | None:
        """The value as text, as Kafka prints it."""
        return None if value is None else self.kind.format(value)

    def valid_values(self) -> str:
        """What is allowed, in words for the reference page; empty when anything of the type is."""
        if self.check is not None:
            return self.check.text
        if self.one_of:
            return ", ".join(value or "empty" for value in self.one_of)
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"at least {self.at_least}"
        return "" if self.at_most is None else f"at most {self.at_most}"

    def described(self) -> str:
        """What the setting means, for DescribeConfigs and the reference page."""
        if self.refused is not None:
            return f"**Only the default is accepted:** {self.refused}. {self.doc}"
        return self.doc if self.ignored is None else f"**No effect:** {self.ignored}. {self.doc}"

    @property
    def has_effect(self) -> bool:
        """Whether anything reads the value."""
        return self.ignored is None and self.refused is None

    def _shown(self, value: object) -> object:
        return "[hidden]" if self.is_sensitive else value

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {self.kind.name}, default={self._shown(self.default)!r})"


def setting(
    name: str,
    default: Any,
    *,
    doc: str,
    type: Kind | None = None,  # noqa: A002 - the word every Kafka operator uses for it
    importance: Importance = "medium",
    dynamic: DynamicScope = "read-only",
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] = (),
    validator: Check | None = None,
    synonyms: tuple[str | Synonym, ...] = (),
    sensitive: bool = False,
    ignored: str | None = None,
    refused: str | None = None,
    default_alone: Any = None,
) -> Any:
    """Declare one setting in the body of a `Settings` class. The type follows from the default unless given.

    A setting that nothing reads says why: `ignored` where that does no harm, `refused` where it would, because its
    effect is relied on where it is set. `default_alone` is the default of a broker without others, where that differs.
    """
    declared = Setting()
    declared.name = name
    declared.field = declared.area = ""
    declared.kind = kind = type if type is not None else kind_of(default)
    declared.default = default
    declared.default_alone = default if default_alone is None else default_alone
    declared.doc = doc
    declared.importance = importance
    declared.dynamic = dynamic
    declared.at_least = at_least
    declared.at_most = at_most
    declared.one_of = one_of
    declared.check = validator
    declared.synonyms = tuple([Synonym(each) if isinstance(each, str) else each for each in synonyms])
    declared.is_sensitive = sensitive or kind is PASSWORD
    declared.ignored = ignored
    declared.refused = refused
    return declared


@dataclass_transform(kw_only_default=True, frozen_default=True)
class SettingsMeta(type):
    """Turns declared settings into slots. A class with an `area` is a part to be inherited and has no slots itself.

    `scope` and `ignored` hold for every setting of the class.
    """

    settings: Mapping[str, Setting]
    """By setting name, in order of declaration, those of inherited parts first."""
    defaults: Mapping[str, Any]
    """By field name, settings and plain fields alike."""
    _setters: tuple[tuple[str, Any, Callable[[object, Any], None]], ...]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        area: str | None = None,
        scope: DynamicScope | None = None,
        ignored: str | None = None,
    ) -> SettingsMeta:
        settings: dict[str, Setting] = {}
        defaults: dict[str, Any] = {}
        for base in bases:
            if isinstance(base, SettingsMeta):
                settings.update(base.settings)
                defaults.update(base.defaults)
        for field, annotation in namespace.get("__annotations__", {}).items():
            value = namespace.get(field)
            if isinstance(value, Setting):
                value.field = field
                value.area = area or ""
                value.dynamic = scope or value.dynamic
                value.ignored = value.ignored or ignored
                settings[value.name] = value
                defaults[field] = value.default
                del namespace[field]
            elif not annotation.startswith("ClassVar"):
                defaults[field] = namespace.pop(field)
        is_whole = area is None and bool(defaults)
        namespace["__slots__"] = tuple(defaults) if is_whole else ()
        cls = super().__new__(mcs, name, bases, namespace)
        cls.settings = settings
        cls.defaults = defaults
        if is_whole:
            cls._setters = tuple([(each, default, cls.__dict__[each].__set__) for each, default in defaults.items()])
        return cls


class Settings(metaclass=SettingsMeta):
    """A frozen group of settings, made with keyword arguments; settings that are not given have their defaults.

    The constructor takes typed values and trusts them; `parse_settings` is for text from outside.
    """

    settings: ClassVar[Mapping[str, Setting]]
    defaults: ClassVar[Mapping[str, Any]]

    def __init__(self, **values: Any) -> None:
        for field, default, set_field in type(self)._setters:
            set_field(self, values.pop(field, default))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(map(repr, values))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        values = {field: getattr(self, field) for field in type(self).defaults}
        return type(self)(**(values | changes))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in type(self).defaults)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, each.field) for each in type(self).settings.values()]))

    def __repr__(self) -> str:
        """Only what differs from the default, and never a secret."""
        changed = [
            f"{each.field}={'[hidden]' if each.is_sensitive else repr(getattr(self, each.field))}"
            for each in type(self).settings.values()
            if getattr(self, each.field) != each.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def parse_settings(group: type[Settings], texts: Mapping[str, str | None]) -> dict[str, Any]:
    """The typed values, by field name, of those `texts` whose name belongs to `group`; the others are ignored."""
    settings = group.settings
    values: dict[str, Any] = {}
    for name, text in texts.items():
        declared = settings.get(name)
        if declared is not None:
            values[declared.field] = declared.parse(text)
    return values


KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
