"""The functions that Kubernetes and OCM add to CEL, for the checker and evaluator of ``cel_expr_python`` (P7). Pure.

Types that CEL does not have (URL, Quantity, IP, CIDR, Semver) are protobuf messages that hold their canonical text, so
that the checker distinguishes them and ``==`` compares values. A function that cannot answer raises ValueError: the
expression then has no value, as in Kubernetes.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

import re2
from cel_expr_python import cel
from cel_expr_python.ext.ext_optional import ExtOptional
from cel_expr_python.ext.ext_strings import ExtStrings
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from ocmconsole.kubeapi.schema.quantities import parse_quantity

PACKAGE = "kubernetes"
TYPES = ("URL", "Quantity", "IP", "CIDR", "Semver")

INT64 = range(-(2**63), 2**63)
MOST_MATCHES = 10_000  # strings that one findAll returns
# Units of cost, about half a microsecond each: a call, and the conversion of a map; a character or item counts 1.
CALL, MAP = 100, 1_000
# Semantic Versioning 2.0.0: no leading "v", no leading zeros.
SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)

# Functions of CEL and its libraries that get more overloads here. One more overload each: the evaluator cannot tell
# string(CIDR) from string(IP), so that Kubernetes' string(CIDR) is not offered.
STANDARD = frozenset({"indexOf", "lastIndexOf", "string"})

Type = cel.Type
ANY, BOOL, DOUBLE, INT, STRING = Type.DYN, Type.BOOL, Type.DOUBLE, Type.INT, Type.STRING
Function = Callable[..., Any]
Charge = Callable[[int], None]


def environment(*, scores: Function, charge: Charge) -> Any:
    """With the variable ``managedCluster``, a map of string to dyn. ``scores(cluster, name)``: OCM's function.

    ``charge`` gets the cost of each call of a function of ours before it is done, and raises ValueError to refuse it.
    """
    pool, messages = _messages()
    types = {name: Type(f"{PACKAGE}.{name}") for name in TYPES}
    library = _Library(types, messages, charge)
    cluster = Type.Map(STRING, ANY)
    library.member("scores", cluster, (STRING,), Type.List(Type.Map(STRING, ANY)), scores)
    library.member("parseJSON", STRING, (), ANY, json.loads)
    for add in (_lists, _regex, _urls, _quantities, _addresses, _versions):
        add(library)
    return cel.NewEnv(
        pool,
        variables={"managedCluster": cluster},
        extensions=[ExtOptional(), ExtStrings(), cel.CelExtension(PACKAGE, library.declarations(of_standard=True))],
        functions=library.declarations(of_standard=False),
    )


def _messages() -> tuple[Any, dict[str, Any]]:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package=PACKAGE, syntax="proto3")
    for name in TYPES:
        text = file.message_type.add(name=name).field.add(name="text", number=1)
        text.type, text.label = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, 1
    pool.Add(file)
    return pool, {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in TYPES
    }


class _Library:
    """Functions by name with their overloads; arguments of our types are texts for the functions.

    The checker chooses among overloads by type, the evaluator by kind alone, and all messages are of one kind. So of
    the overloads that it cannot tell apart the first one calls the right one.
    """

    def __init__(self, types: dict[str, Any], messages: dict[str, Any], charge: Charge) -> None:
        self.types, self.messages, self._charge = types, messages, charge
        self._names = {id(found): name for name, found in types.items()}
        self._overloads: dict[str, list[Any]] = {}
        self._calls: dict[tuple[str, bool, tuple[str, ...]], dict[tuple[str, ...], Function]] = {}

    def function(self, name: str, takes: Sequence[Any], returns: Any, function: Function) -> None:
        self._add(name, takes, returns, function, is_member=False)

    def member(self, name: str, of: Any, takes: Sequence[Any], returns: Any, function: Function) -> None:
        self._add(name, (of, *takes), returns, function, is_member=True)

    def _add(self, name: str, takes: Sequence[Any], returns: Any, function: Function, *, is_member: bool) -> None:
        ours = tuple(self._names.get(id(each), "") for each in takes)
        kinds = tuple("message" if one else each.name() for one, each in zip(ours, takes, strict=True))
        calls = self._calls.setdefault((name, is_member, kinds), {})
        made = self.messages.get(self._names.get(id(returns), ""))
        calls[ours] = (lambda *given: made(text=function(*given))) if made else function

        def call(*given: Any) -> Any:
            known = [each.DESCRIPTOR.name if isinstance(each, Message) else "" for each in given]
            texts = [each.text if one else each for each, one in zip(given, known, strict=True)]
            self._charge(CALL + sum(map(_size, texts)))
            return calls[tuple(known)](*texts)

        found = self._overloads.setdefault(name, [])
        number_ = f"{name.replace('.', '_')}_{len(found)}"
        implementation = {"impl": call} if len(calls) == 1 else {}
        parameters = list(takes)
        found.append(
            cel.Overload(number_, return_type=returns, parameters=parameters, is_member=is_member, **implementation)
        )

    def declarations(self, *, of_standard: bool) -> list[Any]:
        """More overloads of functions that CEL has, or functions of new names."""
        chosen = {name: found for name, found in self._overloads.items() if (name in STANDARD) is of_standard}
        return [cel.FunctionDecl(name, found) for name, found in chosen.items()]


def _size(given: object) -> int:
    """P7: units that an argument costs."""
    if isinstance(given, Mapping):
        return MAP + len(given)
    return len(given) if isinstance(given, str | bytes | Sequence) else 0


# ------------------------------------------------------------------------------------------------ lists, texts


def _lists(library: _Library) -> None:
    """P7: Kubernetes' functions of lists."""
    several = Type.List(ANY)
    library.member("isSorted", several, (), BOOL, lambda given: all(a <= b for a, b in itertools.pairwise(given)))
    library.member("sum", several, (), ANY, _sum)
    library.member("min", several, (), ANY, lambda given: min(_some(given, "min")))
    library.member("max", several, (), ANY, lambda given: max(_some(given, "max")))
    library.member("indexOf", several, (ANY,), INT, lambda given, one: given.index(one) if one in given else -1)
    library.member("lastIndexOf", several, (ANY,), INT, _last_index)


def _sum(given: list[Any]) -> Any:
    found = sum(given)
    if isinstance(found, int) and found not in INT64:
        raise ValueError("integer overflow")
    return found


def _some(given: list[Any], what: str) -> list[Any]:
    if not given:
        raise ValueError(f"{what} called on empty list")
    return given


def _last_index(given: list[Any], one: Any) -> int:
    return len(given) - 1 - given[::-1].index(one) if one in given else -1


def _regex(library: _Library) -> None:
    """P7: Kubernetes' functions of regular expressions."""
    texts = Type.List(STRING)
    library.member("find", STRING, (STRING,), STRING, lambda text, pattern: next(_matches(text, pattern), ""))
    library.member("findAll", STRING, (STRING,), texts, lambda text, pattern: _first(text, pattern, -1))
    library.member("findAll", STRING, (STRING, INT), texts, _first)


def _matches(text: str, pattern: str) -> Iterator[str]:
    """In linear time whatever the pattern is, which is why Kubernetes takes RE2 as well."""
    try:
        return (found.group() for found in re2.finditer(pattern, text))
    except re2.error as error:
        raise ValueError(f"Illegal regex: {error}") from None


def _first(text: str, pattern: str, most: int) -> list[str]:
    return list(itertools.islice(_matches(text, pattern), MOST_MATCHES if most < 0 else min(most, MOST_MATCHES)))


# ------------------------------------------------------------------------------------------------ URLs


def _urls(library: _Library) -> None:
    """P7: URL and its functions."""
    url = library.types["URL"]
    library.function("isURL", (STRING,), BOOL, lambda text: _is(_split, text))
    library.function("url", (STRING,), url, _checked_url)
    for name, read in {
        "getScheme": lambda found: found.scheme,
        "getHost": lambda found: found.netloc.rpartition("@")[2],
        "getHostname": lambda found: found.hostname or "",
        "getPort": lambda found: "" if found.port is None else str(found.port),
        "getEscapedPath": lambda found: found.path,
    }.items():
        library.member(name, url, (), STRING, lambda text, read=read: read(_split(text)))
    queries = Type.Map(STRING, Type.List(STRING))
    library.member("getQuery", url, (), queries, lambda text: parse_qs(_split(text).query, keep_blank_values=True))


def _checked_url(text: str) -> str:
    _split(text)
    return text


def _split(text: str) -> SplitResult:
    """An absolute URI or an absolute path, as Go's ``url.ParseRequestURI``."""
    found = urlsplit(text)
    if not (found.scheme or text.startswith("/")) or re.search(r"[\x00-\x20\x7f]", text):
        raise ValueError(f"URL parse error during conversion from string: {text}")
    _ = found.port
    return found


# ------------------------------------------------------------------------------------------------ quantities


def _quantities(library: _Library) -> None:
    """P7: Quantity and its functions."""
    quantity = library.types["Quantity"]
    library.function("isQuantity", (STRING,), BOOL, lambda text: parse_quantity(text) is not None)
    library.function("quantity", (STRING,), quantity, lambda text: _plain(_quantity(text)))
    library.member("sign", quantity, (), INT, lambda text: _order(Decimal(text), Decimal(0)))
    library.member("isInteger", quantity, (), BOOL, lambda text: _is(_integer, text))
    library.member("asInteger", quantity, (), INT, _integer)
    library.member("asApproximateFloat", quantity, (), DOUBLE, float)
    for other, read in ((quantity, Decimal), (INT, Decimal)):
        library.member("add", quantity, (other,), quantity, lambda a, b, read=read: _plain(Decimal(a) + read(b)))
        library.member("sub", quantity, (other,), quantity, lambda a, b, read=read: _plain(Decimal(a) - read(b)))
    _comparisons(library, quantity, Decimal)


def _quantity(text: str) -> Decimal:
    found = parse_quantity(text)
    if found is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return found


def _plain(value: Decimal) -> str:
    """One text for each value."""
    return format(value.normalize(), "f")


def _integer(text: str) -> int:
    value = Decimal(text)
    if value != int(value) or int(value) not in INT64:
        raise ValueError("cannot convert value to integer")
    return int(value)


def _comparisons(library: _Library, kind: Any, read: Callable[[str], Any]) -> None:
    library.member("isGreaterThan", kind, (kind,), BOOL, lambda a, b: read(a) > read(b))
    library.member("isLessThan", kind, (kind,), BOOL, lambda a, b: read(a) < read(b))
    library.member("compareTo", kind, (kind,), INT, lambda a, b: _order(read(a), read(b)))


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


# ------------------------------------------------------------------------------------------------ addresses


def _addresses(library: _Library) -> None:
    """P7: IP, CIDR and their functions."""
    ip, cidr = library.types["IP"], library.types["CIDR"]
    library.function("isIP", (STRING,), BOOL, lambda text: _is(_ip, text))
    library.function("ip", (STRING,), ip, lambda text: str(_ip(text)))
    library.function("ip.isCanonical", (STRING,), BOOL, lambda text: str(_ip(text)) == text)
    library.function("string", (ip,), STRING, str)
    library.member("family", ip, (), INT, lambda text: _ip(text).version)
    for name, read in {
        "isUnspecified": lambda found: found.is_unspecified,
        "isLoopback": lambda found: found.is_loopback,
        "isLinkLocalMulticast": _is_link_local_multicast,
        "isLinkLocalUnicast": lambda found: found.is_link_local,
        "isGlobalUnicast": _is_global_unicast,
    }.items():
        library.member(name, ip, (), BOOL, lambda text, read=read: read(_ip(text)))

    library.function("isCIDR", (STRING,), BOOL, lambda text: _is(_cidr, text))
    library.function("cidr", (STRING,), cidr, lambda text: str(_cidr(text)))
    library.member("ip", cidr, (), ip, lambda text: str(_cidr(text).ip))
    library.member("masked", cidr, (), cidr, lambda text: str(_cidr(text).network))
    library.member("prefixLength", cidr, (), INT, lambda text: _cidr(text).network.prefixlen)
    for given in (ip, STRING):
        library.member("containsIP", cidr, (given,), BOOL, lambda text, one: _ip(one) in _cidr(text).network)
    for given in (cidr, STRING):
        library.member("containsCIDR", cidr, (given,), BOOL, _contains)


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _ip(text: str) -> Address:
    """Without a zone, and not an IPv4 address in the notation of IPv6."""
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address) and (found.scope_id or found.ipv4_mapped):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string")
    return found


def _cidr(text: str) -> Interface:
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch(r"[0-9]{1,3}", length, re.ASCII):
        raise ValueError(f"network address parse error during conversion from string: {text}")
    _ip(address)
    return ipaddress.ip_interface(text)


def _contains(text: str, one: str) -> bool:
    outer, inner = _cidr(text).network, _cidr(one).network
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _is_link_local_multicast(found: Address) -> bool:
    return found in ipaddress.ip_network("224.0.0.0/24" if found.version == 4 else "ff02::/16")  # noqa: PLR2004


def _is_global_unicast(found: Address) -> bool:
    """As Go has it: private addresses are, too."""
    return not (
        found.is_unspecified
        or found.is_loopback
        or found.is_multicast
        or found.is_link_local
        or str(found) == "255.255.255.255"
    )


# ------------------------------------------------------------------------------------------------ versions


def _versions(library: _Library) -> None:
    """P7: Semver and its functions."""
    semver = library.types["Semver"]
    library.function("isSemver", (STRING,), BOOL, lambda text: _is(_version, text))
    library.function("semver", (STRING,), semver, _checked_version)
    for index, name in enumerate(("major", "minor", "patch")):
        library.member(name, semver, (), INT, lambda text, index=index: _version(text)[index])
    _comparisons(library, semver, _precedence)


def _checked_version(text: str) -> str:
    _version(text)
    return text


def _version(text: str) -> tuple[int, int, int, str]:
    found = SEMVER.fullmatch(text)
    if found is None or any(int(each) not in INT64 for each in found.group(1, 2, 3)):
        raise ValueError(f"{text!r} is not a semantic version")
    major, minor, patch = map(int, found.group(1, 2, 3))
    return major, minor, patch, found[4] or ""


def _precedence(text: str) -> tuple[Any, ...]:
    """Semantic Versioning 2.0.0, section 11: a pre-release comes before its release; numbers before texts."""
    major, minor, patch, before = _version(text)
    parts = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in before.split("."))
    return (major, minor, patch, 0 if before else 1, parts if before else ())


def _is(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
