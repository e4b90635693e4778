// Jobs on packs: inspect, verify, attest, sign, merge, diff, extract. None runs code or compiles.
// (Trust: artifact/keys.hpp; listing, clearing and pruning the store: artifact/store.hpp.)
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "artifact/pack.hpp"

namespace opforge {

// --- Inspect ---

struct PackVariantRow {
  std::string variant, kernel, backend, target, code_kind, toolchain;  // toolchain: "nvrtc 13.0"
  Tier tier = Tier::kFast;
  std::uint64_t code_bytes = 0;
  int min_driver = 0;
  Digest code_key, code_digest;
  std::map<std::string, Tier> proved;  // device model -> strictest tier with a passing attestation
};

struct PackOperatorRow {
  std::string name, formula, default_contract;
  std::uint64_t section_bytes = 0, code_bytes = 0;  // code_bytes: unpacked, equal code counted once
  std::size_t table_entries = 0;
  std::set<std::string> backends, targets, tiers, dtypes, measured_on;
  std::vector<PackVariantRow> variants;
};

// Attestations of one device model by one key.
struct PackAttestationRow {
  std::string device_model, signer;
  bool signer_trusted = false;
  std::size_t passed = 0, failed = 0;
};

struct PackReport {
  std::string path;
  PackInfo info;
  bool trusted = false;  // would be opened here; otherwise `trust_note` says why not and what to do
  std::string trust_note;
  std::vector<PackOperatorRow> operators;
  std::vector<PackAttestationRow> attestations;
  std::size_t unproved =
      0;  // variants without a passing attestation on any device: they serve FAST only
};

// Looks into any intact pack, also one whose signer is unknown here: nothing of it is run. `trust`
// is that of the process and only decides what the report says about it.
Result<PackReport> inspect_pack(const Path& path, const Trust& trust);
std::string pack_report_to_json(const PackReport& report);

// --- Verify ---

struct PackCheck {
  std::size_t sections = 0, blobs = 0, attestations = 0;
  std::string signer;  // empty: unsigned
};
// Opens it as a process with this trust would and checks every byte.
Result<PackCheck> verify_pack(const Path& path, const Trust& trust);

// --- Change: each reads packs that `trust` accepts and writes `out` (may be `in`), signed with
// `key` ---

struct AttestResult {
  std::size_t added = 0,
              known = 0;  // known: were there already, or are of code that is not in the pack
};
// Merge attestation files; every one must be signed by a trusted key. The code is not touched.
Result<AttestResult> attest_pack(const Path& in, const std::vector<Path>& attestations,
                                 const Path& out, const Trust& trust, const SigningKey& key);

// Sign with one's own key, i.e. answer for it. An unsigned pack may be signed; one of an unknown
// key must be trusted first.
Status sign_pack(const Path& in, const Path& out, const Trust& trust, const SigningKey& key);

// What to do where two packs hold the same variant with different code.
enum class MergeConflict { kFail, kTakeFirst };
struct MergeResult {
  std::size_t operators = 0, variants = 0;
  std::size_t same = 0, left_out = 0;  // of later packs: held already, or in conflict
};
// Of measurements that answer the same question the faster choice stays. kInvalidArgument when an
// operator is declared differently in two packs, or on a conflict.
Result<MergeResult> merge_packs(const std::vector<Path>& in, const Path& out, const Trust& trust,
                                const SigningKey& key,
                                MergeConflict conflict = MergeConflict::kFail);

// --- Compare and unpack ---

struct PackDiff {
  std::vector<std::string>
      lines;  // "- group.op: variant", "+ ...", "~ group.op: variant: code, launch"
  bool same() const { return lines.empty(); }
};
// A difference in signers or versions is a line too: "~ signer: <key> -> <key>".
Result<PackDiff> diff_packs(const Path& a, const Path& b, const Trust& trust);

struct ExtractFilter {
  std::string op, target;  // empty: all
};
// Writes <folder>/<operator>/<kernel>-<code key>.{so,cubin,ptx,bin} and .json (the manifest).
// Returns the files of code.
Result<std::vector<Path>> extract_pack(const Path& in, const Path& folder,
                                       const ExtractFilter& filter, const Trust& trust);

}  // namespace opforge
