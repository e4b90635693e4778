// opforge trace show: read a trace file (JSON lines) and show what was called and what served it.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "runtime/trace.hpp"

namespace opforge::cli {
namespace {

std::string shapes(const TraceRecord& record) {
  std::vector<std::string> parts;
  for (const TraceTensor& tensor : record.tensors) {
    std::vector<std::string> dims;
    for (std::int64_t dim : tensor.dims) dims.push_back(std::to_string(dim));
    parts.push_back(fmt::format("{}:{}[{}]", tensor.name, tensor.dtype, join(dims, ",")));
  }
  return join(parts, " ");
}

Result<int> show(const Common& common, const std::string& file) {
  OPFORGE_ASSIGN(std::string text, read_file(file));
  std::vector<TraceRecord> records;
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    auto record = trace_from_json(line);
    if (!record) {
      return fail(Code::kCorrupt, fmt::format("{}:{}: not a trace record: {}", file, number, record.error().message));
    }
    records.push_back(std::move(*record));
  }
  Table table({"operator", "outcome", "kernel", "tier", "grade", "host", "tensors"});
  nlohmann::json json = nlohmann::json::array();
  std::map<std::string, std::pair<std::size_t, double>> totals;
  std::vector<std::string> failures;
  for (const TraceRecord& record : records) {
    table.row({record.op, record.outcome, record.kernel.empty() ? "-" : record.kernel,
               record.tier.empty() ? "-" : record.tier, record.grade.empty() ? "-" : record.grade,
               human_us(record.host_us), shapes(record)});
    json.push_back(nlohmann::json::parse(trace_to_json(record)));
    auto& total = totals[record.op];
    ++total.first;
    total.second += record.host_us;
    if (record.outcome != "ok") failures.push_back(record.op + ": " + record.message);
  }
  std::string out = table.text() + "\n";
  for (const auto& [op, total] : totals) {
    out += fmt::format("{}: {} calls, {} on the host\n", op, total.first, human_us(total.second));
  }
  for (const std::string& failure : failures) out += "not served: " + failure + "\n";
  return finish(common, out, json);
}

}  // namespace

void add_trace(CLI::App& app) {
  CLI::App* trace = app.add_subcommand("trace", "Work with trace files written by `opforge run --trace`");
  trace->require_subcommand(1);
  auto common = std::make_shared<Common>();
  auto file = std::make_shared<std::string>();
  CLI::App* show_command = trace->add_subcommand("show", "Every call of a trace: operator, outcome, kernel, tier, grade, time, tensors");
  show_command->add_option("file", *file, "A file of JSON lines")->required();
  add_common(*show_command, *common);
  set_body(*show_command, [common, file] { return show(*common, *file); });
}

}  // namespace opforge::cli
