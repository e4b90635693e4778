// How many host threads CPU kernels of this process may use together.
#pragma once

namespace opforge {

// OPFORGE_THREADS as it was at the first use, else the cores that this process may run on; at
// least 1.
int cpu_threads();
// From now on; values below 1 return to the default.
void set_cpu_threads(int threads);

}  // namespace opforge
