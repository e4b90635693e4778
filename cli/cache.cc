// opforge cache list | clear: the store of compiled artifacts; opforge records list | clear: what tuning measured.
#include <fmt/format.h>

#include "artifact/store.hpp"
#include "base/files.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"

namespace opforge::cli {
namespace {

std::string age_text(std::int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

Result<int> list(const Common& common) {
  OPFORGE_ASSIGN(Store store, Store::open(user_folders().cache));
  OPFORGE_ASSIGN(auto entries, store.list());
  Table table({"target", "operator", "code key", "size", "age", "variant"});
  nlohmann::json json = nlohmann::json::array();
  double bytes = 0;
  for (const StoreEntry& entry : entries) {
    bytes += double(entry.size_bytes);
    table.row({entry.target, entry.op, entry.code_key.short_hex(), human_bytes(double(entry.size_bytes)), age_text(entry.age_s),
               entry.variant.empty() ? "(damaged: a miss when asked for)" : entry.variant});
    json.push_back({{"target", entry.target}, {"op", entry.op}, {"code_key", entry.code_key.hex()}, {"size_bytes", entry.size_bytes},
                    {"age_s", entry.age_s}, {"variant", entry.variant}});
  }
  std::string text = entries.empty() ? std::string() : table.text() + "\n";
  text += fmt::format("{} artifacts, {} in {}\n", entries.size(), human_bytes(bytes),
                      store.root().empty() ? "no folder (no HOME and no OPFORGE_CACHE_DIR)" : store.root().string());
  return finish(common, text, {{"root", store.root().string()}, {"entries", json}});
}

Result<int> clear(const Common& common, const std::string& target) {
  OPFORGE_ASSIGN(Store store, Store::open(user_folders().cache));
  OPFORGE_ASSIGN(std::size_t removed, store.clear(target));
  return finish(common, fmt::format("removed {} artifacts{} from {}\n", removed, target.empty() ? "" : " of " + target, store.root().string()),
                {{"removed", removed}});
}

}  // namespace

void add_cache(CLI::App& app) {
  CLI::App* cache = app.add_subcommand("cache", "The store of compiled artifacts: list, clear");
  cache->require_subcommand(1);
  auto list_common = std::make_shared<Common>();
  CLI::App* list_command = cache->add_subcommand("list", "Every artifact: target, operator, code key, size, age, variant");
  add_common(*list_command, *list_common);
  set_body(*list_command, [list_common] { return list(*list_common); });
  auto clear_common = std::make_shared<Common>();
  auto target = std::make_shared<std::string>();
  CLI::App* clear_command = cache->add_subcommand("clear", "Remove artifacts");
  clear_command->add_option("--target", *target, "Only of this target, e.g. sm_90a; default: all");
  add_common(*clear_command, *clear_common);
  set_body(*clear_command, [clear_common, target] { return clear(*clear_common, *target); });
}

}  // namespace opforge::cli
