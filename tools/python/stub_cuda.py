"""Make `import torch` (CUDA wheel) work on a machine without a GPU and without the NVIDIA packages, for tests on the CPU.

Never run it where there is a GPU: the libraries that it writes answer every call with an error.

For every shared library that torch's own .so files NEED and the dynamic loader
cannot supply in full, write a stub with the same SONAME into torch/lib (which is
the last entry, $ORIGIN, of the DT_RPATH of each torch library).  A stub function
returns 1, which every CUDA-family API reads as an error.
usage: stub_cuda.py [--all]   --all: stub every NVIDIA library, use no toolkit
"""
import importlib.util, os, re, subprocess, sys, sysconfig, tempfile
root = os.path.dirname(importlib.util.find_spec("torch").origin)
lib = os.path.join(root, "lib")
run = lambda *a: subprocess.run(a, capture_output=True, text=True).stdout
PREF = {"libcudart.so": "cuda", "libcublas.so": "cublas", "libcublasLt.so": "cublasLt", "libcufft.so": "cufft",
        "libcusparse.so": "cusparse", "libcusparseLt.so": "cusparseLt", "libcusolver.so": "cusolver",
        "libcufile.so": "cuFile", "libcupti.so": "cupti", "libcudnn.so": "cudnn", "libnccl.so": "nccl|pnccl",
        "libnvrtc.so": "nvrtc", "libnvshmem_host.so": "nvshmem", "libnvJitLink.so": "nvJitLink", "libnvToolsExt.so": "nvtx"}
need, und = set(), {}
for f in sorted(os.listdir(lib)):
    if not re.match(r"lib(torch|c10|shm).*\.so$", f):
        continue
    p = os.path.join(lib, f)
    for m in re.findall(r"NEEDED\).*\[(.*?)\]", run("readelf", "-dW", p)):
        if m.split(".so")[0] + ".so" in PREF:
            need.add(m)
    for line in run("readelf", "--dyn-syms", "-W", p).splitlines():
        w = line.split()
        if len(w) >= 8 and w[6] == "UND":
            n, _, ver = w[7].partition("@")
            und[n] = ver.strip("@")
cache = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", run("ldconfig", "-p"), re.M))
made = []
for so in sorted(need):
    base = so.split(".so")[0] + ".so"
    others = [p for b, p in PREF.items() if b != base]
    pat = re.compile(r"_*(?:%s)" % PREF[base])
    mine = [s for s in und if pat.match(s)]
    if base == "libcusparse.so":
        mine = [s for s in mine if not s.startswith("cusparseLt")]
    if base == "libcublas.so":
        mine = [s for s in mine if not s.startswith("cublasLt")]
    have = set()
    if "--all" not in sys.argv and so in cache:
        have = {l.split()[-1].split("@")[0] for l in run("nm", "-D", "--defined-only", cache[so]).splitlines() if l.split()}
        if not [s for s in mine if s not in have]:
            continue
    with tempfile.TemporaryDirectory() as t:
        c = os.path.join(t, "s.c")
        open(c, "w").write("".join(
            f'const char* {s}(void){{return "stub: no CUDA library here";}}\n' if re.search(r"Get(Last)?Error(String|Name)$|StatusString$", s)
            else f"long {s}(void){{return {100 if base == 'libcudart.so' else 1};}}\n" for s in sorted(mine)))
        vers = {und[s] for s in mine if und[s]}
        args = ["gcc", "-shared", "-fPIC", "-w", "-O1", "-fno-builtin", "-Wl,-soname," + so, c, "-o", os.path.join(lib, so)]
        if vers:
            vs = os.path.join(t, "v.map")
            v = re.sub(r"\s*\(.*", "", vers.pop())
            open(vs, "w").write(v + " { global: *; };\n")
            args.append("-Wl,--version-script=" + vs)
        subprocess.run(args, check=True)
    made.append((so, len(mine), len(mine) - len(set(mine) & have)))
for so, n, m in made:
    print(f"stub {so}: {n} symbols ({m} not in this box's own copy)")
