"""Exports one variant of a cuTile kernel as tile bytecode. Run by opforge_worker.py.

job: {"entry", "arrays": {name: {"dtype", "rank", "group", "vectors", "read_only"}}, "scalars": {name: dtype}, "gpu", "variant"}.
Values of the answer: "params": [[name, kind]], the compiled kernel's parameters in the order of the calling convention: of an
array its pointer, extents and strides.
"""
import os

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, KernelSignature, ScalarConstraint, export_kernel

from opforge_worker import FOLDER, Refused

VERSION = ct.__version__
DTYPES = {"f64": ct.float64, "f32": ct.float32, "f16": ct.float16, "bf16": ct.bfloat16, "i8": ct.int8, "u8": ct.uint8, "i32": ct.int32,
          "i64": ct.int64, "u32": ct.uint32, "u64": ct.uint64}
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i32": 4, "i64": 8, "u32": 4, "u64": 8}


def array(spec):
    """What the compiler may assume: no negative strides, which cuTile does not have; with "vectors" unit strides in the last
    dim and everything else at multiples of 16 bytes. Arrays of one group may overlap."""
    rank, step = spec["rank"], max(1, 16 // BYTES[spec["dtype"]])
    vectors = spec["vectors"]
    return ArrayConstraint(DTYPES[spec["dtype"]], rank, index_dtype=ct.int32, stride_lower_bound_incl=0,
                           alias_groups=(spec["group"],) if spec["group"] else (), may_alias_internally=spec["read_only"],
                           stride_constant=[None] * (rank - 1) + [1] if vectors else None,
                           stride_divisible_by=[step] * (rank - 1) + [1] if vectors else 1, shape_divisible_by=1,
                           base_addr_divisible_by=16 if vectors else BYTES[spec["dtype"]])


def compile(job, module):
    kernel = getattr(module, job["entry"], None)
    if not isinstance(kernel, ct.kernel):
        raise Refused(f"{job['source']} has no @ct.kernel '{job['entry']}'")
    variant = job["variant"]
    constants = dict(variant["values"])
    constants.update(variant["baked"])
    parameters, flat, used = [], [], set()
    for name, note in zip(kernel._annotated_function.pysig.parameters, kernel._annotated_function.parameter_annotations):
        used.add(name)
        if note.constant:
            if name not in constants:
                raise Refused(f"constant '{name}' of {job['entry']} is no tunable or baked attribute of the kernel")
            parameters.append(constants[name])
        elif name in job["arrays"]:
            spec = job["arrays"][name]
            parameters.append(array(spec))
            flat.append([name, "ptr"])
            flat += [[f"{name}.dim{i}", "i32"] for i in range(spec["rank"])] + [[f"{name}.stride{i}", "i32"] for i in range(spec["rank"])]
        elif name in job["scalars"]:
            parameters.append(ScalarConstraint(DTYPES[job["scalars"][name]]))
            flat.append([name, job["scalars"][name]])
        else:
            raise Refused(f"parameter '{name}' of {job['entry']} has no binding in the launch record")
    for name in list(job["arrays"]) + list(job["scalars"]):
        if name not in used:
            raise Refused(f"the launch record binds '{name}', which is no parameter of {job['entry']}")
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1(), symbol=job["entry"])
    path = os.path.join(FOLDER, "out.tileirbc")
    export_kernel(kernel, [signature], path, gpu_code=job["gpu"], output_format="tileir_bytecode")
    with open(path, "rb") as file:
        return {"name": job["entry"], "params": flat}, {"bytecode": file.read()}
