// Merging and comparing packs.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "forge/packs.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "forge/packs";

// What a table entry answers.
auto question(const TableEntry& e) {
  return std::tuple(e.target, e.device_model, to_string(e.dtypes), e.dims, e.attributes, e.layout,
                    e.contract);
}

Status merge_artifacts(OperatorSection& into, OperatorSection from, MergeConflict conflict,
                       const Path& path, MergeResult& result) {
  std::map<std::string, const Artifact*> known;
  for (const auto& a : into.artifacts) known[to_string(a.variant)] = &a;
  std::vector<Artifact> added;
  for (auto& a : from.artifacts) {
    const auto at = known.find(to_string(a.variant));
    if (at == known.end()) {
      added.push_back(std::move(a));
    } else if (same_artifact(*at->second, a)) {
      ++result.same;
    } else if (conflict == MergeConflict::kFail) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{} of '{}' is another artifact than in the packs before (code keys "
                              "{} and {}): build them "
                              "from the same sources, or take the first one by name",
                              at->first, path.string(), a.code_key.short_hex(),
                              at->second->code_key.short_hex()),
                  kWhere);
    } else {
      ++result.left_out;
    }
  }
  std::move(added.begin(), added.end(), std::back_inserter(into.artifacts));
  return {};
}

void merge_table(OperatorSection& into, const OperatorSection& from) {
  std::map<decltype(question(into.table.front())), std::size_t> known;
  for (std::size_t i = 0; i < into.table.size(); ++i) known.emplace(question(into.table[i]), i);
  for (const auto& entry : from.table) {
    const auto [at, is_new] = known.emplace(question(entry), into.table.size());
    if (is_new)
      into.table.push_back(entry);
    else if (std::tie(entry.median_us, entry.code_key) <
             std::tie(into.table[at->second].median_us, into.table[at->second].code_key))
      into.table[at->second] = entry;
  }
}

// What speaks of artifacts that were left out goes too.
void drop_dangling(OperatorSection& section) {
  std::set<Digest> keys;
  std::set<std::pair<Digest, Digest>> proofs;
  for (const auto& a : section.artifacts) {
    keys.insert(a.code_key);
    proofs.emplace(a.code_digest, a.proof_key);
  }
  std::erase_if(section.attestations, [&](const Attestation& a) {
    return !proofs.contains({a.code_digest, a.proof_key});
  });
  std::erase_if(section.table, [&](const TableEntry& e) { return !keys.contains(e.code_key); });
}

void diff_artifacts(const OperatorSection& a, const OperatorSection& b,
                    std::vector<std::string>& lines) {
  std::map<std::string, std::pair<const Artifact*, const Artifact*>> both;
  for (const auto& artifact : a.artifacts) both[to_string(artifact.variant)].first = &artifact;
  for (const auto& artifact : b.artifacts) both[to_string(artifact.variant)].second = &artifact;
  for (const auto& [variant, pair] : both) {
    const auto* x = pair.first;
    const auto* y = pair.second;
    if (y == nullptr) {
      lines.push_back(fmt::format("- {}: {}", a.signature.name, variant));
    } else if (x == nullptr) {
      lines.push_back(fmt::format("+ {}: {}", a.signature.name, variant));
    } else if (!same_artifact(*x, *y)) {
      std::string what;
      const auto add = [&](bool differs, const char* name) {
        if (differs) what += (what.empty() ? "" : ", ") + std::string(name);
      };
      add(x->code_key != y->code_key, "code key");
      add(x->code_digest != y->code_digest, "code");
      add(x->proof_key != y->proof_key, "proof key");
      add(x->toolchain.digest != y->toolchain.digest, "toolchain");
      add(what.empty(), "record");
      lines.push_back(fmt::format("~ {}: {}: {}", a.signature.name, variant, what));
    }
  }
}

// Items that only one of the two has, by a text that says all of an item.
template <class T, class Text>
void diff_counts(const std::string& op, const char* what, const std::vector<T>& a,
                 const std::vector<T>& b, Text text, std::vector<std::string>& lines) {
  std::set<std::string> in_a, in_b;
  for (const auto& item : a) in_a.insert(text(item));
  for (const auto& item : b) in_b.insert(text(item));
  std::size_t removed = 0, added = 0;
  for (const auto& item : in_a) removed += in_b.contains(item) ? 0 : 1;
  for (const auto& item : in_b) added += in_a.contains(item) ? 0 : 1;
  if (removed != 0) lines.push_back(fmt::format("- {}: {} {}", op, removed, what));
  if (added != 0) lines.push_back(fmt::format("+ {}: {} {}", op, added, what));
}

std::string entry_text(const TableEntry& e) {
  std::string out = fmt::format("{} {} {} {} {}", e.target, e.device_model, to_string(e.dtypes),
                                e.layout, tier_name(e.contract));
  for (const auto* values : {&e.dims, &e.attributes})
    for (const auto& [name, value] : *values) out += " " + name + "=" + to_string(value);
  return out + fmt::format(" {} {} {}", e.code_key.hex(), e.median_us, e.baseline_us);
}

}  // namespace

Result<MergeResult> merge_packs(const std::vector<Path>& in, const Path& out, const Trust& trust,
                                const SigningKey& key, MergeConflict conflict) {
  PackContents merged;
  MergeResult result;
  std::map<std::string, std::size_t> sections;
  for (const auto& path : in) {
    OPFORGE_ASSIGN(const auto pack, Pack::open(path, trust));
    OPFORGE_ASSIGN(auto contents, read_pack(*pack));
    std::move(contents.codes.begin(), contents.codes.end(), std::back_inserter(merged.codes));
    for (auto& section : contents.sections) {
      const auto [at, is_new] = sections.emplace(section.signature.name, merged.sections.size());
      if (is_new) {
        merged.sections.push_back(std::move(section));
        continue;
      }
      auto& into = merged.sections[at->second];
      if (!same_signature(into.signature, section.signature))
        return fail(Code::kInvalidArgument,
                    fmt::format("{} is declared differently in '{}' than in the packs before: "
                                "build them from the same "
                                "sources",
                                section.signature.name, path.string()),
                    kWhere);
      merge_table(into, section);
      std::copy(section.attestations.begin(), section.attestations.end(),
                std::back_inserter(into.attestations));
      OPFORGE_TRY(merge_artifacts(into, std::move(section), conflict, path, result));
    }
  }
  for (auto& section : merged.sections) {
    drop_dangling(section);
    result.variants += section.artifacts.size();
  }
  result.operators = merged.sections.size();
  OPFORGE_TRY(write_pack(out, std::move(merged), &key));
  return result;
}

Result<PackDiff> diff_packs(const Path& a, const Path& b, const Trust& trust) {
  OPFORGE_ASSIGN(const auto first, Pack::open(a, trust));
  OPFORGE_ASSIGN(const auto second, Pack::open(b, trust));
  PackDiff diff;
  const auto changed = [&](const char* what, const std::string& x, const std::string& y) {
    if (x != y) diff.lines.push_back(fmt::format("~ {}: {} -> {}", what, x, y));
  };
  const auto signer = [](const Pack& pack) {
    return pack.info().signer.empty() ? std::string("unsigned") : pack.info().signer;
  };
  changed("signer", signer(*first), signer(*second));
  changed("opforge version", first->info().opforge_version, second->info().opforge_version);
  if (first->info().root_digest == second->info().root_digest) return diff;
  std::set<std::string> names;
  for (const auto& pack : {first, second})
    for (const auto& op : pack->operators()) names.insert(op);
  for (const auto& op : names) {
    const auto x = first->section(op), y = second->section(op);
    if (!x && x.error().code != Code::kNotFound) return fail(x.error());
    if (!y && y.error().code != Code::kNotFound) return fail(y.error());
    if (!x || !y) {
      diff.lines.push_back(
          fmt::format("{} {}: {} variants", x ? "-" : "+", op, (x ? *x : *y)->artifacts.size()));
      continue;
    }
    if (!same_signature((*x)->signature, (*y)->signature))
      diff.lines.push_back(fmt::format("~ {}: declaration", op));
    diff_artifacts(**x, **y, diff.lines);
    diff_counts(op, "measured choices", (*x)->table, (*y)->table, entry_text, diff.lines);
    diff_counts(
        op, "attestations", (*x)->attestations, (*y)->attestations,
        [](const Attestation& item) { return attestation_message(item); }, diff.lines);
  }
  return diff;
}

}  // namespace opforge
