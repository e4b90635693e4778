// opforge: the shell. Declares the commands; each command's file holds its body.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "base/log.hpp"
#include "base/process.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "forge/catalogue.hpp"
#include "tune/worker.hpp"

#ifndef OPFORGE_VERSION
#error "OPFORGE_VERSION is defined by cli/CMakeLists.txt"
#endif

int main(int argc, char** argv) {
  using namespace opforge;
  // Tuning workers are this program again, so that a candidate that crashes takes only its worker with it.
  if (argc == 2 && std::strcmp(argv[1], "__worker") == 0) return worker_main([] { return load_catalogue(); });

  install_interrupt_handler();
  set_log_sink(
      [](LogLevel level, std::string_view subsystem, std::string_view message) {
        std::fprintf(stderr, "%s: %.*s: %.*s\n", level == LogLevel::kError ? "error" : "warning", int(subsystem.size()),
                     subsystem.data(), int(message.size()), message.data());
      },
      LogLevel::kWarning);

  CLI::App app{
      "opforge: declare an operator once, write its kernels in any language, prove, tune and compile them ahead of time\n"
      "into one signed pack, and launch the right kernel with no compiler in production.\n"
      "Exit codes: 0 done, 1 something in the job failed, 2 wrong arguments, 3 not possible here (reason printed).",
      "opforge"};
  app.set_version_flag("--version", OPFORGE_VERSION);
  app.require_subcommand(1);
  // For programs that read the reason of a failure, such as the Python package.
  app.add_flag("--errors-json", cli::errors_as_json(), "")->group("");
  app.get_formatter()->column_width(34);
  cli::add_doctor(app);
  cli::add_ops(app);
  cli::add_verify(app);
  cli::add_tune(app);
  cli::add_build(app);
  cli::add_pack(app);
  cli::add_run(app);
  cli::add_trace(app);
  cli::add_bench(app);
  cli::add_cache(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  return cli::last_exit();
}
