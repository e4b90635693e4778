"""Compiles one variant of a Triton kernel ahead of time: no GPU, no driver, no PyTorch. Run by opforge_worker.py.

job: {"entry", "params": [[name, type]], "constants": {name: value}, "divisible": [names], "ones": [names], "options": {..},
"variant": ..}. Types are Triton's own ("*bf16", "i32", "fp32", "tensordesc<fp16[128,64]>").
Values of the answer: what a launcher needs of Triton's metadata, and "params": [[name, kind]], the compiled kernel's own
parameters in order, worked out from the signature; the toolchain compares them with the cubin's table.
"""
import os

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from opforge_worker import Refused

VERSION = triton.__version__
DTYPES = {"f64": tl.float64, "f32": tl.float32, "f16": tl.float16, "bf16": tl.bfloat16, "i8": tl.int8, "u8": tl.uint8,
          "i32": tl.int32, "i64": tl.int64, "u32": tl.uint32, "u64": tl.uint64, "bool": tl.int1,
          "f8e4m3": tl.float8e4nv, "f8e5m2": tl.float8e5}
KINDS = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16"}


def target_of(variant):
    if variant["device"] == "hip":
        return GPUTarget("hip", variant["target"], 64 if variant["target"].startswith("gfx9") else 32)
    return GPUTarget("cuda", variant["arch"], 32)


def unwrap(kernel, entry):
    """The jitted function under @autotune and @heuristics, whose choices are the tuner's here."""
    while not isinstance(kernel, triton.runtime.jit.JITFunction):
        kernel = getattr(kernel, "fn", None)
        if kernel is None:
            raise Refused(f"'{entry}' is no @triton.jit function")
    return kernel


def constants_of(job):
    variant = job["variant"]
    constants = dict(variant["values"])
    constants.update(variant["baked"])
    constants.update({name: DTYPES[dtype] for name, dtype in variant["dtypes"].items()})
    return constants


def signature_of(fn, job):
    """(signature, constants, attributes) as ASTSource wants them."""
    params, ones, divisible = dict(job["params"]), set(job["ones"]), set(job["divisible"])
    available = constants_of(job)
    signature, constants, attributes = {}, {}, {}
    for index, name in enumerate(fn.arg_names):
        if fn.params[index].is_constexpr:
            if name not in available:
                raise Refused(f"constexpr '{name}' of {fn.__name__} is no tunable, baked attribute or dtype variable of the kernel")
            signature[name], constants[name] = "constexpr", available[name]
            continue
        if name not in params:
            raise Refused(f"parameter '{name}' of {fn.__name__} has no binding in the launch record")
        if name in ones:
            signature[name], constants[name] = "constexpr", 1
            continue
        signature[name] = params[name]
        if name in divisible:
            attributes[(index,)] = [["tt.divisibility", 16]]
    for name in list(params) + sorted(ones | divisible):
        if name not in fn.arg_names:
            raise Refused(f"the launch record binds '{name}', which is no parameter of {fn.__name__}; it has {', '.join(fn.arg_names)}")
    return signature, constants, attributes


def parameters_of(fn, signature, tensordesc_meta):
    """The flat list of the compiled kernel's parameters."""
    out = []
    for name in fn.arg_names:
        kind = signature[name]
        if kind == "constexpr":
            continue
        if kind.startswith("*"):
            out.append([name, "ptr"])
        elif kind.startswith("tensordesc<"):
            rank = kind.count(",") + 1
            if tensordesc_meta:
                out.append([name, "tensor_map"])
            else:
                out.append([name, "ptr"])
                out += [[f"{name}.shape{i}", "i64"] for i in range(rank)] + [[f"{name}.stride{i}", "i64"] for i in range(rank)]
                out += [[f"{name}.nan", "i1"], [f"{name}.tf32", "i1"]]
            out += [[f"{name}.shape{i}", "i32"] for i in range(rank)] + [[f"{name}.stride{i}", "i64"] for i in range(rank)]
        else:
            out.append([name, KINDS.get(kind, kind)])
    return out + [["global_scratch", "ptr"], ["profile_scratch", "ptr"]]


def check_options(target, options):
    warps = options.get("num_warps", 4)
    if warps < 1 or warps & (warps - 1) or warps * target.warp_size > 1024:
        raise Refused(f"num_warps={warps}: a power of two, at most {1024 // target.warp_size} on this target")
    if options.get("num_stages", 3) < 1:
        raise Refused(f"num_stages={options['num_stages']}: 1 at least")
    ctas = options.get("num_ctas", 1)
    if ctas != 1 and (target.backend != "cuda" or target.arch < 90 or ctas not in (2, 4, 8, 16)):
        raise Refused(f"num_ctas={ctas}: clusters of 2, 4, 8 or 16 blocks exist from sm_90 on")
    if target.backend == "hip":
        options.pop("num_ctas", None)
        options.pop("maxnreg", None)
    else:
        options.pop("waves_per_eu", None)
        options.pop("matrix_instr_nonkdim", None)


def compile(job, module):
    fn = getattr(module, job["entry"], None)
    if fn is None:
        raise Refused(f"{job['source']} has no function '{job['entry']}'")
    fn = unwrap(fn, job["entry"])
    target = target_of(job["variant"])
    options = dict(job["options"])
    check_options(target, options)
    options["enable_fp_fusion"] = bool(options.get("enable_fp_fusion", 1))
    signature, constants, attributes = signature_of(fn, job)
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attributes)
    kernel = triton.compile(source, target=target, options=options)
    meta = kernel.metadata
    values = {"name": meta.name, "num_warps": meta.num_warps, "shared": meta.shared, "num_ctas": meta.num_ctas,
              "warp_size": target.warp_size,
              "cooperative": bool(getattr(meta, "launch_cooperative_grid", False)), "pdl": bool(getattr(meta, "launch_pdl", False)),
              "scratch": getattr(meta, "global_scratch_size", 0) or 0, "scratch_align": getattr(meta, "global_scratch_align", 1) or 1,
              "profile_scratch": getattr(meta, "profile_scratch_size", 0) or 0}
    descriptors = getattr(meta, "tensordesc_meta", None) or []
    values["descriptors"] = [dict(d) for d in descriptors]
    values["params"] = parameters_of(fn, signature, descriptors)
    kind = "hsaco" if target.backend == "hip" else "cubin"
    blobs = {kind: kernel.asm[kind]}
    if "ptx" in kernel.asm:
        blobs["ptx"] = kernel.asm["ptx"].encode()
    return values, blobs
