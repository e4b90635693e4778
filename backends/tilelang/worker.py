"""Compiles one variant of a TileLang kernel ahead of time: lowered here, compiled by nvcc, no GPU. Run by opforge_worker.py.

job: {"entry", "options": {..}, "nvcc": path, "flags": [..], "variant": ..}. The kernel's file has a function `entry` that takes
tunables, baked attributes and dtype variables (as "float16") by name and gives a T.prim_func, or is decorated with
@tilelang.jit (with or without out_idx), in which case what is under the decorator is taken: outputs are parameters here.
Values of the answer: "kernels", one for each T.Kernel block: entry, grid, block, shared memory and parameters as the host module
passes them. Expressions are text in which {name} is a parameter of the prim_func or a symbolic dim.
"""
import inspect
import os
import subprocess
import tempfile

import tilelang
from tilelang import tvm
from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH
from tvm import tirx
from tvm.tirx.stmt_functor import post_order_visit

from opforge_worker import Refused

VERSION = tilelang.__version__.split("+")[0]
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i32": "int32", "i64": "int64", "i8": "int8",
          "u8": "uint8", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
BINARY = {"Add": "({} + {})", "Sub": "({} - {})", "Mul": "({} * {})", "FloorDiv": "({} / {})", "FloorMod": "({} % {})",
          "Min": "min({}, {})", "Max": "max({}, {})"}
PLAIN = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
UNSERVED = ("cluster_dims", "use_cooperative_groups", "has_cuda_pdl_sync", "has_cuda_pdl_trigger")


def text(e):
    if isinstance(e, int):
        return str(e)
    kind = type(e).__name__
    if kind == "IntImm":
        return str(int(e.value))
    if kind in ("Var", "SizeVar"):
        return "{" + str(e.name) + "}"
    if kind == "Cast":
        return text(e.value)
    if kind in BINARY:  # all operands are sizes: no quotient is negative, so rounding down and to zero agree
        return BINARY[kind].format(text(e.a), text(e.b))
    raise Refused(f"the host code computes a launch value that opforge cannot take over: {kind}: {e}")


def number(e):
    value = text(e)
    if not value.lstrip("-").isdigit():
        raise Refused(f"{value} of a descriptor is no constant")
    return int(value)


def prim_func(job, module):
    make = getattr(module, job["entry"], None)
    if make is None:
        raise Refused(f"{job['source']} has no function '{job['entry']}'")
    for name in ("func", "fn", "_func", "__wrapped__"):  # under @tilelang.jit
        if not inspect.isfunction(make) and not isinstance(make, tirx.PrimFunc) and hasattr(make, name):
            make = getattr(make, name)
    if isinstance(make, tirx.PrimFunc):
        return make
    variant = job["variant"]
    constants = {**variant["values"], **variant["baked"], **{k: DTYPES[v] for k, v in variant["dtypes"].items()}}
    arguments = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in constants:
            arguments[name] = constants[name]
        elif parameter.default is inspect.Parameter.empty:
            raise Refused(f"parameter '{name}' of {job['entry']} is no tunable, baked attribute or dtype variable of the kernel")
    made = make(**arguments)
    if not isinstance(made, tirx.PrimFunc):
        raise Refused(f"{job['entry']} gave {type(made).__name__}, not a T.prim_func")
    return made


def host_calls(artifact):
    found = []
    packed = tvm.ir.Op.get("tirx.tvm_call_packed")

    def visit(node):
        if isinstance(node, tirx.Call) and node.op == packed and len(node.args) and isinstance(node.args[0], tirx.StringImm):
            found.append((str(node.args[0].value), list(node.args[1:])))

    for function in artifact.host_mod.functions.values():
        post_order_visit(function.body, visit)
    return found


def descriptor(args, tensors):
    handle, dtype, rank, base, *rest = args
    r = number(rank)
    part = [[text(x) for x in rest[k * r:(k + 1) * r]] for k in range(4)]
    modes = [number(x) for x in rest[4 * r:4 * r + 4]]
    # Strides: the element's own first, which the driver does not take.
    return str(handle.name), {"kind": "tensor_map", "dtype": number(dtype), "tensor": tensors[str(base.name)], "dims": part[0],
                              "strides": part[1][1:], "box": part[2], "element_strides": part[3], "modes": modes}


def describe(function, artifact):
    tensors, scalars = {}, set()
    for p in function.params:
        if p in function.buffer_map:
            buffer = function.buffer_map[p]
            tensors[str(buffer.data.name)] = str(buffer.name)
        else:
            scalars.add(str(p.name))
    device = {gv.name_hint: f for gv, f in artifact.device_mod.functions.items()}
    maps, kernels = {}, []
    for name, args in host_calls(artifact):
        if name == "__tvm_tensormap_create_tiled":
            handle, spec = descriptor(args, tensors)
            maps[handle] = spec
        elif name in device:
            kernels.append(kernel(name, device[name], args, maps, tensors))
        elif name != "__tvm_set_device":
            raise Refused(f"its host code calls {name}, which opforge does not take over")
    if not kernels:
        raise Refused("it launches nothing")
    return kernels


def kernel(name, function, args, maps, tensors):
    attrs = {str(k): v for k, v in function.attrs.items()}
    for bad in UNSERVED:
        if attrs.get(bad):
            raise Refused(f"{name} asks for {bad}, which is not served for TileLang kernels")
    count = len(function.params)
    order = [str(x) for x in attrs["tirx.kernel_launch_params"]]
    if len(args) != count + len(order):
        raise Refused(f"{name}: its call has {len(args)} arguments, {count} parameters and {len(order)} launch values were expected")
    launch = dict(zip(order, (text(x) for x in args[count:])))
    params = []
    for variable in args[:count]:
        own = str(getattr(variable, "name", ""))
        if own in maps:
            params.append({"name": own, **maps[own]})
        elif own in tensors:
            params.append({"name": own, "kind": "pointer", "tensor": tensors[own]})
        elif own:
            params.append({"name": own, "kind": str(variable.dtype)})
        else:
            raise Refused(f"{name}: parameter {variable} is computed by its host code")
    return {"entry": name, "grid": [launch.get("blockIdx." + a, "1") for a in "xyz"],
            "block": [launch.get("threadIdx." + a, "1") for a in "xyz"],
            "shared": launch.get("tirx.use_dyn_shared_memory", "0"), "params": params}


def nvcc(job, source):
    with tempfile.TemporaryDirectory() as folder:  # names within it are always the same, so that none reaches the code
        with open(os.path.join(folder, "kernel.cu"), "w", encoding="utf-8") as file:
            file.write(source)
        command = [job["nvcc"], "-std=c++20", "-O3", "-arch=" + job["variant"]["target"], "--cubin", "-I", TILELANG_TEMPLATE_PATH,
                   "-I", CUTLASS_INCLUDE_DIR, *job["flags"], "-o", "kernel.cubin", "kernel.cu"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise Refused("nvcc refused what TileLang made of the kernel:\n" + (done.stderr or done.stdout)[-4000:])
        with open(os.path.join(folder, "kernel.cubin"), "rb") as file:
            return file.read()


def compile(job, module):
    function = prim_func(job, module)
    options = job["options"]
    config = dict(PLAIN) if options.get("tma", 0) == 0 else {}
    if options.get("fast_math", 0):
        job["flags"] = job["flags"] + ["--use_fast_math"]
    target = tvm.target.Target({"kind": "cuda", "arch": job["variant"]["target"]})
    with tvm.transform.PassContext(opt_level=3, config=config), target:
        artifact = tilelang.lower(function, target=target)
    source = artifact.kernel_source
    return {"kernels": describe(function, artifact)}, {"cubin": nvcc(job, source), "source": source.encode()}
