// How mutants are enumerated and planted. Included by mutants_test.cc only.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "verify/mutants.hpp"

namespace opforge::conformance {

inline std::string Mutant::name() const {
  std::string out = op + "_" + kernel.substr(kernel.find('.') + 1) + "_" + fault;
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return out;
}

inline bool reads_or_writes(const Operator& op, const std::string& tensor, bool writes) {
  const TensorArg* arg = find_tensor(op.signature, tensor);
  return arg != nullptr && (arg->access != Access::kRead) == writes;
}

// The first pointer parameter that is a tensor which is written (or read).
inline std::string pointer_of(const Operator& op, const LaunchStep& step, bool written) {
  for (const Binding& binding : step.bindings) {
    if (binding.type == ParamType::kPtr && reads_or_writes(op, binding.value, written))
      return binding.name;
  }
  return {};
}

// Faults that are made by binding, sizing or laying out a launch wrongly.
inline void add_launch_mutants(const Operator& op, const KernelDecl& kernel, const LaunchStep& step,
                               std::vector<Mutant>& out) {
  const auto add = [&](std::string fault, std::string slot, std::string value) {
    Mutant mutant{op.signature.name, kernel.id, kernel.backend, std::move(fault)};
    mutant.slot = std::move(slot);
    mutant.value = std::move(value);
    out.push_back(std::move(mutant));
  };
  for (const Binding& binding : step.bindings) {
    const std::string& value = binding.value;
    const TensorArg* tensor = find_tensor(op.signature, value.substr(0, value.find('.')));
    if (binding.type == ParamType::kPtr) {
      if (tensor == nullptr) continue;
      add(binding.name + (tensor->access == Access::kRead ? "_read_one_off" : "_written_one_off"),
          binding.name, fmt::format("{0} + {0}.itemsize", value));
      if (tensor->optional) add(binding.name + "_ignored", binding.name, "null");
    } else if (tensor != nullptr && value.ends_with(".stride0")) {
      const bool rows = tensor->dims.size() > 1;
      add(binding.name + "_taken_for_dense", binding.name,
          rows ? fmt::format("{0}.dim1 * {0}.stride1", tensor->name) : "1");
    } else if (tensor != nullptr && value.ends_with(".stride1")) {
      add(binding.name + "_taken_for_1", binding.name, "1");
    } else if (const AttrArg* attribute = find_attribute(op.signature, value);
               attribute != nullptr && attribute->default_value) {
      add(binding.name + "_ignored", binding.name, to_string(*attribute->default_value));
    } else if (find_tensor(op.signature, value) == nullptr && !plain_symbol(value).empty()) {
      // A size: the last element or row is dropped, or one too many is taken.
      add(binding.name + "_dropped_tail", binding.name, fmt::format("max({} - 1, 0)", value));
      add(binding.name + "_past_the_end", binding.name, fmt::format("{} + 1", value));
    }
  }
  add("last_items_dropped", "grid", fmt::format("max(({}) - 1, 1)", step.grid[0]));
}

// Faults of a wrapper round the entry. `first` is a condition that holds in one chunk or block.
inline void add_wrapper_mutants(const Operator& op, const KernelDecl& kernel,
                                const LaunchStep& step, std::vector<Mutant>& out) {
  const std::string x = pointer_of(op, step, false), y = pointer_of(op, step, true);
  const bool chunks = kernel.backend == "cpu", threads = kernel.backend == "cuda";
  if ((!chunks && !threads) || x.empty() || y.empty()) return;
  const std::string first =
      chunks ? "begin == 0 && end > 0" : "blockIdx.x == 0 && threadIdx.x == 0";
  const std::string x0 = fmt::format("((volatile unsigned char*)const_cast<void*>({}))", x);
  const std::string y0 = fmt::format("((volatile unsigned char*)const_cast<void*>({}))", y);
  const std::string wait = chunks ? "" : "__syncthreads(); ";
  const auto add = [&](std::string fault, std::string before, std::string after) {
    Mutant mutant{op.signature.name, kernel.id, kernel.backend, std::move(fault)};
    mutant.before = std::move(before);
    mutant.after = std::move(after);
    out.push_back(std::move(mutant));
  };
  add("input_overwritten", "", wait + fmt::format("if ({}) {}[0] ^= 1;", first, x0));
  add("written_before_the_start", "", wait + fmt::format("if ({}) {}[-1] ^= 1;", first, y0));
  add("stale_output",
      chunks ? "if (begin == 0 && end > 0) ++begin;" : "if (blockIdx.x == 0) return;", "");
  add("differs_from_run_to_run", "",
      wait + fmt::format("if ({}) {}[0] ^= static_cast<unsigned char>(++mutant_runs & 1);", first,
                         y0));
  add("differs_by_alignment", "",
      wait +
          fmt::format("if (({}) && ((unsigned long long){} & 15) != 0) {}[0] ^= 1;", first, y, y0));
  add("differs_by_number_of_rows", "",
      wait + (chunks ? fmt::format("if (begin == 0 && end > 1) {}[0] ^= 1;", y0)
                     : fmt::format("if (({}) && gridDim.x > 1) {}[0] ^= 1;", first, y0)));
}

inline std::string file_text(const Path& path) {
  auto text = read_file(path);
  return text ? *text : std::string();
}

inline void add_text_mutants(const Operator& op, std::vector<Mutant>& out) {
  const std::string text = file_text(Path(op.folder) / "mutants.json");
  if (text.empty()) return;
  for (const auto& row : nlohmann::json::parse(text)) {
    for (const KernelDecl& kernel : op.kernels) {
      const std::string file = row.at("file");
      const bool source =
          std::find(kernel.sources.begin(), kernel.sources.end(), file) != kernel.sources.end();
      if (!source && row.value("backend", "") != kernel.backend) continue;
      if (row.contains("kernel") && row.at("kernel") != kernel.id) continue;
      Mutant mutant{op.signature.name, kernel.id, kernel.backend, row.at("fault"),
                    row.value("dtypes", "")};
      mutant.file = file;
      mutant.find = row.at("find");
      mutant.replace = row.at("replace");
      out.push_back(std::move(mutant));
    }
  }
}

inline std::vector<Mutant> all_mutants() {
  std::vector<Mutant> out;
  for (const Operator* op : catalogue().all()) {
    for (const KernelDecl& kernel : op->kernels) {
      if (kernel.launch.steps.empty() || kernel.launch.steps.front().kind != StepKind::kKernel)
        continue;
      add_launch_mutants(*op, kernel, kernel.launch.steps.front(), out);
      add_wrapper_mutants(*op, kernel, kernel.launch.steps.front(), out);
    }
    add_text_mutants(*op, out);
  }
  return out;
}

inline std::string parameter_type(ParamType type) {
  switch (type) {
    case ParamType::kPtr:
      return "const void*";
    case ParamType::kI8:
      return "signed char";
    case ParamType::kI32:
      return "int";
    case ParamType::kI64:
      return "long long";
    case ParamType::kU32:
      return "unsigned int";
    case ParamType::kU64:
      return "unsigned long long";
    case ParamType::kF32:
      return "float";
    default:
      return "double";
  }
}

inline std::string wrapper_text(const Operator& op, const KernelDecl& kernel,
                                const LaunchStep& step, const Mutant& mutant) {
  const bool chunks = kernel.backend == "cpu";
  std::string parameters, arguments;
  for (const Binding& binding : step.bindings) {
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ",
                              parameter_type(binding.type), binding.name);
    const bool written =
        binding.type == ParamType::kPtr &&
        (reads_or_writes(op, binding.value, true) || binding.value.starts_with("workspace"));
    arguments += (arguments.empty() ? "" : ", ") +
                 (written ? "const_cast<void*>(" + binding.name + ")" : binding.name);
  }
  if (chunks) parameters += ", long long begin, long long end", arguments += ", begin, end";
  return fmt::format(
      "#include \"{}\"\nnamespace opforge {{}}\nusing namespace opforge;\n{} unsigned mutant_runs "
      "= 0;\ntemplate <class V>\n{} void "
      "{}_mutant({}) {{\n  {}\n  {}<V>({});\n  {}\n}}\n",
      kernel.sources.front(), chunks ? "static" : "__device__", chunks ? "static" : "__device__",
      step.entry, parameters, mutant.before, step.entry, arguments, mutant.after);
}

inline Status write_text(const Path& path, const std::string& text) {
  return write_file_atomic(path, text);
}

// How much of `text` from `at` on is `find`, whatever the white space (formatting must not disarm a
// mutant); 0: it is not.
inline std::size_t match_length(const std::string& text, std::size_t at, const std::string& find) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  if (blank(text[at])) return 0;
  std::size_t i = at;
  for (const char c : find) {
    if (blank(c)) continue;
    while (i < text.size() && blank(text[i])) ++i;
    if (i == text.size() || text[i] != c) return 0;
    ++i;
  }
  return i - at;
}

inline Status plant_text(const Mutant& mutant, const Path& folder) {
  Path from = folder / mutant.file;
  if (!std::filesystem::exists(from))
    from = Path(OPFORGE_SOURCE_DIR) / "backends" / mutant.backend / "include" / mutant.file;
  std::string text = file_text(from);
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t length = match_length(text, at, mutant.find);
    if (length == 0) continue;
    text.replace(at, length, mutant.replace);
    at += mutant.replace.size();
    ++count;
  }
  if (count == 0) {
    return fail(Code::kNotFound,
                fmt::format("{} has no text '{}' any more: bring the mutant {} up to date",
                            mutant.file, mutant.find, mutant.name()));
  }
  return write_text(folder / mutant.file, text);
}

inline Result<Operator> plant(const Mutant& mutant, const Path& folder) {
  Operator op = *catalogue().find(mutant.op);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(op.folder, error)) {
    if (entry.is_regular_file())
      std::filesystem::copy_file(entry.path(), folder / entry.path().filename(), error);
  }
  op.folder = folder.string();
  std::erase_if(op.kernels, [&](const KernelDecl& kernel) { return kernel.id != mutant.kernel; });
  KernelDecl& kernel = op.kernels.front();
  LaunchStep& step = kernel.launch.steps.front();
  if (!mutant.file.empty()) OPFORGE_TRY(plant_text(mutant, folder));
  if (!mutant.before.empty() || !mutant.after.empty()) {
    const Path source = Path("mutant_" + kernel.sources.front());
    OPFORGE_TRY(write_text(folder / source, wrapper_text(op, kernel, step, mutant)));
    kernel.sources.insert(kernel.sources.begin(), source.string());
    step.entry += "_mutant";
  }
  if (mutant.slot == "grid") step.grid[0] = mutant.value;
  for (Binding& binding : step.bindings) {
    if (binding.name == mutant.slot) binding.value = mutant.value;
  }
  return op;
}

}  // namespace opforge::conformance
