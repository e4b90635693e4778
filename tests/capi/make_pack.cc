// Writes the packs that the tests of the C interface open: make_pack BLOCK_SO FOLDER
#include <cstdio>
#include <fstream>
#include <sstream>

#include "artifact/pack.hpp"

using namespace opforge;

namespace {

Signature signature(const std::string& name) {
  Signature s;
  s.name = name;
  TensorArg x, y;
  x.name = "x";
  x.dims = {"...M", "N"};
  x.dtype = "T";
  y = x;
  y.name = "y";
  y.access = Access::kWrite;
  s.tensors = {x, y};
  AttrArg alpha;
  alpha.name = "alpha";
  alpha.default_value = 2.0;
  s.attributes = {alpha};
  s.dtypes = {{{"T", DType::kF32}}};
  s.default_contract = Tier::kFast;
  s.backend_priority = {"cpu"};
  return s;
}

Artifact artifact(const std::string& op, const std::string& entry, bool scratch,
                  const std::string& code) {
  Artifact a;
  a.variant.op = op;
  a.variant.kernel = op + ".cpu";
  a.variant.backend = "cpu";
  a.variant.target = "x86-64";
  a.variant.dtypes = {{"T", DType::kF32}};
  LaunchStep step;
  step.entry = "block";
  step.grid[0] = "M";
  step.bindings.resize(scratch ? 5 : 4);
  const std::pair<ParamType, const char*> parameters[] = {{ParamType::kPtr, "x"},
                                                          {ParamType::kPtr, "y"},
                                                          {ParamType::kI64, "N"},
                                                          {ParamType::kF32, "alpha"},
                                                          {ParamType::kPtr, "workspace"}};
  for (std::size_t i = 0; i < step.bindings.size(); ++i) {
    step.bindings[i].name = parameters[i].second;
    step.bindings[i].type = parameters[i].first;
    step.bindings[i].value = parameters[i].second;
  }
  a.launch.steps = {step};
  if (scratch) a.launch.workspace_bytes = "4 * M";
  a.launch.guards = {{"x.stride1 == 1 && x.stride0 == N && y.stride1 == 1 && y.stride0 == N",
                      "x and y must be contiguous"}};
  a.symbols = {{"block", entry}};
  a.code_digest = sha256(code);
  a.code_key = sha256("key of " + op);
  a.proof_key = sha256("proof");
  a.toolchain.name = "test";
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string code = bytes.str();
  PackContents contents;
  for (const bool scratch : {false, true}) {
    const std::string op = scratch ? "test.scratch" : "test.scale";
    OperatorSection section;
    section.signature = signature(op);
    section.formula = "y = alpha * x";
    section.artifacts = {artifact(op, scratch ? "block_scratch" : "block_scale", scratch, code)};
    contents.sections.push_back(std::move(section));
  }
  contents.codes.push_back({sha256(code), code});
  const Path folder = argv[2];
  const SigningKey key = SigningKey::generate(), stranger = SigningKey::generate();
  const auto written = [](const Status& status) {
    if (!status) std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return status.has_value();
  };
  const bool good = written(make_dirs(folder)) &&
                    written(write_file_atomic(folder / "key.pub", key.public_hex() + "\n")) &&
                    written(write_pack(folder / "unsigned.ofpack", contents, nullptr)) &&
                    written(write_pack(folder / "stranger.ofpack", contents, &stranger)) &&
                    written(write_pack(folder / "signed.ofpack", contents, &key));
  return good ? 0 : 1;
}
