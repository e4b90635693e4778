// What the shell's commands share: parsing of shapes and lists, tables, JSON output, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "contract/tier.hpp"
#include "operator/operator.hpp"
#include "target/target.hpp"

namespace opforge::cli {

// Exit codes of every command.
enum Exit : int {
  kOk = 0,
  kFailed = 1,       // the job ran and something in it failed (a kernel is wrong, an artifact did not build)
  kUsage = 2,        // wrong flags or arguments, unknown names
  kNotPossible = 3,  // unavailable here, contract unsatisfied, sealed, untrusted, corrupt, or a missing tool
};
int exit_code(const Error& error);

// Options that every command takes.
struct Common {
  std::vector<std::string> plugins;
  bool json = false;     // print JSON on standard output instead of text
  std::string json_file; // ... or write it to this file beside the text
  bool quiet = false;    // no progress lines
};
void add_common(CLI::App& command, Common& common);

// Give a command its body; an Error is printed as "error: ..." on standard error and mapped to an exit code.
void set_body(CLI::App& command, std::function<Result<int>()> body);
int last_exit();
// Print errors as {"status": ..., "message": ...} on one line of standard error.
bool& errors_as_json();

// "M=4096,N=1024" -> integers by symbol; several shapes are separated by ';' or by repeating the flag.
Result<ValueMap> parse_shape(std::string_view text);
// "eps=1e-5,zero_centered=true,approximate=tanh": typed by the operator's attributes.
Result<ValueMap> parse_attributes(const Signature& signature, std::string_view text);
// "f32,bf16" -> the operator's combinations whose first dtype variable has that type; "T=bf16,W=f32" -> that one.
Result<std::vector<DTypeCombo>> parse_dtypes(const Signature& signature, std::string_view text);
Result<std::vector<Tier>> parse_tiers(std::string_view text);  // "FAST,DETERMINISTIC"; empty: none

// Named operators, or all when `names` is empty.
Result<std::vector<const Operator*>> select_operators(const Catalogue& catalogue, const std::vector<std::string>& names);

// The first device of a kind by backend name or "cpu"/"cuda"/"cuda:1"; kUnavailable with the driver's reason.
Result<DeviceInfo> select_device(std::string_view name);
// The first device that code of this backend runs on: of its launcher, or of the language of its kernels ("triton" runs on
// "cuda"). kNotFound for an unknown backend.
Result<DeviceInfo> device_for_backend(std::string_view backend);

// A plain table: columns as wide as their content, numbers right-aligned by the caller.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void row(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// Print text, or JSON when asked for; also writes common.json_file.
Result<int> finish(const Common& common, const std::string& text, const nlohmann::json& json, int exit = kOk);

// One line that is rewritten on a terminal and printed at most twice a second; plain lines elsewhere every few seconds.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  void update(const std::string& line);

 private:
  bool quiet_, terminal_;
  std::int64_t last_ns_ = 0;
  bool open_ = false;
};

nlohmann::json to_json(const ValueMap& values);
std::string to_text(const ValueMap& values);  // "M=1,N=2"
std::string human_bytes(double bytes);
std::string human_us(double us);

}  // namespace opforge::cli
