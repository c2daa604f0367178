"""Keys that a person presses, in the layout of a keyboard: the X server is told of them, as by a keyboard.

Keys are named by their place on a US keyboard, as in PC/AT keycodes of evdev: what they type is the layout's affair.
"""

import ctypes
import subprocess

# Keycodes of X are those of evdev plus 8.
KEYCODES = {
    "Escape": 9, "1": 10, "2": 11, "3": 12, "4": 13, "5": 14, "6": 15, "7": 16, "8": 17, "9": 18, "0": 19, "-": 20,
    "=": 21, "Q": 24, "W": 25, "E": 26, "R": 27, "T": 28, "Y": 29, "U": 30, "I": 31, "O": 32, "P": 33, "[": 34, "]": 35,
    "Enter": 36, "Control": 37, "A": 38, "S": 39, "D": 40, "F": 41, "G": 42, "H": 43, "J": 44, "K": 45, "L": 46, ";": 47,
    "Shift": 50, "Z": 52, "X": 53, "C": 54, "V": 55, "B": 56, "N": 57, "M": 58, ",": 59, ".": 60, "/": 61, "AltGr": 108,
    "Home": 110, "Right": 114, "NumLock": 77, "KP_4": 83, "KP_6": 85, "KP_7": 79, "KP_Enter": 104, "KP_Subtract": 82, "KP_Add": 86,
}


def is_installed():
    try:
        ctypes.CDLL("libXtst.so.6")
    except OSError:
        return False
    return True


class RealKeys:
    """The keyboard of a display."""

    def __init__(self, display, layout):
        self.display = display
        subprocess.run(["setxkbmap", "-display", display, *layout.split()], check=True, timeout=60)
        self.x = ctypes.CDLL("libX11.so.6")
        self.xtest = ctypes.CDLL("libXtst.so.6")
        self.x.XOpenDisplay.restype = ctypes.c_void_p
        self.x.XOpenDisplay.argtypes = [ctypes.c_char_p]
        for function in (self.x.XCloseDisplay, self.x.XFlush):
            function.argtypes = [ctypes.c_void_p]
        self.x.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.xtest.XTestFakeKeyEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]
        self.xtest.XTestFakeMotionEvent.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                                                    ctypes.c_ulong]
        self.connection = self.x.XOpenDisplay(display.encode())
        if not self.connection:
            raise RuntimeError(f"no display {display}")

    def close(self):
        self.x.XCloseDisplay(self.connection)

    def press(self, chord):
        """Presses "Shift+/": keys by their places, the last one while the others are held."""
        codes = [KEYCODES[name] for name in chord.split("+")]
        for down, order in ((1, codes), (0, reversed(codes))):
            for code in order:
                self.xtest.XTestFakeKeyEvent(self.connection, code, down, 0)
        self.x.XSync(self.connection, 0)

    def move(self, x, y):
        self.xtest.XTestFakeMotionEvent(self.connection, -1, x, y, 0)
        self.x.XSync(self.connection, 0)
