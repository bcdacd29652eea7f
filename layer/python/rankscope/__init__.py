"""Marks for rankscope: spans, steps, counters and own collectives of a Python program.

    import rankscope

    for i, batch in enumerate(loader):
        rankscope.step(i, tokens=batch.numel())
        with rankscope.span("load"):
            ...
        rankscope.counter("loss", loss)

The module finds the library that `rankscope run` preloads. Without it, every function does nothing. It needs no other package.

`rankscope.open(directory)` reads a session for scripts and notebooks (`rankscope.session`).

Spans and counters are recorded once the recording of the process runs. It starts with the first call of a communication
library, the first step or own collective, or `start()`.
"""

import ctypes as _ctypes
import functools as _functools
import inspect as _inspect
import types as _types

__all__ = ["Communicator", "counter", "is_recording", "open", "span", "span_methods", "start", "step"]

_OPERATIONS = {
    "all-reduce": 1,
    "all-gather": 2,
    "reduce-scatter": 4,
    "all-to-all": 5,
    "barrier": 7,
    "broadcast": 8,
    "scatter": 9,
    "reduce": 10,
    "gather": 11,
    "send": 13,
    "receive": 14,
    "scan": 15,
}


class _Api(_ctypes.Structure):
    """`struct rankscope_api` of rankscope.h."""

    # A PYFUNCTYPE keeps the interpreter's lock, because no function waits. Releasing it would cost more than the call.
    _fields_ = [
        ("bytes", _ctypes.c_uint32),
        ("version", _ctypes.c_uint32),
        ("start", _ctypes.CFUNCTYPE(_ctypes.c_int32)),
        ("text", _ctypes.PYFUNCTYPE(_ctypes.c_uint32, _ctypes.c_char_p, _ctypes.c_size_t)),
        ("push", _ctypes.PYFUNCTYPE(None, _ctypes.c_uint32)),
        ("pop", _ctypes.PYFUNCTYPE(None)),
        ("counter", _ctypes.PYFUNCTYPE(None, _ctypes.c_uint32, _ctypes.c_double)),
        ("step", _ctypes.CFUNCTYPE(None, _ctypes.c_uint64)),
        ("count", _ctypes.PYFUNCTYPE(None, _ctypes.c_char_p, _ctypes.c_size_t, _ctypes.c_uint64)),
        (
            "communicator",
            _ctypes.CFUNCTYPE(_ctypes.c_size_t, _ctypes.c_char_p, _ctypes.c_size_t, _ctypes.c_uint32, _ctypes.c_uint32),
        ),
        ("end_communicator", _ctypes.PYFUNCTYPE(None, _ctypes.c_size_t)),
        (
            "begin_collective",
            _ctypes.PYFUNCTYPE(
                None,
                _ctypes.c_size_t,
                _ctypes.c_uint8,
                _ctypes.c_uint64,
                _ctypes.c_uint8,
                _ctypes.c_int32,
                _ctypes.c_uint32,
            ),
        ),
        ("end_collective", _ctypes.PYFUNCTYPE(None, _ctypes.c_int32)),
    ]


def _find():
    """Returns the functions of the preloaded library; None without it."""
    try:
        function = _ctypes.CDLL(None).rankscope_api
    except (AttributeError, OSError):
        return None
    function.restype = _ctypes.POINTER(_Api)
    function.argtypes = [_ctypes.c_uint32]
    found = function(1)
    return found.contents if found else None


class _Nothing:
    """A context that does nothing."""

    __slots__ = ()

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


_NOTHING = _Nothing()


def _silent_span(name):
    return _NOTHING


def _silent_counter(name, value):
    return None


def _silent_step(number, **counts):
    return None


def _silent_start():
    return False


class _SilentCommunicator:
    """Members of the program that communicate by its own means."""

    __slots__ = ("name", "rank", "size")

    def __init__(self, name, rank, size):
        self.name, self.rank, self.size = name, rank, size

    def collective(self, operation, bytes=0, peer=-1, tag=0, element_bytes=0):
        """Returns a context in which this thread performs an operation of the members."""
        _number(operation)
        return _NOTHING

    def close(self):
        """Ends the communicator."""


def _number(operation):
    try:
        return _OPERATIONS[operation.replace("_", "-")]
    except KeyError:
        raise ValueError(f"{operation!r} is not an operation; use one of {', '.join(_OPERATIONS)}") from None


def _bind(api):
    """Returns the functions of this module for a preloaded library."""
    # Each attribute of a structure makes a new object, so all are taken once.
    push, pop, text = api.push, api.pop, api.text
    take_sample, begin_step, take_count, begin_recording = api.counter, api.step, api.count, api.start
    begin_collective, end_collective = api.begin_collective, api.end_collective
    communicator, end_communicator = api.communicator, api.end_communicator

    def whole(number, bits):
        """Returns a number that the library takes. It would cut others silently."""
        return min(max(0, int(number)), (1 << bits) - 1)

    def number_of(name):
        encoded = str(name).encode("utf-8", "replace")
        return text(encoded, len(encoded))

    class Span:
        """A span of the thread that enters it. The same object can be entered any number of times."""

        __slots__ = ("_text",)

        def __init__(self, text):
            self._text = text

        def __enter__(self):
            push(self._text)

        def __exit__(self, *_):
            pop()

    spans = {}
    numbers = {}

    def span(name):
        """Returns a context: a span of this thread. Use few different names, at most some hundreds.

        Spans of a thread end in the reverse order. Do not wait for another asyncio task inside one.
        """
        try:
            return spans[name]
        except (KeyError, TypeError):
            name = str(name)
        made = Span(number_of(name))
        if len(spans) < 4096:
            spans[name] = made
        return made

    def counter(name, value):
        """Records a sample of a counter. `value` is a number, or anything that float() takes. Others are ignored."""
        # A recording must not end a program that runs without it.
        try:
            number = numbers.get(name)
            if number is None:
                number = number_of(name)
                if len(numbers) < 4096:
                    numbers[name] = number
            take_sample(number, float(value))
        except Exception:
            pass

    def step(number, **counts):
        """Records that a step begins; the step before it ends. `tokens=N` and `samples=N` are what it processes.

        The number of the current step again has no effect. Values that are no whole numbers are ignored.
        """
        try:
            begin_step(whole(number, 64))
            for what, many in counts.items():
                encoded = what.encode()
                take_count(encoded, len(encoded), whole(many, 64))
        except Exception:
            pass

    def start():
        """Starts the recording. Returns True if `rankscope run` started the program."""
        return begin_recording() == 1

    class Collective:
        __slots__ = ("_arguments",)

        def __init__(self, arguments):
            self._arguments = arguments

        def __enter__(self):
            begin_collective(*self._arguments)

        def __exit__(self, kind, *_):
            end_collective(0 if kind is None else 1)

    class Communicator(_SilentCommunicator):
        """Members of the program that communicate by its own means.

        All members give the same name and size. Different groups need different names. A thread has one operation at a time.
        """

        __slots__ = ("_handle",)

        def __init__(self, name, rank, size):
            super().__init__(name, rank, size)
            try:
                encoded = str(name).encode("utf-8", "replace")
                self._handle = communicator(encoded, len(encoded), whole(rank, 32), whole(size, 32))
            except Exception:
                self._handle = 0

        def collective(self, operation, bytes=0, peer=-1, tag=0, element_bytes=0):
            """Returns a context in which this thread performs an operation of the members.

            `operation` is a name such as "all-reduce", "send" or "receive". `bytes` is the payload of this member, as
            METRICS.md defines it. `peer` is the root or the peer.
            """
            operation = _number(operation)
            try:
                peer = -1 if peer is None else int(peer)
                peer = peer if -1 <= peer < 1 << 31 else -1
                numbers_of_call = (whole(bytes, 64), whole(element_bytes, 8), peer, whole(tag, 32))
            except Exception:
                return _NOTHING
            return Collective((self._handle, operation, *numbers_of_call))

        def close(self):
            """Ends the communicator."""
            end_communicator(self._handle)
            self._handle = 0

    return span, counter, step, start, Communicator


_api = _find()
if _api is None:
    span, counter, step, start, Communicator = (
        _silent_span,
        _silent_counter,
        _silent_step,
        _silent_start,
        _SilentCommunicator,
    )
else:
    span, counter, step, start, Communicator = _bind(_api)


def is_recording():
    """Returns True if a library is preloaded that can record this program."""
    return _api is not None


def span_methods(target, *names):
    """Records each call of the named methods of an object as a span: `span_methods(engine, "forward", "backward", "step")`.

    Spans are named `Class.method`, such as `DeepSpeedEngine.forward`. While recording, the object's methods are replaced by
    wrappers. Otherwise nothing changes. Coroutines and generators stay as they are, because their calls only create them.
    """
    if _api is None:
        return
    for name in names:
        # Recording must never break the program: the object may lack the method or reject new attributes.
        try:
            method = getattr(target, name)
            if _is_plain_method(method, target) and not hasattr(method, "_rankscope_span"):
                call = _in_span(method.__func__, f"{type(target).__name__}.{name}")
                # A method, not a function: a copy of the object then calls its own.
                setattr(target, name, _types.MethodType(call, target))
        except Exception:
            pass


def _is_plain_method(method, target):
    """Returns True for a method of the object whose call is its work."""
    if not isinstance(method, _types.MethodType) or method.__self__ is not target:
        return False
    creates = (_inspect.iscoroutinefunction, _inspect.isgeneratorfunction, _inspect.isasyncgenfunction)
    return not any(kind(method) for kind in creates)


def _in_span(function, label):
    @_functools.wraps(function)
    def call(self, *arguments, **named):
        with span(label):
            return function(self, *arguments, **named)

    call._rankscope_span = label
    return call


def open(directory):
    """Opens a run directory that was merged, or a session directory. Returns a `rankscope.session.Session`."""
    # Only readers need this module, and a training program should import as little as possible.
    from .session import open_session

    return open_session(directory)
