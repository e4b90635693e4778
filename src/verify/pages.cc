#include "verify/pages.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "runtime/timer.hpp"

namespace opforge {
namespace {

// Shared memory between two pages that may not be touched.
class FencedMemory {
 public:
  FencedMemory() = default;
  FencedMemory(FencedMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), mapped_(other.mapped_), inner_(other.inner_) {}
  FencedMemory& operator=(FencedMemory&&) = delete;
  ~FencedMemory() {
    if (base_ != nullptr) munmap(base_, mapped_);
  }

  static Result<FencedMemory> make(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    FencedMemory out;
    out.inner_ = std::max<std::size_t>((bytes + page - 1) / page, 1) * page;
    out.mapped_ = out.inner_ + 2 * page;
    void* base = mmap(nullptr, out.mapped_, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
      return fail(Code::kOutOfMemory, fmt::format("no {} bytes of memory for a trial", out.mapped_),
                  "verify");
    }
    out.base_ = static_cast<std::byte*>(base);
    out.first_ = page;
    if (mprotect(out.base_ + page, out.inner_, PROT_READ | PROT_WRITE) != 0) {
      return fail(Code::kOutOfMemory, "memory for a trial cannot be opened for writing", "verify");
    }
    return out;
  }

  std::byte* place(std::size_t bytes, bool at_end) const {
    return base_ + first_ + (at_end ? inner_ - bytes : 0);
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0, inner_ = 0, first_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
};

struct Fenced {
  std::vector<FencedMemory> memory;
  std::vector<TensorView> views;
  std::vector<void*> data;
};

Result<Fenced> fence(const TrialMemory& memory, bool at_end) {
  Fenced out;
  for (std::size_t i = 0; i < memory.views().size(); ++i) {
    TensorView view = memory.views()[i];
    if (view.present()) {
      OPFORGE_ASSIGN(const std::string bytes, memory.tensors()[i].bits());
      OPFORGE_ASSIGN(FencedMemory fenced, FencedMemory::make(bytes.size()));
      view.data = fenced.place(bytes.size(), at_end);
      std::memcpy(view.data, bytes.data(), bytes.size());
      out.memory.push_back(std::move(fenced));
    }
    out.views.push_back(view);
    out.data.push_back(view.present() ? view.data : nullptr);
  }
  return out;
}

// Only the forking thread lives on in the child: it runs the code by itself and leaves without
// unwinding anything.
Result<std::string> run_in_child(const Plan& plan, const Fenced& fenced) {
  std::string workspace(plan.workspace_bytes() + 256, '\0');
  void* aligned = workspace.data();
  std::size_t space = workspace.size();
  std::align(256, plan.workspace_bytes(), aligned, space);
  const pid_t child = fork();
  if (child < 0) return fail(Code::kInternal, "cannot fork for a trial", "verify");
  if (child == 0) {
    for (const int caught : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(caught, SIG_DFL);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(60);
    _exit(plan.execute(fenced.data.data(), aligned, nullptr) ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return std::string(WEXITSTATUS(status) == 0 ? "" : "the call failed");
  const int caught = WTERMSIG(status);
  if (caught == SIGSEGV || caught == SIGBUS) return std::string("touched memory");
  return fmt::format("died of signal {}", caught);
}

}  // namespace

Result<std::string> touched_outside(LoadedSubject& subject, const Operator& op,
                                    const Trial& trial) {
  if (subject.device().device.kind != DeviceKind::kCpu) {
    return fail(Code::kUnavailable, "this code does not run on host memory", "verify");
  }
  OPFORGE_ASSIGN(TrialMemory memory,
                 TrialMemory::make(op, trial, subject.api(), subject.device().device));
  for (const bool at_end : {true, false}) {
    OPFORGE_ASSIGN(const Fenced fenced, fence(memory, at_end));
    OPFORGE_ASSIGN(const LoadedSubject::Planned planned,
                   subject.plan(fenced.views, trial.attributes));
    if (!planned.plan) return fail(Code::kUnavailable, planned.refused, "verify");
    Timer* timer = subject.api().timer();
    if (timer != nullptr) (void)timer->limit_threads(1);
    const auto ended = run_in_child(*planned.plan, fenced);
    if (timer != nullptr) (void)timer->limit_threads(0);
    if (!ended) return fail(ended.error());
    if (!ended->empty())
      return fmt::format("{} {} of a tensor", *ended,
                         at_end ? "after the end" : "before the start");
  }
  return std::string();
}

}  // namespace opforge
