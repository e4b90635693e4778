#include "ops/run_operator.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "forge/catalogue.hpp"
#include "forge/compile.hpp"
#include "runtime/seal.hpp"
#include "runtime/backends.hpp"
#include "verify/subject.hpp"

namespace opforge {
namespace {

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    auto loaded = load_catalogue();
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? std::move(*loaded) : Catalogue();
  }();
  return all;
}

// One store for the whole program: most variants serve several tests.
Store& store() {
  static Store one = [] {
    const Path root = std::filesystem::path(OPFORGE_BINARY_DIR) / "test-ops-store";
    std::filesystem::create_directories(root);
    std::filesystem::permissions(root, std::filesystem::perms::owner_all);
    return *Store::open(root);
  }();
  return one;
}

DType dtype_of(const TensorArg& arg, const DTypeCombo& dtypes) {
  const auto found = dtypes.find(arg.dtype);
  return found != dtypes.end() ? found->second : *parse_dtype(arg.dtype);
}

// Host bytes of a tensor and where its elements lie.
struct Placed {
  TensorView view;
  std::vector<std::byte> bytes;
  std::size_t first_byte = 0;

  std::byte* element(std::int64_t index) {
    std::int64_t at = 0;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      at += index % view.dims[axis] * view.strides[axis];
      index /= view.dims[axis];
    }
    return bytes.data() + first_byte + at * static_cast<std::int64_t>(itemsize(view.dtype));
  }
};

Placed place(const std::vector<std::int64_t>& dims, DType dtype, std::int64_t pad,
             std::int64_t offset) {
  Placed placed;
  placed.view.dtype = dtype;
  placed.view.rank = static_cast<int>(dims.size());
  std::int64_t stride = 1;
  for (int axis = placed.view.rank - 1; axis >= 0; --axis) {
    placed.view.dims[axis] = dims[axis];
    placed.view.strides[axis] = stride;
    stride *= std::max<std::int64_t>(dims[axis], 1);
    if (axis == placed.view.rank - 1 && placed.view.rank > 1) stride += pad;
  }
  placed.first_byte = static_cast<std::size_t>(offset) * itemsize(dtype);
  placed.bytes.resize((static_cast<std::size_t>(stride) + 64) * itemsize(dtype) + placed.first_byte,
                      std::byte{0x7f});
  return placed;
}

struct Arguments {
  std::vector<Placed> tensors;  // in signature order
  std::size_t output = 0;
};

Arguments place_all(const Signature& signature, const DTypeCombo& dtypes,
                    const std::map<std::string, TestTensor>& inputs,
                    const std::vector<std::int64_t>& output_dims) {
  Arguments arguments;
  const TestTensor& first = inputs.at(signature.tensors.front().name);
  for (const TensorArg& arg : signature.tensors) {
    const DType dtype = dtype_of(arg, dtypes);
    if (arg.access == Access::kWrite) {
      arguments.output = arguments.tensors.size();
      arguments.tensors.push_back(place(output_dims, dtype, first.pad, first.offset));
      continue;
    }
    const auto input = inputs.find(arg.name);
    if (input == inputs.end()) {
      arguments.tensors.push_back({TensorView::absent(), {}, 0});
      continue;
    }
    Placed placed = place(input->second.dims, dtype, input->second.pad, input->second.offset);
    for (std::size_t i = 0; i < input->second.values.size(); ++i) {
      store_from_double(placed.element(static_cast<std::int64_t>(i)), dtype,
                        input->second.values[i]);
    }
    arguments.tensors.push_back(std::move(placed));
  }
  return arguments;
}

// Runs one variant; false when its guards refuse.
bool run_variant(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                 Arguments arguments, const ValueMap& attributes, TestRun& run) {
  auto subject = LoadedSubject::load(op.signature, code, device, false);
  if (!subject) {
    ADD_FAILURE() << run.variant << ": " << subject.error().message;
    return false;
  }
  DeviceApi& api = subject->api();
  const int ordinal = device.device.ordinal;
  std::vector<TensorView> views;
  std::vector<void*> data, allocated;
  for (Placed& placed : arguments.tensors) {
    TensorView view = placed.view;
    view.device = device.device;
    if (view.present()) {
      auto memory = api.allocate(ordinal, placed.bytes.size(), nullptr);
      if (!memory) {
        ADD_FAILURE() << run.variant << ": " << memory.error().message;
        return false;
      }
      allocated.push_back(*memory);
      EXPECT_TRUE(api.copy(ordinal, *memory, placed.bytes.data(), placed.bytes.size()));
      view.data = static_cast<std::byte*>(*memory) + placed.first_byte;
    }
    views.push_back(view);
    data.push_back(view.data);
  }
  auto planned = subject->plan(views, attributes);
  bool served = false;
  if (!planned) {
    ADD_FAILURE() << run.variant << ": " << planned.error().message;
  } else if (planned->refused.empty()) {
    const Status status = subject->run(*planned->plan, data);
    EXPECT_TRUE(status) << run.variant << ": " << (status ? "" : status.error().message);
    Placed& output = arguments.tensors[arguments.output];
    std::byte* memory = static_cast<std::byte*>(data[arguments.output]) - output.first_byte;
    EXPECT_TRUE(api.copy(ordinal, output.bytes.data(), memory, output.bytes.size()));
    for (std::int64_t i = 0; i < output.view.element_count(); ++i) {
      run.output.push_back(load_as_double(output.element(i), output.view.dtype));
    }
    served = true;
  }
  for (void* memory : allocated) api.release(ordinal, memory, nullptr);
  return served;
}

}  // namespace

std::vector<TestRun> run_operator(const std::string& name, const DTypeCombo& dtypes,
                                  const std::map<std::string, TestTensor>& inputs,
                                  const std::vector<std::int64_t>& output_dims,
                                  const ValueMap& attributes) {
  std::vector<TestRun> runs;
  const auto op = catalogue().get(name);
  if (!op) {
    ADD_FAILURE() << op.error().message;
    return runs;
  }
  const Arguments arguments = place_all((*op)->signature, dtypes, inputs, output_dims);
  std::vector<TensorView> views;
  for (const Placed& placed : arguments.tensors) {
    views.push_back(placed.view);
    if (placed.view.present())
      views.back().data = reinterpret_cast<void*>(std::uintptr_t{4096} * (views.size() << 20));
  }
  const auto call = bind_call((*op)->signature, views, attributes);
  if (!call) {
    ADD_FAILURE() << name << ": " << call.error().message;
    return runs;
  }
  std::set<std::string> able, served;
  for (const DeviceInfo& device : all_devices()) {
    for (const KernelDecl& kernel : (*op)->kernels) {
      for (const Target& target : native_targets(device)) {
        if (!compiles_for(**op, kernel, dtypes, target)) continue;
        const auto variants =
            default_variants(**op, kernel, {call->dims, attributes, dtypes}, target);
        if (!variants) {
          ADD_FAILURE() << variants.error().message;
          continue;
        }
        able.insert(kernel.backend);
        for (const Variant& variant : *variants) {
          develop();  // a test asks for compiling by name
          const auto code = obtain(**op, kernel, variant, store(), nullptr);
          if (!code) {
            ADD_FAILURE() << to_string(variant) << ": " << code.error().message;
            continue;
          }
          TestRun run{to_string(variant), {}};
          if (!run_variant(**op, *code, device, arguments, attributes, run)) continue;
          served.insert(kernel.backend);
          runs.push_back(std::move(run));
        }
        break;  // the best target of this device
      }
    }
  }
  EXPECT_EQ(able, served) << name << ": a backend takes no such call";
  EXPECT_FALSE(runs.empty()) << name << " runs nowhere here";
  return runs;
}

}  // namespace opforge
