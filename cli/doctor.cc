// opforge doctor: what this machine can do, what is missing and how to get it.
#include <fmt/format.h>

#include "artifact/keys.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "runtime/backends.hpp"
#include "toolchain/install.hpp"
#include "toolchain/source.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge::cli {
namespace {

std::string folder_state(const Path& folder) {
  if (folder.empty()) return "none: no HOME and no variable set";
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return folder.string() + " (made on first use)";
  if (!std::filesystem::is_directory(folder, error)) return folder.string() + " (NOT A FOLDER)";
  const bool writable = access(folder.c_str(), W_OK) == 0;
  return folder.string() + (writable ? "" : " (read-only)");
}

Result<int> run_doctor(const Common& common) {
  std::string text;
  nlohmann::json json;
  Table devices({"device", "model", "arch", "driver", "units", "memory"});
  for (const DeviceInfo& device : all_devices()) {
    devices.row({device_name(device.device), device.model, std::to_string(device.arch),
                 device.driver_version == 0 ? "-" : fmt::format("{}.{}", device.driver_version / 1000, device.driver_version % 1000 / 10),
                 std::to_string(device.sm_count), device.memory_bytes == 0 ? "-" : human_bytes(double(device.memory_bytes))});
    json["devices"].push_back({{"device", device_name(device.device)},
                               {"model", device.model},
                               {"arch", device.arch},
                               {"driver_version", device.driver_version},
                               {"units", device.sm_count},
                               {"shared_bytes", device.shared_bytes},
                               {"l2_bytes", device.l2_bytes},
                               {"memory_bytes", device.memory_bytes}});
  }
  text += devices.text() + "\nlaunch (what runs packs)\n";
  for (Launcher* launcher : all_launchers()) {
    const Support support = launcher->device_api().available();
    text += fmt::format("  {:<10} {}\n", launcher->name(), support ? "yes" : "no: " + support.reason());
    const std::vector<std::string> details = launcher->details();
    for (const std::string& line : details) text += fmt::format("  {:<10}   {}\n", "", line);
    json["launchers"].push_back({{"name", launcher->name()},
                                 {"available", bool(support)},
                                 {"reason", support.reason()},
                                 {"details", details}});
  }
  text += "\ncompile (what builds packs)\n";
  for (Toolchain* toolchain : all_toolchains()) {
    const Support support = toolchain->available();
    std::string line = support ? "yes" : "no: " + support.reason();
    nlohmann::json one = {{"backend", toolchain->backend()}, {"available", bool(support)}, {"reason", support.reason()}};
    if (support) {
      if (auto stamp = toolchain->stamp()) {
        line += fmt::format(": {} {} ({})", stamp->name, stamp->version, stamp->digest.short_hex());
        one["toolchain"] = {{"name", stamp->name}, {"version", stamp->version}, {"digest", stamp->digest.hex()}};
      } else {
        line = "no: " + stamp.error().message;
      }
    }
    text += fmt::format("  {:<10} {}\n", toolchain->backend(), line);
    json["toolchains"].push_back(one);
  }
  const Folders folders = user_folders();
  text += fmt::format("\nfolders\n  artifacts  {}\n  tuning     {}\n  keys       {}\n  sources    {}\n",
                      folder_state(folders.cache), folder_state(folders.state), folder_state(folders.config),
                      source_root().string());
  json["folders"] = {{"cache", folders.cache.string()},
                     {"state", folders.state.string()},
                     {"config", folders.config.string()},
                     {"sources", source_root().string()}};
  auto trust = process_trust(folders.config);
  if (trust) {
    text += fmt::format("\ntrusted keys: {}{}\n", trust->keys.size(),
                        trust->keys.empty() ? " (the first build makes your own; add others with `opforge trust add KEY`)" : "");
    for (const std::string& key : trust->keys) text += "  " + key + "\n";
    json["trusted_keys"] = trust->keys;
  } else {
    text += "\ntrusted keys: " + trust.error().message + "\n";
  }
  return finish(common, text, json);
}

// One after the other: each has a pip of its own at work.
Result<int> run_install(const Common& common, const std::vector<std::string>& names, bool again) {
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  int failures = 0;
  for (const std::string& name : names) {
    InstallOptions options;
    options.again = again;
    options.cancelled = interrupted;
    options.progress = [&](std::string_view line) { fmt::print(stderr, "{}: {}\n", name, line); };
    bool made = false;
    const auto folder = install_environment(name, options, &made);
    if (!folder && folder.error().code == Code::kCancelled) return fail(folder.error());
    failures += folder ? 0 : 1;
    text += folder ? fmt::format("{:<12} {} {}\n", name, made ? "installed in" : "is in", folder->string())
                   : fmt::format("{:<12} failed: {}\n", name, folder.error().message);
    json.push_back({{"name", name},
                    {"installed", bool(folder)},
                    {"made", made},
                    {"folder", folder ? folder->string() : ""},
                    {"reason", folder ? "" : folder.error().message}});
  }
  OPFORGE_TRY(finish(common, text, {{"install", json}}));
  return failures == 0 ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto common = std::make_shared<Common>();
  auto names = std::make_shared<std::vector<std::string>>();
  auto again = std::make_shared<bool>(false);
  CLI::App* doctor = app.add_subcommand(
      "doctor", "What this machine can do, what is missing, how to get it, and where drivers were looked for");
  add_common(*doctor, *common);
  doctor->add_option("--install", *names,
                     "Make the pinned environments of these toolchains (an unknown name lists them), as triton,cuda")
      ->delimiter(',');
  doctor->add_flag("--again", *again, "with --install: make them anew where they exist already");
  set_body(*doctor, [=] { return names->empty() ? run_doctor(*common) : run_install(*common, *names, *again); });
}

}  // namespace opforge::cli
