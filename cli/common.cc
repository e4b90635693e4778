#include "cli/common.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/files.hpp"
#include "base/text.hpp"
#include "operator/languages.hpp"
#include "runtime/backends.hpp"

namespace opforge::cli {
namespace {

int g_exit = kOk;

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

Result<std::pair<std::string, std::string>> key_value(std::string_view item, std::string_view what) {
  const auto at = item.find('=');
  if (at == std::string_view::npos || at == 0 || at + 1 == item.size()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: expected NAME=VALUE, got '{}'", what, item));
  }
  return std::pair{std::string(trim(item.substr(0, at))), std::string(trim(item.substr(at + 1)))};
}

template <class T>
Result<T> number(std::string_view text, std::string_view what) {
  try {
    std::size_t used = 0;
    const std::string copy(text);
    T value;
    if constexpr (std::is_floating_point_v<T>) {
      value = std::stod(copy, &used);
    } else {
      value = std::stoll(copy, &used, 0);
    }
    if (used == copy.size()) return value;
  } catch (const std::exception&) {
  }
  return fail(Code::kInvalidArgument, fmt::format("{}: expected a number, got '{}'", what, text));
}

Result<Value> typed_value(const AttrArg& attribute, const std::string& text) {
  const std::string what = "attribute " + attribute.name;
  switch (attribute.type) {
    case AttrType::kText: return Value(text);
    case AttrType::kFloat: {
      OPFORGE_ASSIGN(double value, number<double>(text, what));
      return Value(value);
    }
    case AttrType::kBool:
      if (text == "true" || text == "1") return Value(std::int64_t{1});
      if (text == "false" || text == "0") return Value(std::int64_t{0});
      return fail(Code::kInvalidArgument, what + ": expected true or false, got '" + text + "'");
    case AttrType::kInt: break;
  }
  OPFORGE_ASSIGN(long long value, number<long long>(text, what));
  return Value(std::int64_t{value});
}

}  // namespace

int exit_code(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kInvalidDeclaration:
    case Code::kNotFound: return kUsage;
    case Code::kIo:
    case Code::kCancelled:
    case Code::kTimeout:
    case Code::kInternal: return kFailed;
    default: return kNotPossible;
  }
}

void add_common(CLI::App& command, Common& common) {
  command.add_option("--plugin", common.plugins, "A shared object with operators; may be repeated");
  command.add_flag("--quiet", common.quiet, "No progress lines");
  command.add_option("--json", common.json_file,
                     "Print JSON instead of text; with a file name, write it there beside the text")
      ->expected(0, 1)
      ->default_str("-");
}

void set_body(CLI::App& command, std::function<Result<int>()> body) {
  command.callback([body = std::move(body)] {
    auto result = body();
    if (result) {
      g_exit = *result;
      return;
    }
    const Error& error = result.error();
    if (errors_as_json()) {
      const nlohmann::json json = {{"status", code_name(error.code)}, {"message", error.message}};
      fmt::print(stderr, "{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print(stderr, "error: {}\n", error.message);
    }
    g_exit = exit_code(result.error());
  });
}

int last_exit() { return g_exit; }

bool& errors_as_json() {
  static bool flag = false;
  return flag;
}

Result<ValueMap> parse_shape(std::string_view text) {
  ValueMap dims;
  for (const std::string& item : split(text, ',')) {
    OPFORGE_ASSIGN(auto pair, key_value(item, "--shape"));
    OPFORGE_ASSIGN(long long extent, number<long long>(pair.second, "--shape " + pair.first));
    if (extent < 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("--shape {}: expected an extent of 0 or more, got {}", pair.first, extent));
    }
    if (!dims.emplace(pair.first, std::int64_t{extent}).second) {
      return fail(Code::kInvalidArgument, fmt::format("--shape: {} is given twice", pair.first));
    }
  }
  return dims;
}

Result<ValueMap> parse_attributes(const Signature& signature, std::string_view text) {
  ValueMap values;
  for (const std::string& item : split(text, ',')) {
    OPFORGE_ASSIGN(auto pair, key_value(item, "--attr"));
    const AttrArg* attribute = find_attribute(signature, pair.first);
    if (attribute == nullptr) {
      std::vector<std::string> known;
      for (const AttrArg& each : signature.attributes) known.push_back(each.name);
      return fail(Code::kInvalidArgument, fmt::format("{} has no attribute '{}'; it has: {}", signature.name,
                                                      pair.first, known.empty() ? "none" : join(known, ", ")));
    }
    OPFORGE_ASSIGN(Value value, typed_value(*attribute, pair.second));
    values[pair.first] = value;
  }
  return values;
}

Result<std::vector<DTypeCombo>> parse_dtypes(const Signature& signature, std::string_view text) {
  if (text.empty()) return signature.dtypes;
  std::vector<DTypeCombo> chosen;
  std::vector<std::string> known;
  for (const DTypeCombo& combo : signature.dtypes) known.push_back(to_string(combo));
  auto take = [&](const std::function<bool(const DTypeCombo&)>& matches, std::string_view item) -> Status {
    const std::size_t before = chosen.size();
    for (const DTypeCombo& combo : signature.dtypes) {
      if (matches(combo) && std::find(chosen.begin(), chosen.end(), combo) == chosen.end()) chosen.push_back(combo);
    }
    if (chosen.size() > before) return {};
    return fail(Code::kInvalidArgument, fmt::format("--dtype {}: {} has no such combination; it has: {}", item,
                                                    signature.name, join(known, "; ")));
  };
  if (text.find('=') != std::string_view::npos) {
    DTypeCombo wanted;
    for (const std::string& item : split(text, ',')) {
      OPFORGE_ASSIGN(auto pair, key_value(item, "--dtype"));
      OPFORGE_ASSIGN(DType dtype, parse_dtype(pair.second));
      wanted[pair.first] = dtype;
    }
    OPFORGE_TRY(take(
        [&](const DTypeCombo& combo) {
          return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
            const auto found = combo.find(entry.first);
            return found != combo.end() && found->second == entry.second;
          });
        },
        text));
    return chosen;
  }
  for (const std::string& item : split(text, ',')) {
    OPFORGE_ASSIGN(DType dtype, parse_dtype(item));
    const std::string variable = signature.tensors.empty() ? "T" : signature.tensors.front().dtype;
    OPFORGE_TRY(take(
        [&](const DTypeCombo& combo) {
          const auto found = combo.find(variable);
          return found != combo.end() && found->second == dtype;
        },
        item));
  }
  return chosen;
}

Result<std::vector<Tier>> parse_tiers(std::string_view text) {
  std::vector<Tier> tiers;
  for (const std::string& item : split(text, ',')) {
    OPFORGE_ASSIGN(Tier tier, parse_tier(item));
    tiers.push_back(tier);
  }
  return tiers;
}

Result<std::vector<const Operator*>> select_operators(const Catalogue& catalogue,
                                                      const std::vector<std::string>& names) {
  if (names.empty()) return catalogue.all();
  std::vector<const Operator*> chosen;
  for (const std::string& name : names) {
    OPFORGE_ASSIGN(const Operator* op, catalogue.get(name));
    chosen.push_back(op);
  }
  return chosen;
}

Result<DeviceInfo> select_device(std::string_view name) {
  const auto colon = name.find(':');
  const std::string kind(name.substr(0, colon));
  long long ordinal = 0;
  if (colon != std::string_view::npos) {
    OPFORGE_ASSIGN(ordinal, number<long long>(name.substr(colon + 1), "device ordinal"));
  }
  std::vector<std::string> here;
  for (const DeviceInfo& device : all_devices()) {
    here.push_back(device_name(device.device));
    if (device_kind_name(device.device.kind) == kind && device.device.ordinal == ordinal) return device;
  }
  std::string reason;
  for (Launcher* launcher : all_launchers()) {
    if (device_kind_name(launcher->device_kind()) != kind) continue;
    if (Support support = launcher->device_api().available(); !support) reason = ": " + support.reason();
  }
  return fail(Code::kUnavailable,
              fmt::format("no device {} here{}; this machine has: {}", name, reason, join(here, ", ")));
}

Result<DeviceInfo> device_for_backend(std::string_view backend) {
  std::vector<std::string> known;
  for (Launcher* launcher : all_launchers()) {
    if (launcher->name() == backend) return select_device(device_kind_name(launcher->device_kind()));
    known.emplace_back(launcher->name());
  }
  for (const LanguageRow& row : all_languages()) {
    if (row.backend == backend) return select_device(device_kind_name(row.device));
    known.emplace_back(row.backend);
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return fail(Code::kNotFound, fmt::format("unknown backend '{}'; there are {}", backend, join(known, ", ")));
}

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text() const {
  // Display width: UTF-8 continuation bytes take no column.
  const auto width_of = [](const std::string& cell) {
    return static_cast<std::size_t>(
        std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<std::size_t> widths;
  const auto widen = [&](const std::vector<std::string>& cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  };
  widen(header_);
  for (const auto& cells : rows_) widen(cells);
  std::string out;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += cells[i];
      if (i + 1 < cells.size()) line += std::string(widths[i] - width_of(cells[i]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  };
  print(header_);
  for (const auto& cells : rows_) print(cells);
  return out;
}

Result<int> finish(const Common& common, const std::string& text, const nlohmann::json& json, int exit) {
  if (common.json_file == "-") {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return exit;
  }
  fmt::print("{}", text);
  if (!common.json_file.empty()) {
    OPFORGE_TRY(write_file_atomic(common.json_file,
                                  json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  }
  return exit;
}

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (open_) fmt::print(stderr, "\n");
}

void Progress::update(const std::string& line) {
  if (quiet_) return;
  const std::int64_t now = now_ns();
  const std::int64_t pause = terminal_ ? 500'000'000 : 5'000'000'000;
  if (last_ns_ != 0 && now - last_ns_ < pause) return;
  last_ns_ = now;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", line);
    open_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

nlohmann::json to_json(const ValueMap& values) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : values) {
    std::visit([&](const auto& held) { out[name] = held; }, value);
  }
  return out;
}

std::string to_text(const ValueMap& values) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values) parts.push_back(name + "=" + to_string(value));
  return join(parts, ",");
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} {}", bytes, units[unit]) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string human_us(double us) {
  if (us <= 0) return "-";
  if (us < 1000) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

}  // namespace opforge::cli
