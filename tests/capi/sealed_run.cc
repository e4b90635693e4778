// A sealed run of a stand-alone program that the kernel watches: any attempt to write to a file
// system, to start a process or to open a socket kills it (SIGSYS).
//
//   sealed_run PACK KEY [write]     "write": attempt one, to show that the watch works
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <opforge/opforge.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace {

constexpr int kNoFilters = 77;

bool watch() {
  std::vector<sock_filter> filter;
  const auto load = [&](std::size_t offset) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)));
  };
  const auto kill_if = [&](unsigned number) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  };
  // openat(2)'s flags, and open(2)'s: anything but reading is an attempt to write.
  const auto kill_if_writing = [&](unsigned number, int argument) {
    load(offsetof(seccomp_data, nr));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3));
    load(offsetof(seccomp_data, args) + static_cast<std::size_t>(argument) * 8);
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K,
                              O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  };
  kill_if_writing(SYS_openat, 2);
  kill_if_writing(SYS_open, 1);
  load(offsetof(seccomp_data, nr));
  for (const unsigned number :
       {SYS_creat,     SYS_mkdir,     SYS_mkdirat,   SYS_unlink,   SYS_unlinkat, SYS_rmdir,
        SYS_rename,    SYS_renameat,  SYS_renameat2, SYS_link,     SYS_linkat,   SYS_symlink,
        SYS_symlinkat, SYS_truncate,  SYS_chmod,     SYS_fchmodat, SYS_chown,    SYS_mknod,
        SYS_mknodat,   SYS_utimensat, SYS_openat2,   SYS_execve,   SYS_execveat, SYS_fork,
        SYS_vfork,     SYS_socket}) {
    kill_if(number);
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, opforge_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (!watch()) return kNoFilters;
  if (argc > 3 && strcmp(argv[3], "write") == 0) {
    const int fd = open("/dev/null", O_WRONLY);
    return fd >= 0 ? 3 : 4;
  }
  opforge_seal();
  opforge_context* context = nullptr;
  if (opforge_context_create(nullptr, &context) != OPFORGE_OK) return failed("context");
  opforge_pack_options options;
  OPFORGE_INIT(options);
  const char* key = argv[2];
  options.trusted_keys = &key;
  options.trusted_key_count = 1;
  options.only_named_keys = 1;
  if (opforge_pack_open(context, argv[1], &options) != OPFORGE_OK) return failed("pack");
  // Enough rows that the threads start.
  int64_t shape[2] = {1024, 64};
  std::vector<float> x(1024 * 64), y(1024 * 64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  DLTensor tx{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0}, ty = tx;
  ty.data = y.data();
  const DLTensor* tensors[] = {&tx, &ty};
  for (const char* op : {"test.scale", "test.scratch"}) {
    y.assign(y.size(), 0);
    if (opforge_call(context, op, tensors, 2, nullptr, 0, nullptr) != OPFORGE_OK) return failed(op);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (y[i] != 2 * x[i]) return 5;
    }
  }
  opforge_context_destroy(context);
  return 0;
}
