// The worker of the tuner's tests: as `opforge __worker`, with the test operators.
#include "tune/worker.hpp"

#include "tests/tune/test_operators.hpp"

int main() {
  return opforge::worker_main([] { return opforge::test::test_catalogue(); });
}
