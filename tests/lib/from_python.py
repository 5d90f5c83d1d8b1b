#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libhapax from Python by ctypes: a small class around it, and a test of that.

    tests/lib/from_python.py LIBHAPAX.so

The structs repeat those of include/hapax/hapax.h; the library checks their sizes.
"""
import ctypes
import os
import sys
import tempfile

RUN, REPLAY, GONE, BUSY, UNKNOWN, CONFLICT, EXPIRED, REFUSED = range(1, 9)
E_MISUSE, E_LEDGER, E_FATE, E_STATE = -1, -2, -3, -4


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 256)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("path", ctypes.c_char_p), ("server", ctypes.c_char_p),
                ("tenant", ctypes.c_char_p), ("lock_wait_ms", ctypes.c_int64),
                ("keeps_outbox", ctypes.c_int)]


class Request(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("tool", ctypes.c_char_p), ("key", ctypes.c_char_p),
                ("arguments", ctypes.c_char_p), ("arguments_size", ctypes.c_size_t),
                ("principal", ctypes.c_char_p), ("first_sent_ms", ctypes.c_int64),
                ("contract", ctypes.c_void_p), ("wait_ms", ctypes.c_int64)]


class Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("verdict", ctypes.c_int), ("code", ctypes.c_char_p),
                ("text", ctypes.c_char_p), ("id", ctypes.c_char_p), ("effect_key", ctypes.c_char_p),
                ("attempt", ctypes.c_uint), ("outcome", ctypes.c_void_p),
                ("outcome_size", ctypes.c_size_t), ("is_error", ctypes.c_int),
                ("is_reconstructed", ctypes.c_int), ("receipt", ctypes.c_char_p),
                ("owner", ctypes.c_char_p), ("owner_pid", ctypes.c_long),
                ("retry_after_ms", ctypes.c_int64), ("may", ctypes.c_uint),
                ("is_new_key_allowed", ctypes.c_int)]


class Failure(Exception):
    """What the library said, with its code."""

    def __init__(self, error):
        super().__init__(error.text.decode())
        self.code = error.code


class Ledger:
    def __init__(self, library, path, server):
        self.library, self.error, self.handle = library, Error(), ctypes.c_void_p()
        options = Options()
        library.hapax_options_init(ctypes.byref(options))
        options.path, options.server = path.encode(), server.encode()
        self.check(library.hapax_open(ctypes.byref(options), ctypes.byref(self.handle),
                                      ctypes.byref(self.error)))

    def check(self, code):
        if code < 0:
            raise Failure(self.error)
        return code

    def claim(self, tool, key, arguments, principal=None):
        request, call = Request(), ctypes.c_void_p()
        self.library.hapax_request_init(ctypes.byref(request))
        request.tool, request.key = tool.encode(), key.encode()
        request.principal = principal and principal.encode()
        request.arguments, request.arguments_size = arguments, len(arguments)
        verdict = self.check(self.library.hapax_claim(
            self.handle, None, ctypes.byref(request), ctypes.byref(call), ctypes.byref(self.error)))
        return verdict, Call(self, call)

    def close(self):
        self.check(self.library.hapax_close(self.handle, ctypes.byref(self.error)))


class Call:
    def __init__(self, ledger, handle):
        self.ledger, self.handle = ledger, handle

    def info(self):
        info = Info(size=ctypes.sizeof(Info))
        self.ledger.library.hapax_call_info(self.handle, ctypes.byref(info))
        return info

    def outcome(self):
        info = self.info()
        return ctypes.string_at(info.outcome, info.outcome_size)

    def receipt(self, text):
        self.ledger.check(self.ledger.library.hapax_receipt(
            self.handle, None, text, ctypes.byref(self.ledger.error)))

    def finish(self, outcome):
        self.ledger.check(self.ledger.library.hapax_finish(
            self.handle, None, outcome, ctypes.c_size_t(len(outcome)), 0,
            ctypes.byref(self.ledger.error)))

    def free(self):
        self.ledger.library.hapax_call_free(self.handle)


def expect(fact, what):
    if not fact:
        raise AssertionError(what)


def main():
    library = ctypes.CDLL(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="hapax-python-") as directory:
        ledger = Ledger(library, os.path.join(directory, "own.db"), "python")
        verdict, call = ledger.claim("charge", "order-1", b'{"amount": 1}')
        expect(verdict == RUN, f"the first claim runs, not {verdict}")
        expect(len(call.info().effect_key) == 36, "it has an effect key")
        verdict, second = ledger.claim("charge", "order-1", b'{"amount":1.0}')
        expect(verdict == BUSY, f"the second is busy, not {verdict}")
        expect(second.info().owner_pid == os.getpid(), "by this process")
        second.free()
        call.receipt(b"bank 7")
        call.finish(b"charged\0twice never")
        try:
            call.finish(b"again")
            expect(False, "a second outcome must fail")
        except Failure as failure:
            expect(failure.code == E_STATE, f"it is over: {failure}")
        call.free()
        ledger.close()
        ledger = Ledger(library, os.path.join(directory, "own.db"), "python")
        verdict, call = ledger.claim("charge", "order-1", b'{"amount":1}')
        expect(verdict == REPLAY, f"after a restart it is replayed, not {verdict}")
        expect(call.outcome() == b"charged\0twice never", f"byte for byte: {call.outcome()!r}")
        call.free()
        verdict, call = ledger.claim("charge", "order-1", b'{"amount":2}')
        expect(verdict == CONFLICT, f"other arguments conflict, not {verdict}")
        call.free()
        verdict, call = ledger.claim("charge", "order-2", b"{}")
        call.free()
        verdict, call = ledger.claim("charge", "order-2", b"{}")
        expect(verdict == UNKNOWN, f"one left behind is unknown, not {verdict}")
        expect(b"hapax ops resolve" in call.info().text, "and the text says what a person can do")
        try:
            ledger.close()
            expect(False, "closing with a call open must fail")
        except Failure as failure:
            expect(failure.code == E_MISUSE, str(failure))
        call.free()
        ledger.close()


if __name__ == "__main__":
    main()
