// Each function adds one command (or a family) to the shell. The bodies are thin: the work is the libraries'.
#pragma once

#include <CLI/CLI.hpp>

namespace opforge::cli {

void add_doctor(CLI::App& app);
void add_ops(CLI::App& app);      // ops, show
void add_verify(CLI::App& app);
void add_tune(CLI::App& app);
void add_build(CLI::App& app);
void add_pack(CLI::App& app);     // pack ..., trust ...
void add_run(CLI::App& app);      // run, explain
void add_trace(CLI::App& app);
void add_bench(CLI::App& app);
void add_cache(CLI::App& app);    // cache ..., records ...

}  // namespace opforge::cli
