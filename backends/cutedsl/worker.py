"""Compiles one variant of a CuTe DSL kernel ahead of time to a cubin: no GPU, no runtime library. Run by opforge_worker.py.

job: {"entry", "params": [[name, type, align]], "variant": ..}; types are "ptr:bf16", "i32", "i64", "f32". The kernel's file has a
function `entry` that takes tunables, baked attributes and dtype variables (as cutlass types) by name and gives the @cute.jit host
function, whose parameters are pointers and scalars in the order of the launch record, then the stream.
Values of the answer: what the host code launches with, read from the DSL's own IR: "block", "shared". A launch with
attributes (clusters, cooperative, programmatic) is refused. The grid is the declared one: that of the host function is not used.
"""
import inspect
import re
import tempfile

import cuda.bindings.driver as driver
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_ptr

from opforge_worker import Refused

VERSION = cutlass.__version__
DTYPES = {"f64": cutlass.Float64, "f32": cutlass.Float32, "f16": cutlass.Float16, "bf16": cutlass.BFloat16, "i8": cutlass.Int8,
          "i32": cutlass.Int32, "i64": cutlass.Int64, "u8": cutlass.Uint8, "u32": cutlass.Uint32, "u64": cutlass.Uint64}
HOST = "opforge_host"


def host_function(job, module):
    make = getattr(module, job["entry"], None)
    if make is None:
        raise Refused(f"{job['source']} has no function '{job['entry']}'")
    variant = job["variant"]
    constants = {**variant["values"], **variant["baked"], **{k: DTYPES[v] for k, v in variant["dtypes"].items()}}
    arguments = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in constants:
            arguments[name] = constants[name]
        elif parameter.default is inspect.Parameter.empty:
            raise Refused(f"parameter '{name}' of {job['entry']} is no tunable, baked attribute or dtype variable of the kernel")
    host = make(**arguments)
    if not hasattr(host, "set_name_prefix"):
        raise Refused(f"{job['entry']} gave {type(host).__name__}, not a @cute.jit function")
    return host


def arguments_of(job, host):
    wanted = list(inspect.signature(host).parameters)[:-1]
    given = [name for name, _, _ in job["params"]]
    if wanted != given:
        raise Refused(f"the host function takes {', '.join(wanted)}, the launch record binds {', '.join(given)}")
    made = []
    for name, kind, align in job["params"]:
        if kind.startswith("ptr:"):
            made.append(make_ptr(DTYPES[kind[4:]], 0, cute.AddressSpace.gmem, assumed_align=align))
        else:
            made.append(DTYPES[kind](1))
    return made


def launch_values(ir):
    """Block and dynamic shared memory of the only launch, where they are constants."""
    start = ir.find(f"llvm.func @{HOST}(")
    if start < 0:
        raise Refused("its host function is not in the DSL's IR")
    body = ir[start:ir.index("\n  }\n", start)]
    constants = {m[0]: int(m[1]) for m in re.findall(r"(%\w+) = llvm\.mlir\.constant\((-?\d+) : i\d+\)", body)}
    config = {}
    store = (r"(%\w+) = llvm\.getelementptr %\w+\[0, ([012])(?:, ([012]))?\][^\n]*array<3 x i32>, array<3 x i32>, i64[^\n]*\n"
             r"\s+llvm\.store (%\w+), \1 ")
    for m in re.finditer(store, body):
        at = (int(m[2]), int(m[3]) if m[3] else 0)
        if at in config:
            raise Refused("its host code launches more than one kernel")
        config[at] = constants.get(m[4])
    attribute = r"\[0, 0\][^\n]*array<4 x i8>, array<64 x i8>\)>\n\s+llvm\.store (%\w+), %\w+[^\n]*\n((?:(?!\s+llvm\.br)[^\n]*\n){1,12})"
    for m in re.finditer(attribute, body):
        values = [constants.get(value) for value in re.findall(r"llvm\.store (%\w+), %\w+ : i\d+", m[2])]
        if values != [0]:  # cooperative and programmatic launches are always there, switched off
            raise Refused(f"its launch has the driver's attribute {constants.get(m[1])} set to {values}, which is not served")
    block = [config.get((1, k)) for k in range(3)]
    if None in block or config.get((2, 0)) is None:
        raise Refused("its host code computes the block or the shared memory; they must follow from the variant")
    return {"block": block, "shared": config[(2, 0)]}


def compile(job, module):
    host = host_function(job, module)
    arguments = arguments_of(job, host)
    host.set_name_prefix(HOST, remove_cutlass_symbol=True, keep_mangled_name=False)
    with tempfile.TemporaryDirectory() as folder:
        options = f"--gpu-arch={job['variant']['target']} --keep-ptx --keep-cubin --dump-dir={folder}"
        made = cute.compile(host, *arguments, driver.CUstream(0), options=options)
        cubin, ptx, ir = made.__cubin__, made.__ptx__, str(made.ir_module)
    return launch_values(ir), {"cubin": cubin, "ptx": ptx.encode() if isinstance(ptx, str) else ptx}
