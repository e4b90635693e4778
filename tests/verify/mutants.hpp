// Planted faults: wrong kernels, made from the real ones, that the generic suites must find without
// knowing of them.
//
// Three sources:
//   - the launch record: strides, sizes, grids and attributes bound wrongly. Made for every kernel
//   of the catalogue.
//   - a wrapper round the kernel's entry that misbehaves before or after. Made for every kernel of
//   the catalogue.
//   - ops/<group>/<op>/mutants.json: text of a kernel's source (or of a helper header that it
//   includes) that is replaced:
//       [{"file": "cpu.cc", "find": "...", "replace": "...", "fault": "fp16_accumulator", "dtypes":
//       "bf16"}]
//     `find` must still be there: a mutant that no longer applies fails its test. `file` names the
//     backend by its kernel's source; a header is looked for in the operator's folder, then in
//     backends/<backend>/include, and "backend" is given.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"
#include "conformance/cells.hpp"

namespace opforge::conformance {

struct Mutant {
  std::string op, kernel, backend, fault;
  std::string dtypes;  // as dtypes_name(); empty: the operator's first
  // Text to replace.
  std::string file, find, replace;
  // Lines that a wrapper has before and after the real call; `entry`: which step.
  std::string before, after;
  // Launch record: what binding or grid becomes. `slot`: "grid", or the name of a binding.
  std::string slot, value;
  std::string name() const;  // a test's name
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name(); }

// Of every kernel of the catalogue, in a fixed order.
std::vector<Mutant> all_mutants();

// The operator with this mutant in place of its kernel, its sources in `folder` (a new copy of the
// operator's). An error when the mutant does not apply.
Result<Operator> plant(const Mutant& mutant, const Path& folder);

}  // namespace opforge::conformance
