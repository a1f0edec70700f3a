// A library for LD_PRELOAD that counts the calls of a process that change files below a folder, and makes the
// k-th go wrong. The environment configures it:
//   TESSERA_FAULT_FOLDER   count calls on this path and below it (absolute, without links)
//   TESSERA_FAULT_FROM     begin to count at the first call on a path that holds this text (default: at once)
//   TESSERA_FAULT_WHERE    only in processes with this NAME=VALUE in their environment, such as
//                          TESSERA_RANK=1
//   TESSERA_FAULT_AT       which call goes wrong, from 1 (default: none)
//   TESSERA_FAULT_DOES     how: enospc, eio, efbig (that call alone fails), full (it and every later call
//                          that takes space fail), short (half is written, and the next write fails with
//                          ENOSPC), kill-before, kill-after, hang (that call never returns; opening to read
//                          counts too)
//   TESSERA_FAULT_LOCKS    the answer to a process that asks for a lock on an open file: granted, or none
//                          (there are no locks)
//   TESSERA_FAULT_REPORT   append a line per counted call to this file: rank, number, call, path
// System calls are made directly, so nothing below calls itself. Calls that bypass libc (io_uring, mapped
// files that are written) are not seen.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

enum class Does { nothing, enospc, eio, efbig, full, cut, kill_before, kill_after, hang };
enum class Call { write, space, plain };  // `space`: may need room on the disk

struct Plan {
  std::string_view folder, from, report;
  long at = 0;
  Does does = Does::nothing;
};

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Does does_of(std::string_view word) {
  if (word == "enospc") return Does::enospc;
  if (word == "eio") return Does::eio;
  if (word == "efbig") return Does::efbig;
  if (word == "full") return Does::full;
  if (word == "short") return Does::cut;
  if (word == "kill-before") return Does::kill_before;
  if (word == "kill-after") return Does::kill_after;
  if (word == "hang") return Does::hang;
  return Does::nothing;
}

bool runs_here(std::string_view where) {
  const auto equals = where.find('=');
  if (equals == std::string_view::npos) return true;
  char name[64] = {};
  where.copy(name, std::min(equals, sizeof name - 1));
  return setting(name) == where.substr(equals + 1);
}

Plan read_plan() {
  Plan out;
  if (!runs_here(setting("TESSERA_FAULT_WHERE"))) return out;
  out.folder = setting("TESSERA_FAULT_FOLDER");
  out.from = setting("TESSERA_FAULT_FROM");
  out.report = setting("TESSERA_FAULT_REPORT");
  out.at = std::atol(setting("TESSERA_FAULT_AT").data());
  out.does = does_of(setting("TESSERA_FAULT_DOES"));
  return out;
}

std::atomic<bool> counting{false};
std::atomic<bool> cut_before{false};
std::atomic<long> count{0};

// A forked process begins anew, by the environment that it finds.
Plan& plan() {
  static Plan made = [] {
    pthread_atfork(nullptr, nullptr, [] {
      plan() = read_plan();
      counting = cut_before = false;
      count = 0;
    });
    return read_plan();
  }();
  return made;
}

// The absolute path of `path` in the folder `at`, or of the descriptor itself when there is no path.
struct Place {
  char text[2 * PATH_MAX] = {};

  Place(int at, const char* path) {
    std::size_t length = 0;
    if (path && path[0] == '/') {
      std::strncpy(text, path, sizeof text - 1);
      return;
    }
    char link[64] = "/proc/self/cwd";
    if (at != AT_FDCWD) std::snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    const long read = syscall(SYS_readlinkat, AT_FDCWD, link, text, PATH_MAX - 1);
    length = read > 0 ? static_cast<std::size_t>(read) : 0;
    text[length] = 0;
    if (path) std::snprintf(text + length, sizeof text - length, "/%s", path);
  }
};

void report(const char* call, long number, const char* path) {
  if (plan().report.empty()) return;
  const char* rank = std::getenv("TESSERA_RANK");
  if (!rank) rank = std::getenv("RANK");
  char line[2 * PATH_MAX + 64];
  const int length =
      std::snprintf(line, sizeof line, "%s %ld %s %s\n", rank ? rank : "-", number, call, path);
  const long file =
      syscall(SYS_openat, AT_FDCWD, plan().report.data(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  syscall(SYS_write, file, line, std::min(static_cast<std::size_t>(length), sizeof line - 1));
  syscall(SYS_close, file);
}

[[noreturn]] void die() {
  syscall(SYS_kill, getpid(), SIGKILL);
  while (true) pause();
}

// What happens to one call: counts it, and dies here if it is to die before it.
struct Fate {
  int error = 0;     // fails with this
  bool cut = false;  // writes half
  bool dies_after = false;

  Fate(const char* call, Call kind, int at, const char* path) {
    if (plan().folder.empty()) return;
    const int kept = errno;
    const Place place(at, path);
    const std::string_view name = place.text, folder = plan().folder;
    const bool below =
        name.starts_with(folder) && (name.size() == folder.size() || name[folder.size()] == '/');
    if (below && (counting || name.find(plan().from) != std::string_view::npos)) {
      counting = true;
      const long number = ++count;
      report(call, number, place.text);
      if (number >= plan().at && plan().at > 0) strike(number == plan().at, kind);
    }
    errno = kept;
  }

  void strike(bool is_it, Call kind) {
    const Does does = plan().does;
    if (kind == Call::write && cut_before.exchange(false)) error = ENOSPC;
    if (does == Does::full && kind != Call::plain) error = ENOSPC;
    if (!is_it) return;
    if (does == Does::kill_before) die();
    while (does == Does::hang) pause();
    if (does == Does::enospc) error = ENOSPC;
    if (does == Does::eio) error = EIO;
    if (does == Does::efbig) error = EFBIG;
    dies_after = does == Does::kill_after;
    cut = does == Does::cut && kind == Call::write;
    cut_before = cut;
  }

  std::size_t length(std::size_t wanted) const { return cut ? std::max<std::size_t>(wanted / 2, 1) : wanted; }

  template <typename... Arguments>
  long make(long number, Arguments... arguments) const {
    if (error != 0) return errno = error, -1;
    const long result = syscall(number, arguments...);
    if (dies_after) die();
    return result;
  }
};

int created(const char* call, int at, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) == 0 && plan().does != Does::hang)
    return static_cast<int>(syscall(SYS_openat, at, path, flags, mode));
  return static_cast<int>(Fate(call, Call::space, at, path).make(SYS_openat, at, path, flags, mode));
}

// The mode is there only when a file may be made.
mode_t mode_of(int flags, va_list& arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* data, size_t bytes) {
  const Fate fate("write", Call::write, file, nullptr);
  return fate.make(SYS_write, file, data, fate.length(bytes));
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  const Fate fate("pwrite", Call::write, file, nullptr);
  return fate.make(SYS_pwrite64, file, data, fate.length(bytes), at);
}
ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t writev(int file, const iovec* parts, int num_parts) {
  const Fate fate("writev", Call::write, file, nullptr);
  if (!fate.cut || num_parts == 0) return fate.make(SYS_writev, file, parts, num_parts);
  return fate.make(SYS_write, file, parts[0].iov_base, fate.length(parts[0].iov_len));
}
int fsync(int file) {
  return static_cast<int>(Fate("fsync", Call::space, file, nullptr).make(SYS_fsync, file));
}
int fdatasync(int file) {
  return static_cast<int>(Fate("fdatasync", Call::space, file, nullptr).make(SYS_fdatasync, file));
}
int syncfs(int file) noexcept {
  return static_cast<int>(Fate("syncfs", Call::space, file, nullptr).make(SYS_syncfs, file));
}
int ftruncate(int file, off_t bytes) noexcept {
  return static_cast<int>(Fate("ftruncate", Call::space, file, nullptr).make(SYS_ftruncate, file, bytes));
}
int ftruncate64(int, off64_t) noexcept __attribute__((alias("ftruncate")));
int fallocate(int file, int mode, off_t at, off_t bytes) {
  return static_cast<int>(
      Fate("fallocate", Call::space, file, nullptr).make(SYS_fallocate, file, mode, at, bytes));
}
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
// A close that fails has closed all the same.
int close(int file) {
  const Fate fate("close", Call::plain, file, nullptr);
  const long result = syscall(SYS_close, file);
  if (fate.dies_after) die();
  if (fate.error != 0) errno = fate.error;
  return fate.error != 0 ? -1 : static_cast<int>(result);
}

int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const std::string_view locks = setting("TESSERA_FAULT_LOCKS");
  if (command == F_OFD_SETLK && locks == "granted") return 0;
  if (command == F_OFD_SETLK && locks == "none") return errno = ENOLCK, -1;
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return created("open", AT_FDCWD, path, flags, mode);
}
int open64(const char*, int, ...) __attribute__((alias("open")));
int openat(int at, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return created("open", at, path, flags, mode);
}
int openat64(int, const char*, int, ...) __attribute__((alias("openat")));
int creat(const char* path, mode_t mode) {
  return created("open", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static const auto real = reinterpret_cast<FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "fopen"));
  if (mode[0] == 'r' && plan().does != Does::hang) return real(path, mode);
  const Fate fate("open", Call::space, AT_FDCWD, path);
  if (fate.error != 0) return errno = fate.error, nullptr;
  FILE* file = real(path, mode);
  if (fate.dies_after) die();
  return file;
}
FILE* fopen64(const char*, const char*) __attribute__((alias("fopen")));

int mkdirat(int at, const char* path, mode_t mode) noexcept {
  return static_cast<int>(Fate("mkdir", Call::space, at, path).make(SYS_mkdirat, at, path, mode));
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return static_cast<int>(
      Fate("rename", Call::space, to_at, to).make(SYS_renameat2, from_at, from, to_at, to, flags));
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return renameat2(from_at, from, to_at, to, 0);
}
int rename(const char* from, const char* to) noexcept { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
  return static_cast<int>(
      Fate("link", Call::space, to_at, to).make(SYS_linkat, from_at, from, to_at, to, flags));
}
int link(const char* from, const char* to) noexcept { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int at, const char* path, int flags) noexcept {
  return static_cast<int>(Fate((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", Call::plain, at, path)
                              .make(SYS_unlinkat, at, path, flags));
}
int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat facts {};
  const bool is_folder = lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
  return unlinkat(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

}  // extern "C"
