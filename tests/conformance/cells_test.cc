#include "conformance/cells.hpp"

namespace opforge::conformance {
namespace {

TEST(Cells, EveryOperatorHasACellForEachOfferedTierAndDtype) {
  std::set<std::string> names;
  for (Cell cell : all_cells()) {
    cell.takes_long = false;  // a part of the name only
    EXPECT_TRUE(names.insert(cell.name()).second) << cell.name();
  }
  for (const Operator* op : catalogue().all()) {
    EXPECT_NE(op->reference, nullptr) << op->signature.name;
    for (const KernelDecl& kernel : op->kernels) {
      for (const DTypeCombo& dtypes : op->signature.dtypes) {
        if (!has_dtypes(kernel, dtypes)) continue;
        EXPECT_TRUE(
            names.contains(Cell{op->signature.name, kernel.backend, kernel.tier, dtypes}.name()))
            << kernel.id << " " << to_string(dtypes) << " is in no cell";
      }
    }
  }
}

}  // namespace
}  // namespace opforge::conformance
