"""The process behind every DSL toolchain: reads questions as lines of JSON from standard input and answers each with one
line on a descriptor of its own, so that nothing a DSL prints is taken for an answer.

    python3 -I -B opforge_worker.py backends/<dsl>/worker.py

worker.py defines VERSION (of the DSL that it imported) and compile(job, module) -> (values, blobs): `job` is the question's
dict, `module` the kernel's module, made from files that came with the question; values is a dict for JSON, blobs a dict of
bytes. An exception is the answer too: its message, and the line of the kernel's file where it came from.
"""
import os
import sys

# Before anything else is imported: from here on prints, also those of C code, go to standard error.
_answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sys.stdout = sys.stderr

import base64  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import linecache  # noqa: E402
import shutil  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402

FOLDER = os.environ["OPFORGE_WORKER_FOLDER"]
MOST_SOURCE_SETS = 16
KERNEL_MODULE = "opforge_kernel"  # one name for all, since DSLs put it into symbols


class Refused(Exception):
    """Raised by a worker.py for what the caller did wrong: the message is shown as it is."""


def end_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(2)
    shutil.rmtree(FOLDER, ignore_errors=True)
    os._exit(0)


def load_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Sources:
    """Kernel modules by the digest of all files that they are made of: a helper that changed is a new set."""

    def __init__(self):
        self.modules = {}  # (digest, source) -> (module, {helper name: module})
        self.current = None

    def _leave(self):
        """Forget the modules of the set in use: another set may have other files of the same names."""
        if self.current is None:
            return
        for name in [n for n, m in sys.modules.items() if (getattr(m, "__file__", None) or "").startswith(self.current)]:
            del sys.modules[name]
        sys.path[:] = [p for p in sys.path if p != self.current]
        self.current = None

    def module(self, digest, files, source):
        folder = os.path.join(FOLDER, "sources", digest)
        if self.current != folder:
            self._leave()
            if len(self.modules) >= MOST_SOURCE_SETS:
                self.modules.clear()
                shutil.rmtree(os.path.join(FOLDER, "sources"), ignore_errors=True)
            if not os.path.isdir(folder):
                for name, text in files.items():
                    path = os.path.join(folder, name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
            linecache.clearcache()
            importlib.invalidate_caches()
            # Behind the environment's packages: a kernel's file may be called like its DSL.
            sys.path.append(folder)
            self.current = folder
        known = self.modules.get((digest, source))
        if known is None:
            before = set(sys.modules)
            module = load_file(KERNEL_MODULE, os.path.join(folder, source))
            helpers = {n: m for n, m in sys.modules.items()
                       if n not in before and (getattr(m, "__file__", None) or "").startswith(folder)}
            known = self.modules[(digest, source)] = (module, helpers)
        sys.modules.update(known[1])
        sys.modules[KERNEL_MODULE] = known[0]
        return known[0]

    def clean(self, text):
        """A message without the folders of this process."""
        if self.current is not None:
            text = text.replace(self.current + os.sep, "")
        return text.replace(FOLDER + os.sep, "")

    def where(self, error):
        """", line N of FILE" for the last frame of an exception that is in the kernel's files."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if self.current is not None and frame.filename.startswith(self.current + os.sep):
                return f"{os.path.relpath(frame.filename, self.current)}:{frame.lineno}: "
        if isinstance(error, SyntaxError) and error.filename:
            return f"{error.filename}:{error.lineno}: "
        return ""


def describe(error, sources):
    if type(error).__name__ == "Refused":
        return sources.clean(str(error))
    text = str(error).strip() or repr(error)
    if type(error).__name__ not in text:
        text = f"{type(error).__name__}: {text}"
    return sources.clean(sources.where(error) + text)


def answer_to(question, worker, sources):
    if "hello" in question:
        return {"ok": True, "version": str(worker.VERSION), "python": sys.version.split()[0]}
    try:
        job = question["job"]
        module = sources.module(question["digest"], question["files"], job["source"])
        values, blobs = worker.compile(job, module)
        return {"ok": True, "values": values, "blobs": {k: base64.b64encode(v).decode("ascii") for k, v in blobs.items()}}
    except BaseException as error:  # noqa: BLE001 - SystemExit of a DSL is an answer too
        return {"ok": False, "message": describe(error, sources)}


def main():
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    script = sys.argv[1]
    sources = Sources()
    failure = worker = None
    try:
        sys.modules["opforge_worker"] = sys.modules["__main__"]
        worker = load_file("opforge_dsl", script)
    except BaseException as error:  # noqa: BLE001
        failure = {"ok": False, "message": describe(error, sources)}
    last = ""
    for line in sys.stdin:
        question = json.loads(line)
        if "repeat" not in question:
            reply = failure or answer_to(question, worker, sources)
            reply["id"] = question["id"]
            last = json.dumps(reply)
        _answers.write(last + "\n")
        _answers.flush()
    shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main()
