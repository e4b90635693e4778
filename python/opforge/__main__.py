"""python -m opforge: the shell program."""

import os
import sys

from .program import path

os.execv(path(), [path(), *sys.argv[1:]])
