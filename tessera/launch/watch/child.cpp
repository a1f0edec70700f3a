#include "tessera/launch/watch/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;  // longer ones are told in pieces

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Between fork and exec only calls that are safe there: the parent may have threads.
[[noreturn]] void become(char* const* argv, char* const* envp, int errors, int null_input,
                         std::span<const int> inherited, const sigset_t& blocked, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  dup2(null_input, STDIN_FILENO);
  dup2(errors, STDERR_FILENO);
  for (const int number : inherited) fcntl(number, F_SETFD, 0);
  execvpe(argv[0], argv, envp);
  const char* reason = strerrordesc_np(errno);
  for (const char* part : {"cannot start ", static_cast<const char*>(argv[0]), ": ", reason, "\n"})
    if (part && write(STDERR_FILENO, part, strlen(part)) < 0) break;
  _exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const std::vector<const Descriptor*>& inherited, const sigset_t& blocked) {
  int ends[2];
  TESSERA_CHECK(pipe2(ends, O_CLOEXEC) == 0, system_reason());
  errors_ = Descriptor(ends[0]);
  const Descriptor write_end(ends[1]), null_input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  fcntl(errors_.number(), F_SETFL, O_NONBLOCK);
  const auto argv = pointers(command), envp = pointers(environment);
  std::vector<int> numbers;
  for (const auto* descriptor : inherited) numbers.push_back(descriptor->number());
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0)
    become(argv.data(), envp.data(), write_end.number(), null_input.number(), numbers, blocked, parent);
  if (pid_ < 0) throw UserError(cat("cannot start a process: ", system_reason()));
  setpgid(pid_, pid_);  // here too: a signal to the group must not come before the group exists
}

void Child::collect_errors() {
  char buffer[16384];
  while (errors_) {
    const ssize_t count = read(errors_.number(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return errors_.reset();
    unread_.append(buffer, static_cast<std::size_t>(count));
  }
}

std::vector<std::string> Child::take_error_lines(bool all) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto end = unread_.find('\n'); end != unread_.npos; end = unread_.find('\n', begin)) {
    lines.push_back(unread_.substr(begin, end - begin));
    begin = end + 1;
  }
  unread_.erase(0, begin);
  if ((all || unread_.size() > kLongestLine) && !unread_.empty())
    lines.push_back(std::exchange(unread_, std::string()));
  return lines;
}

const std::optional<Ending>& Child::ending() {
  siginfo_t info{};
  if (ending_ || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return ending_;
  // Before it is reaped: so long its number, and that of its group, can't be anybody else's.
  signal(SIGKILL);
  collect_errors();
  waitpid(pid_, nullptr, 0);
  const bool exited = info.si_code == CLD_EXITED;
  ending_ = Ending{exited ? info.si_status : 128 + info.si_status, exited ? 0 : info.si_status};
  return ending_;
}

void Child::signal(int number) const {
  if (!ending_) kill(-pid_, number);
}

std::string to_text(const Ending& ending) {
  if (ending.signal == 0) return cat("exit code ", ending.code);
  const char* name = sigdescr_np(ending.signal);
  return cat("signal ", ending.signal, " (", name ? name : "unknown", ")");
}

}  // namespace tessera::launch
